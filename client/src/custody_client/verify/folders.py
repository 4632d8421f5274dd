"""A bundle that somebody has unpacked: a directory of plain files, read where it is."""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Final

from custody_client.verify import layout
from custody_client.verify.wrong import Wrong

FOLDER: Final = "the directory"

_CHUNK: Final = 1 << 20
# Where the system has them: not through a link, and not waiting for a writer of a pipe.
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)


class FolderBundle:
    """A bundle in a directory; its own name says nothing, since whoever unpacked it chose it."""

    top = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sizes = dict(_walk(path, ""))

    def close(self) -> None:
        """There is nothing to let go of."""

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a file piece by piece; Wrong if it is not a plain file, or changes meanwhile."""
        left = self.sizes[name]
        try:
            handle = os.open(self._path / name, _FLAGS)
        except OSError:
            raise Wrong(name, "cannot be opened as a file") from None
        with os.fdopen(handle, "rb", buffering=0) as file:
            if not S_ISREG(os.fstat(handle).st_mode):
                raise Wrong(name, "is not a file")
            while piece := file.read(_CHUNK):
                left -= len(piece)
                if left < 0:
                    break
                yield piece
        if left:
            raise Wrong(name, "changed its size")


def _walk(path: Path, below: str) -> Iterator[tuple[str, int]]:
    """Yield names and sizes; every directory is entered as itself, never through a link."""
    count = 0
    waiting = [below]
    while waiting:
        folder = waiting.pop()
        with os.scandir(path / folder) as found:
            for entry in found:
                name = folder + entry.name
                count += 1
                if count > 2 * layout.MOST_FILES:
                    raise Wrong(FOLDER, "holds more files than a bundle may")
                if entry.is_dir(follow_symlinks=False) and not _is_junction(entry):
                    waiting.append(f"{name}/")
                else:
                    yield name, _size(entry, name)


def _is_junction(entry: "os.DirEntry[str]") -> bool:
    # From Python 3.12, and of meaning on Windows only.
    check = getattr(entry, "is_junction", None)
    return bool(check and check())


def _size(entry: "os.DirEntry[str]", name: str) -> int:
    if not entry.is_file(follow_symlinks=False):
        raise Wrong(FOLDER, "holds a link, or something else that is not a file")
    if not layout.allowed(name):
        raise Wrong(FOLDER, "holds something that does not belong into a bundle")
    size = entry.stat(follow_symlinks=False).st_size
    if size > layout.most_bytes(name):
        raise Wrong(name, "larger than such a file may be")
    return size
