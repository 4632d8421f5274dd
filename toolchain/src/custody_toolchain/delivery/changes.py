"""Changes of files, each with the version before and after."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec

from custody_toolchain.delivery.files import FileVersion, version_of
from custody_toolchain.locking import OneAtATime

_MOST_KEPT = 4096


class VersionConflict(RuntimeError):
    """A file is not, or no longer, the version that was read: nothing was written."""


class Change(msgspec.Struct, frozen=True):
    """One change; `after` is None where no file is there any more. `whole` False: whoever wrote has raised.

    `unread`: what is there now could not be read, so that `after` is None and says nothing.
    """

    path: str
    before: FileVersion | None
    after: FileVersion | None
    whole: bool
    action: str | None = None
    unread: bool = False


class Changes(OneAtATime):
    """A ledger of changes; the writing itself is the runtime's.

    Promised: no file is overwritten whose version nobody read. Not promised: a lock. Who writes the same file at the
    very same time, without this, is seen in `after` of neither.
    """

    def __init__(self, most: int = _MOST_KEPT) -> None:
        super().__init__()
        self._kept: deque[Change] = deque(maxlen=most)
        # Where it was written, as the file system has it: the last ones, how many there were, and those under way.
        self._places: deque[str] = deque(maxlen=most)
        self._ended = 0
        self._under_way: list[str] = []

    @property
    def kept(self) -> tuple[Change, ...]:
        """The last changes, oldest first."""
        with self._lock:
            return tuple(self._kept)

    def moment(self) -> int:
        """Return a moment for `written_since`."""
        with self._lock:
            return self._ended

    def written_since(self, path: str | Path, moment: int) -> bool:
        """Say whether this file was written within `writing` after that moment, or still is; True if nobody knows."""
        place = os.path.realpath(path)
        with self._lock:
            since = self._ended - moment
            unknown = since > len(self._places)
            return unknown or place in self._under_way or place in islice(reversed(self._places), since)

    @contextmanager
    def writing(
        self, path: str | Path, *, read: FileVersion | None, action: str | None = None
    ) -> Iterator[None]:
        """Write within this; `read` is the version that was read, None for a file that is not there yet.

        VersionConflict, before anything is written, if something else is there. The change is noted in any case.
        OSError if what is there cannot be read: before, nothing is written; afterwards, unless the writer has raised.
        """
        before = version_of(path)
        if before != read:
            raise VersionConflict("the file is not the version that was read")
        place, whole = os.path.realpath(path), False
        with self._lock:
            self._under_way.append(place)
        try:
            yield
            whole = True
        finally:
            with self._lock:
                self._under_way.remove(place)
                self._places.append(place)
                self._ended += 1
            self._note(Change(str(path), before, None, whole, action, unread=True))

    def _note(self, unread: Change) -> None:
        """Keep a change with what is there after it; one whose file cannot be read is kept as it is."""
        change = unread
        try:
            change = msgspec.structs.replace(unread, after=version_of(unread.path), unread=False)
        except OSError:
            if unread.whole:
                raise
            # Whoever wrote has raised, and that is what the caller is to see.
        finally:
            with self._lock:
                self._kept.append(change)
