"""A zip archive that is read in one way only, and never written out.

Our own reading of the format, not the library's, because two programs must not see two different bundles
(docs/decisions/0012-the-verifier-reads-archives-itself.md): the directory and the files' own headers must agree in
everything. Sizes are believed only as bounds: what inflates to more, or less, fails.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from custody_client.verify.wrong import Wrong
from custody_client.verify.zip_directory import (
    DEFLATED,
    FULL,
    PLAIN_VERSION,
    SIZE,
    SIZES_AFTER,
    ZIP64,
    Entry,
    by_name,
    read_directory,
    read_exactly,
    top_of,
)

_CHUNK: Final = 1 << 20

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_DESCRIPTOR: Final = struct.Struct("<4s3L")
_DESCRIPTOR_64: Final = struct.Struct("<4sL2Q")
_WIDE_SIZES: Final = struct.Struct("<2H2Q")
_FILE: Final = b"PK\x03\x04"


class ZipBundle:
    """A bundle in an archive; `sizes` has its files by their names below the top directory."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb", buffering=1 << 18)
        try:
            entries = read_directory(self._file)
            self.top = top_of(Entry._make(entries[0]))
            self._entries = by_name(entries, self.top)
        except BaseException:
            self._file.close()
            raise
        self.sizes = {name: raw[SIZE] for name, raw in self._entries.items()}

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a file piece by piece; Wrong if it is not what the directory says of it."""
        entry = Entry._make(self._entries[name])
        start = self._after_head(entry, name)
        gap = entry.end - start - entry.packed
        if not 0 <= gap <= _DESCRIPTOR_64.size:
            raise Wrong(name, "overlaps with another file, or something stands between them")
        crc = size = 0
        for piece in (self._inflated if entry.method == DEFLATED else self._stored)(entry, start, name):
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            yield piece
        if size != entry.size or crc != entry.crc:
            raise Wrong(name, "not the bytes that the archive's directory speaks of")
        self._file.seek(start + entry.packed)
        if read_exactly(self._file, gap) not in _tails(entry):
            raise Wrong(name, "the archive's directory says otherwise than what follows the file")

    def _after_head(self, entry: Entry, name: str) -> int:
        """Return where a file's data begins; Wrong unless its own header agrees with the directory."""
        self._file.seek(entry.offset)
        found = b""
        for head in _heads(entry):
            found += read_exactly(self._file, len(head) - len(found))
            if found == head:
                return entry.offset + len(head)
        raise Wrong(name, "the archive's directory says otherwise than the file's own header")

    def _stored(self, entry: Entry, start: int, name: str) -> Iterator[bytes]:
        if entry.packed != entry.size:
            raise Wrong(name, "stored, but of two sizes")
        for at in range(0, entry.size, _CHUNK):
            self._file.seek(start + at)
            yield read_exactly(self._file, min(_CHUNK, entry.size - at))

    def _inflated(self, entry: Entry, start: int, name: str) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        left, size, at, end = b"", 0, start, start + entry.packed
        while not inflater.eof:
            if not left and at < end:
                self._file.seek(at)
                left = read_exactly(self._file, min(_CHUNK, end - at))
                at += len(left)
            try:
                # One byte more than declared is enough to see that it lied.
                piece = inflater.decompress(left, min(_CHUNK, entry.size - size + 1))
            except zlib.error:
                raise Wrong(name, "does not inflate") from None
            left = inflater.unconsumed_tail
            size += len(piece)
            if size > entry.size or not (piece or left or at < end or inflater.eof):
                raise Wrong(name, "inflates to another size than declared")
            if piece:
                yield piece
        if inflater.unused_data or left or at != end:
            raise Wrong(name, "has more data than it inflates")


def _heads(entry: Entry) -> Iterator[bytes]:
    """Yield what may stand before a file's data, shorter first: its header, and that with room for wide sizes."""
    after = entry.flags & SIZES_AFTER
    crc, packed, size = (0, 0, 0) if after else (entry.crc, entry.packed, entry.size)
    needed, time, date = entry.stamp
    shared = (entry.flags, entry.method, time, date, crc)
    # Where the directory needs wide numbers it may ask for a later version than the header, which was written before.
    versions = (needed, PLAIN_VERSION)
    for version in versions:
        yield _LOCAL.pack(_FILE, version, *shared, packed, size, len(entry.name), 0) + entry.name
    wide = _WIDE_SIZES.pack(ZIP64, _WIDE_SIZES.size - 4, size, packed)
    for version in versions:
        yield (
            _LOCAL.pack(_FILE, version, *shared, FULL, FULL, len(entry.name), len(wide)) + entry.name + wide
        )


def _tails(entry: Entry) -> tuple[bytes, ...]:
    """Return what may stand after a file's data: nothing, or its sizes if they were not known before."""
    if not entry.flags & SIZES_AFTER:
        return (b"",)
    told = (b"PK\x07\x08", entry.crc, entry.packed, entry.size)
    return _DESCRIPTOR.pack(*told), _DESCRIPTOR_64.pack(*told)
