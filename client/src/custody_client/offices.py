"""What all runs of one client share: bounds, the room within them, its runs, and the bell of its background thread."""

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING

from custody_client.room import Room
from custody_client.settings import Bounds
from custody_client.tallies import Tally
from custody_client.trouble import Trouble

if TYPE_CHECKING:
    from custody_client.accounts import Account


class Office:
    """One client's shared state. `bell` can be rung anywhere: it is the one queue that a finaliser may put into."""

    __slots__ = (
        "accounts",
        "asleep",
        "bell",
        "bounds",
        "delivered",
        "ending_at",
        "flushes",
        "forgotten",
        "hurry",
        "nowhere",
        "observed",
        "refused",
        "requests",
        "room",
        "start",
        "tally",
        "trouble",
        "unanswered",
        "urgent",
    )

    nowhere: "Account"
    """Where goes what was asked for wrongly."""

    def __init__(self, bounds: Bounds, start: Callable[[], None]) -> None:
        self.bounds = bounds
        self.start = start
        self.trouble = Trouble()
        self.accounts: dict[str, Account] = {}
        # What closed runs had, so that counters go on counting them.
        self.observed = 0
        self.forgotten: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.delivered = 0
        self.requests = 0
        self.unanswered = 0
        self.tally = Tally()
        self.begin()

    def begin(self) -> None:
        """Begin in this process, with nothing that waits."""
        # A run that was being closed is its parent's to close.
        self.accounts = {each.key: each for each in self.accounts.values() if not each.closing}
        self.room = Room(self.bounds.parts, self.bounds.bytes)
        self.bell: SimpleQueue[None] = SimpleQueue()
        self.asleep = True
        self.flushes: deque[Event] = deque()
        """Who waits until nothing waits any more."""
        self.urgent = False
        self.hurry = False
        self.ending_at: float | None = None
        self.trouble.silent_at = None

    def wake(self) -> None:
        """Ring for the background thread; the first time in a process it is started."""
        self.asleep = False
        self.bell.put(None)
        self.start()

    def rest(self) -> None:
        """Let the next one ring again: there is no thread that could have heard it."""
        self.asleep = True
        for account in list(self.accounts.values()):
            account.marked = False

    def press(self) -> None:
        """Have everything sent now that waits, also to a service that did not answer a moment ago."""
        self.urgent = self.hurry = True
        self.wake()

    def forget(self, account: "Account") -> None:
        """Drop a run that is over, and keep its numbers."""
        if self.accounts.get(account.key) is account:
            del self.accounts[account.key]
            account.counted = account.last
            self._count(account, 1)

    def recall(self, account: "Account") -> None:
        """Take a run up again that was forgotten."""
        if account.key in self.accounts:
            # Meanwhile somebody asked for the same run, and got another session of it.
            account.key = f"{account.run_id} {account.session}"
        if self.accounts.setdefault(account.key, account) is account:
            self._count(account, -1)

    def _count(self, account: "Account", times: int) -> None:
        self.observed += times * account.counted
        for reason, lost in account.ledger.counts.items():
            self.forgotten[reason] = self.forgotten.get(reason, 0) + times * lost
