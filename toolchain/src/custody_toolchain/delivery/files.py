"""Which version of a file is there: its bytes decide, not its name."""

import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

_BLOCK: Final = 1024 * 1024
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


class FileVersion(msgspec.Struct, frozen=True):
    """The bytes of one file at one time: how many, and their SHA-256 in hex."""

    size: int
    sha256: str


def version_of(path: str | Path) -> FileVersion | None:
    """Return which version is there; None where there is no regular file. OSError if it cannot be read."""
    try:
        with opened(path) as file:
            return _hashed(file)
    except (FileNotFoundError, NotADirectoryError, IrregularFile):
        return None


class IrregularFile(OSError):
    """A folder, pipe or device is where a file should be."""


def opened(path: str | Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; a pipe is not waited for. `follow` False: OSError for a symbolic link."""
    descriptor = os.open(path, _FLAGS | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IrregularFile("that is no regular file")
    return os.fdopen(descriptor, "rb")


def _hashed(file: BinaryIO) -> FileVersion:
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        digest.update(block)
        size += len(block)
    return FileVersion(size, digest.hexdigest())


def version_of_bytes(data: bytes) -> FileVersion:
    """Return the version that a file of these bytes is."""
    return FileVersion(len(data), hashlib.sha256(data).hexdigest())
