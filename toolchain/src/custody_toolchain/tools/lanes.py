"""One at a time for each action of this process; whoever comes second waits, and then finds the receipt."""

import threading
from concurrent.futures import Future
from typing import TypeAlias

from custody_toolchain.driving import Wait, loop_here

Key: TypeAlias = tuple[str, str]


class Lanes:
    """Keeps (run, action) busy for one holder; holders are told apart by an object of theirs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[Key, tuple[object, Wait]] = {}

    def enter(self, key: Key, holder: object) -> Wait | None:
        """Enter; or, while another is in there, return the wait until it has left."""
        with self._lock:
            if key in self._busy:
                return self._busy[key][1]
            self._busy[key] = (holder, Wait(Future(), loop_here()))
            return None

    def leave(self, key: Key, holder: object) -> None:
        """Leave, and wake who waits; nothing, if this holder is not in there."""
        with self._lock:
            if key not in self._busy or self._busy[key][0] is not holder:
                return
            _, left = self._busy.pop(key)
        left.until.set_result(None)

    def is_busy(self, key: Key) -> bool:
        """Say whether somebody is in there."""
        with self._lock:
            return key in self._busy
