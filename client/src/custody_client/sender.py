"""The background thread of one client: walks over its runs, one request at a time, and sleeps otherwise."""

from collections.abc import Callable, Mapping
from queue import Empty
from time import monotonic
from typing import Final, TypeVar

from custody_client.accounts import Account
from custody_client.addresses import Address
from custody_client.answers import NotUnderstood, Problem
from custody_client.deliveries import Delivery
from custody_client.masking import Mask, Masker
from custody_client.offices import Office
from custody_client.pauses import Pause
from custody_client.transport import Answer, Deadline, Unanswered, Wire

_REQUEST_S: Final = 5.0
_TICK_S: Final = 0.05
_TROUBLED_TICK_S: Final = 0.25
_LONGEST_SLEEP_S: Final = 5.0
_QUIET_S: Final = 30.0
# At the end of the process: time to tell what could not be sent any more, and how often a silent service is asked.
_LAST_WORDS_S: Final = 0.5
_MOST_FAILURES: Final = 2

Found = TypeVar("Found")


class Sender:
    """Everything that talks to one service. Made anew in a forked process: nothing of it survives a fork."""

    def __init__(self, office: Office, address: Address, mask: Mask | None) -> None:
        self.office = office
        self.pause = Pause()
        self.was_sent = False
        """Whether the service may have had the last request, if it was not answered."""
        self.asking = False
        self.masker = None if mask is None else Masker(mask, office.bounds.mask_s, self._look_around)
        self._wire = Wire(address)
        self._deliveries: dict[Account, Delivery] = {}
        self._ended = False
        self._silent = 0
        """How often the service had not answered when the end began."""

    # --- the thread

    def work(self) -> None:
        """Go round until the end."""
        while not self._ended:
            self.turn()
            self._sleep()

    def finish(self) -> None:
        """Go round in this thread until everything is done or the time is over; the end of the process."""
        while not self._ended:
            self.turn()
            if not self._ended:
                self._nap(_TICK_S)

    def turn(self) -> None:
        """Go round once. Nothing that goes wrong in it ends the thread."""
        try:
            self._turn(monotonic())
        except Exception as error:  # noqa: BLE001 - whatever it is, the next round is another
            self.office.trouble.note("sender", f"a round of the sender failed: {type(error).__name__}")
            self.pause.failed(monotonic())
        self.office.trouble.say()

    def _turn(self, now: float) -> None:
        if self.office.hurry:
            self.office.hurry = False
            self._silent = self.pause.failures
            self.pause.once_more()
        self._ending(now)
        for delivery in self._all():
            delivery.gather(now)
            delivery.step(monotonic())
            if delivery.over:
                self.office.forget(delivery.account)
                del self._deliveries[delivery.account]
        if len(self.office.accounts) > self.office.bounds.runs // 2:
            self._park(now)
        if not any(delivery.busy() for delivery in self._all()):
            self._flushed()

    def _park(self, now: float) -> None:
        """Forget runs that are quiet: somebody opens many and closes none, and the next ones need the room."""
        for delivery in self._all():
            if delivery.quiet(now) >= _QUIET_S and delivery.account.park():
                del self._deliveries[delivery.account]

    def _all(self) -> list[Delivery]:
        for account in list(self.office.accounts.values()):
            if account not in self._deliveries:
                self._deliveries[account] = Delivery(account, self)
        return list(self._deliveries.values())

    def _flushed(self) -> None:
        self.office.urgent = False
        while self.office.flushes:
            self.office.flushes.pop().set()
        if self.office.ending_at is not None:
            self.end()

    def _ending(self, now: float) -> None:
        """At the end of the process: give up in time, and say with the last words what was given up."""
        ending_at = self.office.ending_at
        if ending_at is None:
            return
        if now >= ending_at or self.pause.failures >= self._silent + _MOST_FAILURES:
            self.end()
        elif now >= ending_at - _LAST_WORDS_S:
            for delivery in self._all():
                delivery.shut_down()

    def end(self) -> None:
        """Let go of everything, and let the thread end."""
        for delivery in self._all():
            delivery.shut_down()
        self._ended = True
        self._wire.close()
        if self.masker is not None:
            self.masker.close()
        self.office.trouble.say()
        while self.office.flushes:
            self.office.flushes.pop().set()

    def hang_up(self) -> None:
        """Let go of the connection, which a forked process shares with its parent."""
        self._wire.close()

    # --- sleeping

    def _sleep(self) -> None:
        if self._ended:
            return
        now = monotonic()
        if any(delivery.busy() for delivery in self._all()):
            self._nap(_TICK_S if self.pause.over(now) else min(self.pause.until - now, _TROUBLED_TICK_S))
            return
        office = self.office
        due = min((delivery.due() for delivery in self._all()), default=now + _LONGEST_SLEEP_S)
        office.asleep = True
        # Whoever left something before that did not ring.
        if not any(account.marked for account in list(office.accounts.values())):
            self._nap(min(max(due - now, _TICK_S), _LONGEST_SLEEP_S))
        office.asleep = False

    def _nap(self, seconds: float) -> None:
        bell = self.office.bell
        try:
            bell.get(timeout=seconds)
            while True:
                bell.get_nowait()
        except Empty:
            return

    # --- asking

    def may_ask(self, now: float) -> bool:
        """Say whether a request may go now; one that was not answered makes all wait."""
        return not self._ended and self.pause.over(now)

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        read: Callable[[Answer], Found | Problem],
    ) -> Found | Problem | None:
        """Make one request and read its answer; None where none came, or none that the service can have meant."""
        self.office.requests += 1
        self.asking = True
        try:
            answer = self._wire.request(method, path, headers, body, self._deadline())
            self.was_sent = True
            found = read(answer)
        except Unanswered as fault:
            self.was_sent = fault.sent
            self._failed(f"the service does not answer: {fault.cause}")
            return None
        except NotUnderstood as fault:
            self._failed(f"the service's answer is not to be understood: {fault}")
            return None
        finally:
            self.asking = False
        if isinstance(found, Problem) and found.outage:
            self.office.trouble.note("outage", f"the service cannot take anything now: {found.reason}")
            self.pause.failed(monotonic(), _retry_after_s(answer))
        else:
            self.pause.answered()
        return found

    def _failed(self, text: str) -> None:
        self.office.unanswered += 1
        self.office.trouble.note("transport", text)
        self.pause.failed(monotonic())

    def _deadline(self) -> Deadline:
        return Deadline(monotonic() + _REQUEST_S, self._meanwhile)

    def _meanwhile(self, deadline: Deadline) -> None:
        self._look_around()
        ending_at = self.office.ending_at
        if ending_at is not None:
            deadline.at = min(deadline.at, ending_at)

    def _look_around(self) -> None:
        """What cannot wait for a request or a mask to end: held content whose time is over, and counting."""
        now = monotonic()
        for delivery in list(self._deliveries.values()):
            delivery.gather(now)


def _retry_after_s(answer: Answer) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text[:6]) if text.isascii() and text.isdigit() else 0.0
