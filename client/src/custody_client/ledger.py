"""How one session accounts for its observations: numbers that never repeat, and what was lost of them, and why."""

from collections import deque
from itertools import count
from threading import Lock
from typing import Final

from custody_client.ranges import Ranges

# As many ranges as the service reads in one report.
REPORT_RANGES: Final = 64


def numbered(numbers: "count[int]") -> int:
    """Return the last number that was taken. The counter has no other way to be asked that takes none."""
    return int(repr(numbers)[6:-1]) - 1


class Ledger:
    """What a session lost, by reason, until the service has been told.

    `lose` may be called anywhere, also by a finaliser or a signal in the midst of itself: it never waits for the lock.
    Whoever holds that gathers also what others left.
    """

    __slots__ = ("_lock", "counts", "late", "losses", "untold")

    def __init__(self) -> None:
        self._lock = Lock()
        self.late: deque[tuple[int, int, str]] = deque()
        self.untold: dict[str, Ranges] = {}
        self.losses = Ranges()
        """All of them since `begin` or `settle`, for which a standing refusal need not answer."""
        self.counts: dict[str, int] = {}

    def lose(self, number: int, reason: str) -> None:
        """Say that an observation did not become a part."""
        self.late.append((number, number + 1, reason))
        if self._lock.acquire(False):  # noqa: FBT003 - the lock's own way
            try:
                self._gather()
            finally:
                self._lock.release()

    def begin(self) -> None:
        """Begin a stretch of numbers that a standing refusal answers for."""
        with self._lock:
            self._gather()
            self.losses = Ranges()

    def settle(self, start: int, stop: int, reason: str, known: Ranges) -> None:
        """Lose what of these numbers nothing else is known of."""
        with self._lock:
            self._gather()
            rest = Ranges([(start, stop)])
            rest.remove(known)
            rest.remove(self.losses)
            self.losses = Ranges()
            for first, last in rest:
                self._put(first, last, reason)

    def report(self) -> list[tuple[str, Ranges]]:
        """Return what is to be told, no more than fits into one report; the largest part of it first."""
        with self._lock:
            self._gather()
            found: list[tuple[str, Ranges]] = []
            room = REPORT_RANGES
            for reason, ranges in sorted(self.untold.items(), key=lambda each: -each[1].count):
                some = ranges.first(room)
                room -= len(some)
                if len(some):
                    found.append((reason, some))
            return found

    def told(self, reason: str, ranges: Ranges) -> None:
        """Forget what the service remembers now."""
        with self._lock:
            self.untold[reason].remove(ranges)
            if not len(self.untold[reason]):
                del self.untold[reason]

    def gather(self) -> int:
        """Return how many losses the service has not been told of."""
        with self._lock:
            self._gather()
            return sum(ranges.count for ranges in self.untold.values())

    def _gather(self) -> None:
        late = self.late
        while late:
            # Taken off only at the end: at the end of the stack any call here may fail, and the next one gathers.
            start, stop, reason = late[0]
            self.losses.add(start, stop)
            self._put(start, stop, reason)
            late.popleft()

    def _put(self, start: int, stop: int, reason: str) -> None:
        ranges = self.untold.get(reason)
        if ranges is None:
            ranges = self.untold[reason] = Ranges()
        ranges.add(start, stop)
        self.counts[reason] = self.counts.get(reason, 0) + stop - start
