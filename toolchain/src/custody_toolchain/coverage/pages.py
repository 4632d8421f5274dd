"""One page of one file, as the tool that read it says: bytes, never characters."""

import codecs
import hashlib
import posixpath
from typing import Final

import msgspec

_LONGEST: Final = 4  # bytes of a character in UTF-8


class Version(msgspec.Struct, frozen=True):
    """What is known of a file's version; None is not known. Times are in ns; `id` is device and inode, say.

    `id` also tells that two paths are one file: without it a file that is linked twice is two files.
    """

    size: int | None = None
    modified_ns: int | None = None
    id: str | None = None
    sha256: str | None = None


class Page(msgspec.Struct, frozen=True):
    """What one call of a reading tool asked for and got, in bytes.

    `asked_offset`, `asked_size`: what the caller wanted. `offset`, `size`: what the tool gave, which may be less: at
    the end, at its own limit, or so as to cut no character. `next_offset`: where the tool says to go on, None if it
    says nothing; `eof`: the tool says that nothing comes after this.
    """

    path: str
    asked_offset: int
    asked_size: int
    offset: int
    size: int
    next_offset: int | None = None
    eof: bool = False
    version: Version = Version()
    action: str | None = None

    def __post_init__(self) -> None:
        numbers = (self.asked_offset, self.asked_size, self.offset, self.size, self.next_offset or 0)
        if min(numbers) < 0:
            raise ValueError("offsets and sizes are bytes, from 0")


def normalised(path: str) -> str:
    """Return a path without `.`, `..` and doubled slashes. Links are not followed and cases not folded: that is I/O."""
    plain = posixpath.normpath(path)
    # POSIX lets two slashes at the beginning mean something else than one; no system that we know of makes use of it.
    return plain[1:] if plain.startswith("//") else plain


def file_id(run: str, path: str, moved: str | None = None) -> str:
    """Return the id of a file in facts: it says neither its name nor that two runs read the same one.

    `moved` is the `Version.id` of a file that was there before another one; without it, the one that is there is meant.
    """
    # No path has a zero byte in it.
    names = run + normalised(path) + ("" if moved is None else f"\0{moved}")
    # Whatever a model asked for, half a surrogate pair too, has an id.
    named = names.encode("utf-8", "surrogatepass")
    return f"file-{hashlib.sha256(named).hexdigest()[:32]}"


def utf8_end(data: bytes) -> int:
    """Return how many bytes of a page to give so that it ends with no cut character of UTF-8.

    Bytes that are no UTF-8 are given as they are: only a character that could still be completed is left for the next
    page. 0 for a page that is nothing but the beginning of one.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-_LONGEST:])
    pending, _ = decoder.getstate()
    return len(data) - len(pending)
