"""One run's way to the service, walked by the background thread alone: declare, flush, tell losses, close.

Each step makes at most one request, so that runs take turns. Nothing leaves before the run is admitted.
"""

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from custody_client import answers
from custody_client.accounts import ASKING, MOST_STATES, OPEN, REFUSED, Account, Standing, Ticket
from custody_client.answers import Admission, Problem
from custody_client.flushing import Flushing
from custody_client.frames import Part, State
from custody_client.ranges import Ranges
from custody_client.reporting import Reporting
from custody_client.telling import Telling
from custody_client.words import (
    CLIENT_SHUTDOWN,
    CLIENT_TRANSPORT,
    FINAL,
    KIND_NOT_ADMITTED,
    NOT_OBSERVED,
    PART_TOO_LARGE,
    RUN_NOT_ADMITTED,
    sayable,
)

if TYPE_CHECKING:
    from custody_client.sender import Sender

# How long what waits is kept for a service that does not answer.
_PATIENCE_S: Final = 10.0
_ASK_AGAIN_S: Final = 60.0
_NEVER: Final = float("inf")
_JSON: Final = {"Content-Type": "application/json"}


class Delivery:
    """What is on its way of one run, and what was decided of it."""

    def __init__(self, account: Account, sender: "Sender") -> None:
        self.account = account
        self.sender = sender
        self.queue: deque[Part] = deque()
        self.states: dict[tuple[str, str], State] = {}
        self.flushing = Flushing(self)
        self.telling = Telling(self)
        self.reporting = Reporting(self)
        self.over = False
        self._declare_at = 0.0 if account.ticket is None else account.ticket.renew_at
        # Whether the service has not answered since it last did.
        self._failed = False
        self.stretch = account.stretch
        """From which number on a refusal, or the wait for the answer, speaks for what nothing else is known of."""
        self._known = Ranges()
        self._seen = 0
        self._quiet_since = monotonic()

    # --- what the background thread asks

    def step(self, now: float) -> bool:
        """Do the most urgent thing that takes a request; False if there is none, or not now."""
        if not self.sender.may_ask(now):
            return False
        return (
            self._declared(now)
            or self.flushing.step(now)
            or self.telling.step(now)
            or self.reporting.step(now)
        )

    def gather(self, now: float) -> None:
        """Take over what callers left, and let go of what waited too long; also called amid a request."""
        account = self.account
        account.marked = False
        if account.ticket is not None and now >= account.ticket.until:
            self._expired()
        while account.inbox:
            self._arrived(account.inbox.popleft(), now)
        missed, account.missed = account.missed, None
        while missed is not None:
            number, missed = missed
            account.ledger.lose(number, NOT_OBSERVED)
        while account.states:
            self.say(account.states.popleft())
        if account.phase is REFUSED:
            # Whoever reported at that very moment did not see it.
            self.telling.drop(account.reason or RUN_NOT_ADMITTED)
        if account.phase is ASKING and account.ticket is None:
            while self.queue and now - self.queue[0].at >= account.hold_s:
                self.lose(self.queue.popleft(), CLIENT_TRANSPORT)
        since = self.sender.pause.since
        if since is not None and now - since > _PATIENCE_S:
            while self.queue and now - self.queue[0].at > _PATIENCE_S:
                self.lose(self.queue.popleft(), CLIENT_TRANSPORT)
            self.flushing.impatient(now - _PATIENCE_S)
            self.telling.impatient(now - _PATIENCE_S)
        account.tell()

    def busy(self) -> bool:
        """Say whether anything waits to be sent or told, so that a flush is not over yet."""
        account = self.account
        if self._unsent():
            return True
        if account.phase is ASKING:
            return account.last > 0 or account.closing
        untold = account.ledger.gather() > 0 or (account.phase is REFUSED and account.last >= self.stretch)
        return account.closing or (untold and self.reporting.tellable)

    def waits(self) -> bool:
        """Say whether anything is still to be sent or told before the run can be closed."""
        return self._unsent() or (self.reporting.tellable and self.account.ledger.gather() > 0)

    def _unsent(self) -> bool:
        account = self.account
        parts = account.inbox or self.queue or self.flushing.batch
        return bool(parts or account.states or self.states or self.telling.waits)

    def quiet(self, now: float) -> float:
        """Return since how many seconds nothing was captured."""
        last = self.account.last
        if last != self._seen or self.account.phase is ASKING or self.busy():
            self._seen, self._quiet_since = last, now
        return now - self._quiet_since

    def due(self) -> float:
        """Return when there may be something to do that nobody rings for."""
        return min(self._declare_at, self.reporting.due)

    def lose(self, part: Part, reason: str) -> None:
        """Let go of a part that will not be stored."""
        self.account.ledger.lose(part.number, reason)
        self.release(part)
        self.account.taken.discard(part.identity)

    def refused(self, part: Part, reason: str) -> None:
        """Let go of a part that the service refused, and will remember that it did."""
        refused = self.sender.office.refused
        refused[reason] = refused.get(reason, 0) + 1
        self.release(part)
        self.account.taken.discard(part.identity)

    def release(self, part: Part) -> None:
        """Give back the room of a part with which this side is done."""
        self.account.room.give(part.size)

    def shut_down(self) -> None:
        """Let go of all that waits: the process ends."""
        self.gather(monotonic())
        self.states.clear()
        self.drop(CLIENT_SHUTDOWN)

    def drop(self, reason: str) -> None:
        """Let go of all parts and facts that wait, also of those that are on their way."""
        self.flushing.abandon(reason)
        self.telling.drop(reason)
        while self.queue:
            self.lose(self.queue.popleft(), reason)

    # --- arriving

    def _arrived(self, part: Part, now: float) -> None:
        if self.account.phase is not OPEN:
            self._known.add(part.number, part.number + 1)
        if self.account.phase is REFUSED:
            self.lose(part, self.account.reason or RUN_NOT_ADMITTED)
            return
        self.queue.append(part)
        self.flushing.since = self.flushing.since or now

    def say(self, state: State) -> None:
        """Add a word about an attempt to what waits of it; the first word stays."""
        known = self.states.get((state.exchange, state.attempt))
        if known is None:
            if len(self.states) < MOST_STATES:
                self.states[state.exchange, state.attempt] = state
            return
        known.dispatch = known.dispatch or state.dispatch
        known.settlement = known.settlement or state.settlement
        known.refs = (*known.refs, *(each for each in state.refs if each not in known.refs))[:4]

    # --- declaring

    def _declared(self, now: float) -> bool:
        account = self.account
        if account.narrowed:
            account.narrowed = False
            self._declare_at = 0.0
        if now < self._declare_at:
            return False
        path = f"/v1/runs/{account.run_id}"
        found = self.sender.ask(
            "PUT", path, _JSON, msgspec.json.encode(account.declaration), answers.admission
        )
        if found is None or (isinstance(found, Problem) and found.outage):
            self._unanswered()
        elif isinstance(found, Problem):
            self._turned_down(found)
        else:
            self._decided(*found)
        return True

    def renew(self, *, after_s: float = 0.0) -> None:
        """Ask for a new ticket."""
        self._declare_at = monotonic() + after_s

    def _unanswered(self) -> None:
        # When to ask again is the pause's business.
        self._failed = True
        self._declare_at = 0.0

    def _turned_down(self, problem: Problem) -> None:
        """The declaration itself was refused: with this key, or like this, there is no such run for us."""
        self.sender.office.trouble.note("declaring", f"a run was not taken: {problem.reason}")
        self.refuse(RUN_NOT_ADMITTED)
        self.reporting.tellable = False
        self._declare_at = _NEVER if problem.reason == "malformed_request" else monotonic() + _ASK_AGAIN_S

    def _decided(self, found: Admission, lifetime_s: float) -> None:
        self.reporting.tellable = True
        reason = self.account.declaration.refusal or (None if found.admitted else found.reason)
        if reason is not None:
            self.refuse(reason)
            self._declare_at = _NEVER if reason in FINAL else monotonic() + _ASK_AGAIN_S
            return
        limits, now = found.limits, monotonic()
        self.account.ticket = Ticket(found.ticket or "", now, lifetime_s, limits)
        self._declare_at = self.account.ticket.renew_at
        self._open(Standing(answers.admitted_kinds(found), limits.part_bytes))
        self._failed = False

    def _open(self, standing: Standing) -> None:
        account = self.account
        before, reason = account.phase, account.reason or RUN_NOT_ADMITTED
        if not account.closing:  # and a `close` at this very moment is seen by the next round
            account.standing = standing
            if account.closing:
                account.standing = None
        if before is OPEN:
            return
        # Only now that callers see it: whatever was numbered before, and is not known, was not looked at.
        account.phase = ASKING
        self.gather(monotonic())
        waited = CLIENT_TRANSPORT if self._failed else NOT_OBSERVED
        self.settle(waited if before is ASKING else reason)
        account.phase, account.reason = OPEN, None
        account.turned_from = account.turned_from if account.closing else None
        account.answered.set()
        for part in list(self.queue):
            unfit = KIND_NOT_ADMITTED if part.kind not in standing.kinds else PART_TOO_LARGE
            if part.kind not in standing.kinds or len(part.content) > standing.part_bytes:
                self.queue.remove(part)
                self.lose(part, unfit)

    def refuse(self, reason: str) -> None:
        """Let nothing of the run be looked at any more, and let go of what waits."""
        account = self.account
        reason = sayable(reason)
        if account.phase is OPEN:
            self._stand()
        account.standing = None
        account.ticket = None
        before, said = account.phase, account.reason
        account.phase, account.reason = REFUSED, reason
        account.answered.set()
        self.gather(monotonic())
        self.drop(reason)
        self.states.clear()
        if before is not REFUSED or said != reason:
            self.settle((said or reason) if before is REFUSED else reason)

    def _expired(self) -> None:
        """The ticket is over, and no new one was to be had: what comes from now on waits for an answer again."""
        account = self.account
        self._stand()
        account.standing = None
        account.ticket, account.phase = None, ASKING
        account.hold()
        self._declare_at = 0.0

    def _stand(self) -> None:
        """Begin a stretch of numbers for which one refusal speaks; before callers see it, so that none is left out."""
        self.stretch = self.account.turned_from or self.account.last + 1
        self._known = Ranges()
        self.account.ledger.begin()

    def settle(self, reason: str) -> None:
        """Lose what was numbered until now and of which nothing is known."""
        stop = self.account.last + 1
        self.account.ledger.settle(self.stretch, stop, reason, self._known)
        self.stretch, self._known = stop, Ranges()
