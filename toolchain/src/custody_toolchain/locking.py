"""What several threads may tell at the same time, also where one of them forks the process meanwhile.

Promised: a forked process finds every ledger whole and free, whoever was at work on it at that moment. Not promised:
that two processes share one; each goes on with its own copy.
"""

import os
import threading
from typing import Final
from weakref import WeakSet


class OneAtATime:
    """Has a lock, held only for moments, in which nothing waits for anything else."""

    def __init__(self) -> None:
        # The same thread may enter again: one question is answered by way of another.
        self._lock = threading.RLock()
        with _forking:
            _all.add(self)

    def _hold(self) -> None:
        self._lock.acquire()

    def _let_go(self) -> None:
        self._lock.release()

    def _forked(self) -> None:
        """In a forked process, with the lock held, and on its only thread: forget what lived with the other threads."""


_all: Final[WeakSet[OneAtATime]] = WeakSet()
_held: Final[list[OneAtATime]] = []
_forking: Final = threading.RLock()


def _before_a_fork() -> None:
    """Wait until nobody is at work: the child has a copy of each lock as it is, and no thread that would free it."""
    _forking.acquire()
    for each in list(_all):
        each._hold()  # noqa: SLF001 - its own module
        _held.append(each)


def _after_a_fork_in_the_child() -> None:
    for each in _held:
        each._forked()  # noqa: SLF001 - its own module
    _after_a_fork()


def _after_a_fork() -> None:
    """Go on, in the parent and in the child, both of them on the thread that forked."""
    while _held:
        _held.pop()._let_go()  # noqa: SLF001 - its own module
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_a_fork,
        after_in_parent=_after_a_fork,
        after_in_child=_after_a_fork_in_the_child,
    )
