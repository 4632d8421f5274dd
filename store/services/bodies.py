"""How many bytes of bodies one process may hold at once, so that two thousand slow senders cannot take its memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from policies.reasons import Reason
from store.errors import Refused


class BodyBudget:
    """How many bytes of bodies this process may hold at once. Reserved before reading, given back when answered."""

    def __init__(self, total_bytes: int) -> None:
        self._free = total_bytes

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Hold `size` bytes for the block, or raise Refused (capacity_exceeded) at once: nobody waits for room."""
        if size > self._free:
            raise Refused(Reason.CAPACITY_EXCEEDED)
        self._free -= size
        try:
            yield
        finally:
            self._free += size
