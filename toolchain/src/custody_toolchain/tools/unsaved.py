"""Receipts that could not be saved: in this process no action is executed again for that."""

from typing import Final

from custody_toolchain.locking import OneAtATime
from custody_toolchain.tools.lanes import Key
from custody_toolchain.tools.records import Receipt

_MOST: Final = 1024


class Unsaved(OneAtATime):
    """The last of these receipts, and of which actions there were more.

    Bounded are the receipts, which hold content: beyond `most` the oldest is let go. That its action was executed stays
    known, by its key alone, until a receipt of it is saved.
    """

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self.most = most
        self._kept: dict[Key, Receipt] = {}
        self._let_go_of: set[Key] = set()

    def get(self, key: Key) -> Receipt | None:
        """Return the receipt of this action that could not be saved."""
        with self._lock:
            return self._kept.get(key)

    def is_lost(self, key: Key) -> bool:
        """Say whether this action was executed, and its receipt neither saved nor kept."""
        with self._lock:
            return key in self._let_go_of

    def keep(self, key: Key, receipt: Receipt) -> None:
        """Keep a copy of a receipt that could not be saved."""
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = receipt.own_copy()
            self._let_go_of.discard(key)
            while len(self._kept) > self.most:
                oldest = next(iter(self._kept))
                if self._kept.pop(oldest).executions:
                    self._let_go_of.add(oldest)

    def saved(self, key: Key, receipt: Receipt) -> None:
        """Forget what was kept of an action; also that it was lost, if the saved receipt says how it ended."""
        with self._lock:
            self._kept.pop(key, None)
            if receipt.finished:
                self._let_go_of.discard(key)
