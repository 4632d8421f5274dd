"""Changes of files, each with the version before and after."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from custody_toolchain.delivery.files import FileVersion, version_of

_MOST_KEPT = 4096


class VersionConflict(RuntimeError):
    """A file is not, or no longer, the version that was read: nothing was written."""


class Change(msgspec.Struct, frozen=True):
    """One change; `after` is None where no file is there any more. `whole` False: whoever wrote has raised."""

    path: str
    before: FileVersion | None
    after: FileVersion | None
    whole: bool
    action: str | None = None


class Changes:
    """A ledger of changes; the writing itself is the runtime's.

    Promised: no file is overwritten whose version nobody read. Not promised: a lock. Who writes the same file at the
    very same time, without this, is seen in `after` of neither.
    """

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._kept: deque[Change] = deque(maxlen=most)

    @property
    def kept(self) -> tuple[Change, ...]:
        """The last changes, oldest first."""
        return tuple(self._kept)

    @contextmanager
    def writing(
        self, path: str | Path, *, read: FileVersion | None, action: str | None = None
    ) -> Iterator[None]:
        """Write within this; `read` is the version that was read, None for a file that is not there yet.

        VersionConflict, before anything is written, if something else is there. The change is noted in any case.
        """
        before = version_of(path)
        if before != read:
            raise VersionConflict("the file is not the version that was read")
        whole = False
        try:
            yield
            whole = True
        finally:
            self._kept.append(Change(str(path), before, version_of(path), whole, action))
