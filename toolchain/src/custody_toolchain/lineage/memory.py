"""What a process remembers of the requests that it submitted: occurrences, newest kept, without any content."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from custody_toolchain.facts import Form, Link, View
from custody_toolchain.lineage.binding import Carried, lock
from custody_toolchain.lineage.finding import Found

# The form of what is not known is not known either; this claims least.
NOTHING_KNOWN = View(Form.PARTIAL)


class Occurrence(msgspec.Struct, frozen=True):
    """One object of one submitted request; a request that was tried again occurs once, with several attempts.

    `request` counts the run's from 1, `position` its messages from 0. Only where `link` is BOUND is there an action.
    """

    exchange: str
    request: int
    position: int
    link: Link
    view: View
    attempts: tuple[str | None, ...]
    action: str | None = None
    result_version: int | None = None
    call_id: str | None = None


class Sent(NamedTuple):
    """One attempt of one request; `links` go with `found`."""

    exchange: str
    request: int
    attempt: str | None
    found: Sequence[Found]
    links: Sequence[Link]

    def occurrence(self, at: int) -> Occurrence:
        """Return what stands at a place of `found`, as of this attempt alone."""
        found, link = self.found[at], self.links[at]
        carried = found.carried
        bound: Carried | None = carried if link is Link.BOUND else None
        return Occurrence(
            exchange=self.exchange,
            request=self.request,
            position=found.position,
            link=link,
            view=NOTHING_KNOWN if carried is None else carried.view,
            attempts=(self.attempt,),
            action=None if bound is None else bound.result.action,
            result_version=None if bound is None else bound.result.version,
            call_id=found.call_id,
        )


class Memory:
    """The newest attempts, so many that their occurrences are at most `most`; the rest is counted in `forgotten`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = 0
        self._sent: deque[Sent] = deque()
        self.forgotten = 0

    def add(self, sent: Sent) -> None:
        """Remember an attempt; of one that carried nothing there is nothing to remember."""
        if not sent.found:
            return
        with lock:
            self._sent.append(sent)
            self._kept += len(sent.found)
            while self._sent and self._kept > self._most:
                gone = len(self._sent.popleft().found)
                self._kept -= gone
                self.forgotten += gone

    def occurrences(self, action: str | None) -> tuple[Occurrence, ...]:
        """Return an action's occurrences, or with None those of no action; oldest request first."""
        known: dict[tuple[int, str, int, Link], Occurrence] = {}
        for sent, at in self._of(action):
            key = (sent.request, sent.exchange, at, sent.links[at])
            each = sent.occurrence(at)
            before = known.get(key)
            if before is not None:
                each = msgspec.structs.replace(each, attempts=(*before.attempts, *each.attempts))
            known[key] = each
        return tuple(known[key] for key in sorted(known, key=lambda key: (key[0], key[2])))

    def _of(self, action: str | None) -> Iterator[tuple[Sent, int]]:
        with lock:
            all_sent = tuple(self._sent)
        for sent in all_sent:
            for at, (found, link) in enumerate(zip(sent.found, sent.links, strict=True)):
                bound = found.carried if link is Link.BOUND else None
                if (None if bound is None else bound.result.action) == action:
                    yield sent, at
