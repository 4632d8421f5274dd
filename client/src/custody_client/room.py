"""Room in memory: how much may wait, of one run and of all together. Full refuses the newcomer, and evicts nobody."""

from _thread import LockType, allocate_lock
from typing import Final

# The lock is held for a few instructions. Who finds it held longer interrupted its own holder (a signal, a finaliser),
# and must not wait for himself.
_PATIENCE_S: Final = 0.02


class Room:
    """A bound on parts and bytes; `around` is the room of all runs, of which this is a part."""

    __slots__ = ("around", "bytes", "lock", "most_bytes", "most_parts", "parts")

    def __init__(self, most_parts: int, most_bytes: int, around: "Room | None" = None) -> None:
        self.most_parts = most_parts
        self.most_bytes = most_bytes
        self.around = around
        self.lock: LockType = allocate_lock() if around is None else around.lock
        self.parts = 0
        self.bytes = 0

    def take(self, size: int) -> bool:
        """Take room for one part, or say that there is none."""
        if not self.lock.acquire(True, _PATIENCE_S):  # noqa: FBT003 - the lock's own way
            return False
        try:
            around = self.around or self
            if (
                self.parts >= self.most_parts
                or self.bytes + size > self.most_bytes
                or around.parts >= around.most_parts
                or around.bytes + size > around.most_bytes
            ):
                return False
            self.parts += 1
            self.bytes += size
            if around is not self:
                around.parts += 1
                around.bytes += size
            return True
        finally:
            self.lock.release()

    def free(self) -> bool:
        """Say in one look whether there is room for anything at all; content that has none need not be looked at."""
        around = self.around or self
        return self.parts < self.most_parts and around.parts < around.most_parts

    def give(self, size: int) -> None:
        """Give the room of one part back, once nothing can come of it any more."""
        with self.lock:
            self.parts -= 1
            self.bytes -= size
            if self.around is not None:
                self.around.parts -= 1
                self.around.bytes -= size
