"""One at a time for each action of this process; whoever comes second waits, and then finds the receipt."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from custody_toolchain.driving import Wait, loop_here
from custody_toolchain.locking import OneAtATime

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class _Stay:
    """Who is in there, until when, and on which thread; `goes_on` False: nobody in this process will ever leave."""

    holder: object
    left: Wait = field(default_factory=lambda: Wait(Future(), loop_here()))
    thread: int = field(default_factory=threading.get_ident)
    goes_on: bool = True


class Lanes(OneAtATime):
    """Keeps (run, action) busy for one holder; holders are told apart by an object of theirs.

    In a forked process it is busy with what the forking thread itself has under way: of the others, nobody is there
    to leave. Nor does anybody wait there for what that thread has under way on an event loop, which goes on in the
    parent alone; busy it is all the same, since the fork may be a part of just that.
    """

    def __init__(self) -> None:
        super().__init__()
        self._busy: dict[Key, _Stay] = {}

    def enter(self, key: Key, holder: object) -> Wait | None:
        """Enter; or, while another is in there, return the wait until it has left."""
        with self._lock:
            stay = self._busy.get(key)
            if stay is not None and stay.goes_on:
                return stay.left
            self._busy[key] = _Stay(holder)
            return None

    def leave(self, key: Key, holder: object) -> None:
        """Leave, and wake who waits; nothing, if this holder is not in there."""
        with self._lock:
            if key not in self._busy or self._busy[key].holder is not holder:
                return
            stay = self._busy.pop(key)
        stay.left.until.set_result(None)

    def is_busy(self, key: Key) -> bool:
        """Say whether somebody is in there."""
        with self._lock:
            return key in self._busy

    def _forked(self) -> None:
        here = threading.get_ident()
        mine = {key: stay for key, stay in self._busy.items() if stay.thread == here}
        self._busy = {key: replace(stay, goes_on=stay.left.loop is None) for key, stay in mine.items()}
