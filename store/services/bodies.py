"""How many bytes of bodies one process may hold at once, so that two thousand slow senders cannot take its memory."""

from types import TracebackType

from policies.reasons import Reason
from store.errors import Refused


class BodyBudget:
    """How many bytes of bodies this process may hold at once. Reserved before reading, given back when answered."""

    def __init__(self, total_bytes: int) -> None:
        self._free = total_bytes

    def reserved(self, size: int) -> "Room":
        """Hold `size` bytes for the block, or raise Refused (capacity_exceeded) at once: nobody waits for room."""
        return Room(self, size)

    def take(self, size: int) -> None:
        """Take room, or raise Refused."""
        if size > self._free:
            raise Refused(Reason.CAPACITY_EXCEEDED)
        self._free -= size

    def give_back(self, size: int) -> None:
        """Give room back."""
        self._free += size


class Room:
    """Room in a budget, held for a block."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: BodyBudget, size: int) -> None:
        self._budget = budget
        self._size = size

    def __enter__(self) -> None:
        self._budget.take(self._size)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget.give_back(self._size)
