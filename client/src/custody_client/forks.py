"""Forks and the end of the process: what every client of this process must do then.

A forked process has a session of its own in every run, whose id its parent chooses before the fork, and says how much
it numbered in memory that both share: the parent closes the run, and names that session too.
"""

import atexit
import mmap
import os
import sys
from _thread import allocate_lock
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from custody_client.accounts import Account, new_session

if TYPE_CHECKING:
    from custody_client.client import Custody

# The end of a process takes at most two seconds, of which this is for what waits.
_EXIT_S: Final = 1.6
_SLOT_BYTES: Final = 8
# As many sessions as a run has over there, without this process's own.
_MOST_CHILDREN: Final = 255
# As long as a fork waits for our own imports, which take a small part of it.
_MOST_LOADING_S: Final = 1.0

_clients: Final["WeakSet[Custody]"] = WeakSet()
_hooked: set[str] = set()


def look_after(client: "Custody") -> None:
    """Have a client told of forks and of the end."""
    _clients.add(client)
    if "hooks" not in _hooked:
        _hooked.add("hooks")
        atexit.register(_leave)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before, after_in_child=_in_child)
            os.register_at_fork(
                before=Loading.await_end, after_in_parent=Loading.resume, after_in_child=Loading.begin
            )


class Loading:
    """Whether a thread of ours imports just now; no process is forked meanwhile.

    What was half imported then would stay so in the forked process, and whoever imports it there waits for ever.
    """

    lock = allocate_lock()
    _held = False

    @classmethod
    def await_end(cls) -> None:
        """Before a fork: let nobody import."""
        cls._held = cls.lock.acquire(True, _MOST_LOADING_S)  # noqa: FBT003 - the lock's own way

    @classmethod
    def resume(cls) -> None:
        """After it."""
        if cls._held:
            cls.lock.release()

    @classmethod
    def begin(cls) -> None:
        """In the forked process: of those who held the lock, nobody is here."""
        cls.lock = allocate_lock()


class _Forking:
    """What is prepared before a fork and taken up on its other side."""

    sessions: tuple[tuple[Account, str, memoryview | None], ...] = ()
    parent = 0


def _before() -> None:
    """Choose the sessions of the process to come, and where it says how much it numbered."""
    _watch_multiprocessing()
    accounts = [each for client in list(_clients) for each in list(client.office.accounts.values())]
    _Forking.sessions, _Forking.parent = (), os.getpid()
    if not accounts:
        return
    try:
        page: memoryview | None = memoryview(mmap.mmap(-1, _SLOT_BYTES * len(accounts)))
    except OSError:
        page = None  # the child's session is then not named at closing, and so its completeness is unknown
    found = []
    for at, account in enumerate(accounts):
        slot = None if page is None else page[at * _SLOT_BYTES : (at + 1) * _SLOT_BYTES]
        session = new_session()
        if len(account.children) >= _MOST_CHILDREN:
            # Most forks only begin another program, and number nothing.
            account.children = [each for each in account.children if any(each[1])]
        if slot is not None and len(account.children) < _MOST_CHILDREN:
            account.children.append((session, slot))
        found.append((account, session, slot))
    _Forking.sessions = tuple(found)


def _in_child() -> None:
    """Begin anew: what waits is the parent's, and so are its thread, its locks and its connection."""
    for client in list(_clients):
        client.begin_again()
    for account, session, slot in _Forking.sessions:
        account.begin(session)
        account.page = slot
        account.parent = _Forking.parent
    _Forking.sessions = ()


def _watch_multiprocessing() -> None:
    """Processes of `multiprocessing` that were forked end without what `atexit` holds."""
    util = sys.modules.get("multiprocessing.util")
    if util is None or "multiprocessing" in _hooked:
        return
    _hooked.add("multiprocessing")
    util.register_after_fork(_clients, lambda _: util.Finalize(None, _leave, exitpriority=100))


def _leave() -> None:
    """End all clients within one time."""
    until = monotonic() + _EXIT_S
    for client in list(_clients):
        client.close(timeout=max(0.0, until - monotonic()))
