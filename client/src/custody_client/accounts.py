"""One run as both sides of this client see it: callers capture into it, the background thread empties it.

Callers only number, look at `standing`, and append; everything else is the background thread's. Nothing here waits.
"""

import os
from collections import deque
from collections.abc import Iterable
from itertools import count
from threading import Event, RLock
from time import monotonic
from typing import TYPE_CHECKING, Final

from custody_client.declarations import Declaration
from custody_client.frames import Part, State
from custody_client.ledger import Ledger, numbered
from custody_client.offices import Office
from custody_client.room import Room
from custody_client.settings import LocalPolicy
from custody_client.words import CLIENT_QUEUE_FULL, CLIENT_UNSERIALISABLE, RUN_CLOSED, RUN_NOT_ADMITTED

if TYPE_CHECKING:
    from custody_client.answers import Limits
    from custody_client.runs import Run

MOST_STATES: Final = 1024
MOST_FACTS: Final = 1024
MOST_FACT_BYTES: Final = 1024
_MOST_HOLD_S: Final = 2.0

# Whether the run's content may be looked at: not known, known and allowed, known and not.
ASKING: Final = "asking"
OPEN: Final = "open"
REFUSED: Final = "refused"


Missed = tuple[int, "Missed"] | None


class Standing:
    """What may be looked at now, in one look; where a run has none, nothing may."""

    __slots__ = ("kinds", "part_bytes")

    def __init__(self, kinds: frozenset[str], part_bytes: int) -> None:
        self.kinds = kinds
        self.part_bytes = part_bytes


PARKED: Final = Standing(frozenset(), 0)
"""The standing of a run that was quiet while very many were open: whoever captures into it brings it back."""


class Ticket:
    """An admission that can be shown, and what came with it; times are of the monotonic clock."""

    __slots__ = ("part_bytes", "renew_at", "text", "until", "waiting_bytes", "waiting_parts")

    def __init__(self, text: str, now: float, lifetime_s: float, limits: "Limits") -> None:
        self.text = text
        self.renew_at = now + lifetime_s * 0.7
        self.until = now + lifetime_s
        self.part_bytes = limits.part_bytes
        self.waiting_parts = max(1, limits.run_waiting_parts)
        self.waiting_bytes = max(1, limits.run_waiting_bytes)


class Account:
    """A run's numbers, what waits of it, and what was lost."""

    __slots__ = (
        "answered",
        "children",
        "closing",
        "counted",
        "declaration",
        "facts",
        "inbox",
        "key",
        "ledger",
        "local",
        "marked",
        "missed",
        "narrowed",
        "narrowing",
        "numbers",
        "office",
        "page",
        "parent",
        "phase",
        "reason",
        "room",
        "run",
        "run_id",
        "session",
        "standing",
        "states",
        "stretch",
        "taken",
        "ticket",
        "turned_from",
    )

    def __init__(
        self, office: Office, run_id: str, declaration: Declaration, local: LocalPolicy | None
    ) -> None:
        self.office = office
        self.run_id = run_id
        self.declaration = declaration
        self.local = local
        self.run: Run | None = None
        self.key = run_id
        """Under which the office has it."""
        self.phase = ASKING
        self.reason: str | None = None
        self.ticket: Ticket | None = None
        self.standing: Standing | None = None
        self.taken: set[tuple[str, str, str]] = set()
        """Identities that wait or were delivered: whatever else is captured under one is a conflict."""
        self.closing = False
        self.narrowed = False
        """Whether it is to be declared again."""
        self.begin(new_session())
        self.hold()

    def begin(self, session: str) -> None:
        """Begin a session: its numbers, and nothing that waits."""
        self.session = session
        self.numbers = count(1)
        self.ledger = Ledger()
        self.inbox: deque[Part] = deque()
        self.states: deque[State] = deque()
        self.facts: deque[tuple[float, bytes]] = deque()
        """Facts that wait, and since when."""
        self.room = Room(self.office.bounds.run_parts, self.office.bounds.run_bytes, self.office.room)
        self.marked = False
        self.narrowing = RLock()
        """Held for a few instructions, so that of two declarations at once neither is lost."""
        self.missed: Missed = None
        """Numbers of captures that found the stack at its end: nothing more could be done for them there."""
        self.answered = Event()
        """Whether it is known if the run is admitted."""
        self.turned_from: int | None = None
        """From which number on this side itself turned captures away, before the service knew."""
        self.children: list[tuple[str, memoryview]] = []
        """Sessions of forked processes, and the shared memory in which each says how much it numbered."""
        self.counted = 0
        """How many of its numbers the office counts by itself, since it forgot the run."""
        self.stretch = 1
        """From which number on nothing was settled yet, of what was not looked at."""
        self.parent: int | None = None
        """The process that this one was forked from, whose run it is to close."""
        self.page: memoryview | None = None
        """Where this process says it, if it was forked."""

    def hold(self) -> None:
        """Let callers' content be held while the answer is awaited, if there is a local policy that allows it."""
        local = self.local
        if local is not None and self.declaration.refusal is None and not self.closing:
            self.standing = Standing(frozenset(local.kinds), local.part_bytes)

    @property
    def hold_s(self) -> float:
        """How long something may be held before the answer."""
        return min(self.local.hold_s, _MOST_HOLD_S) if self.local is not None else 0.0

    @property
    def last(self) -> int:
        """The last number that was taken."""
        return numbered(self.numbers)

    @property
    def another_closes(self) -> bool:
        """Whether the process that has the run goes on, so that only this one's session ends here."""
        return self.parent is not None and self.parent == os.getppid()

    def tell(self) -> None:
        """Say in shared memory how much was numbered, for the process that this one was forked from."""
        if self.page is not None:
            self.page[:8] = self.last.to_bytes(8)

    def mark(self) -> None:
        """Have the background thread look at this run."""
        if not self.marked:
            self.marked = True
            if self.office.asleep:
                self.office.wake()

    def say(self, state: State) -> None:
        """Have something said of an attempt."""
        if self.phase is REFUSED or self.closing:
            return
        if len(self.states) >= MOST_STATES:
            self.office.trouble.note("states", "too many states of attempts wait; the newest are dropped")
            return
        self.states.append(state)
        self.mark()

    def report(self, facts: Iterable[bytes]) -> None:
        """Have facts told; what there is no room for, or nobody who would take it, is counted."""
        lose = self.office.tally.lose
        for fact in facts:
            if type(fact) is not bytes or not 0 < len(fact) <= MOST_FACT_BYTES:
                lose(CLIENT_UNSERIALISABLE)
            elif self.phase is REFUSED:
                lose(self.reason or RUN_NOT_ADMITTED)
            elif self.closing:
                lose(RUN_CLOSED)
            elif len(self.facts) >= MOST_FACTS:
                lose(CLIENT_QUEUE_FULL)
            else:
                self.facts.append((monotonic(), fact))
        if self.standing is PARKED:
            self.come_back()
        if self.facts:
            self.mark()

    def narrow(self, said: Declaration) -> None:
        """Take a later declaration: the strictest of all holds, and an opt-out holds at once."""
        with self.narrowing:
            narrowed = self.declaration.narrowed(said)
            if narrowed == self.declaration:
                return
            self.declaration = narrowed
        if self.declaration.refusal is not None:
            self._turn_away()
        self.narrowed = True
        self.mark()

    def close(self) -> None:
        """Have the run closed once all of it is delivered or told of; what is captured from now on is too late."""
        if self.closing or self.run is None:
            return
        self._turn_away()
        self.closing = True
        self.mark()

    def park(self) -> bool:
        """Forget the run until it is captured into again, unless that happens at this very moment."""
        standing, last = self.standing, self.last
        self.standing = PARKED
        if self.inbox or self.states or self.facts or self.last != last:
            self.standing = standing
            return False
        self.stretch = last + 1
        self.phase, self.reason, self.ticket = ASKING, None, None
        self.office.forget(self)
        return True

    def come_back(self) -> None:
        """Take the run up again: it is asked anew whether it is admitted."""
        self.standing = None
        self.hold()
        self.office.recall(self)
        self.mark()

    def _turn_away(self) -> None:
        # Before callers are turned away: whatever is numbered from here on is accounted for as turned away.
        if self.turned_from is None:
            self.turned_from = self.last + 1
        self.standing = None


def nowhere(office: Office) -> Account:
    """Make the account of what was asked for wrongly: everything may be done with it, and nothing comes of it."""
    found = Account(office, "", Declaration(), None)
    found.phase = REFUSED
    return found


def new_session() -> str:
    """Mint the id of a session."""
    return "s-" + os.urandom(12).hex()
