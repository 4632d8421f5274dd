"""A zip archive that is read in one way only, and never written out.

Our own reading of the format, not the library's, because two programs must not see two different bundles: the
directory and the files' own headers must agree in everything, files follow one another without gap or overlap, nothing
stands before, between or after them. Sizes are believed only as bounds: what inflates to more, or less, fails.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from stat import S_IFMT, S_IFREG
from typing import BinaryIO, Final, NamedTuple

from custody_client.verify import layout
from custody_client.verify.wrong import Wrong

ARCHIVE: Final = "the archive"

_CHUNK: Final = 1 << 20
_TOP: Final = re.compile(r"custody-[0-9a-f]{32}/")

# APPNOTE.TXT 4.3.7, 4.3.9, 4.3.12, 4.3.14 to 4.3.16; everything is little-endian.
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR: Final = struct.Struct("<4sLQL")
_DESCRIPTOR: Final = struct.Struct("<4s3L")
_DESCRIPTOR_64: Final = struct.Struct("<4sL2Q")
_EXTRA: Final = struct.Struct("<2H")
_WIDE_SIZES: Final = struct.Struct("<2H2Q")
_ZIP64: Final = 1
_FULL: Final = 0xFFFFFFFF
_FULL_16: Final = 0xFFFF

_FILE: Final = b"PK\x03\x04"
_PLAIN_VERSION: Final = 20
# Stored, deflated, wide: later ones need what no bundle has.
_VERSIONS: Final = (10, _PLAIN_VERSION, 45)
_STORED: Final = 0
_DEFLATED: Final = 8
_SIZES_AFTER: Final = 1 << 3
# Sizes that follow the data, names in UTF-8, and how hard the deflater tried: nothing else, and never encryption.
_FLAGS: Final = _SIZES_AFTER | 1 << 11 | 0b110
# The deflate format cannot do better.
_MOST_RATIO: Final = 1032
_FOLDER: Final = 0x10


# An entry while nobody reads its file: plain tuples of plain values are no work for the garbage collector.
Raw = tuple[bytes, int, int, tuple[int, int, int], int, int, int, int, int]


class Entry(NamedTuple):
    """A file of the archive, as the directory has it; `end` is where the next thing begins."""

    name: bytes
    flags: int
    method: int
    stamp: tuple[int, int, int]
    crc: int
    packed: int
    size: int
    offset: int
    end: int


# Places in both.
_NAME: Final = 0
_SIZE: Final = 6
_OFFSET: Final = 7


class ZipBundle:
    """A bundle in an archive; `sizes` has its files by their names below the top directory."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb", buffering=1 << 18)
        try:
            entries = _directory(self._file)
            self.top = _top(Entry._make(entries[0]))
            self._entries = _by_name(entries, self.top)
        except BaseException:
            self._file.close()
            raise
        self.sizes = {name: raw[_SIZE] for name, raw in self._entries.items()}

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
        for piece in (self._inflated if entry.method == _DEFLATED else self._stored)(entry, start, name):
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            yield piece
        if size != entry.size or crc != entry.crc:
            raise Wrong(name, "not the bytes that the archive's directory speaks of")
        self._file.seek(start + entry.packed)
        if _read(self._file, gap) not in _tails(entry):
            raise Wrong(name, "the archive's directory says otherwise than what follows the file")

    def _after_head(self, entry: Entry, name: str) -> int:
        """Return where a file's data begins; Wrong unless its own header agrees with the directory."""
        self._file.seek(entry.offset)
        found = b""
        for head in _heads(entry):
            found += _read(self._file, len(head) - len(found))
            if found == head:
                return entry.offset + len(head)
        raise Wrong(name, "the archive's directory says otherwise than the file's own header")

    def _stored(self, entry: Entry, start: int, name: str) -> Iterator[bytes]:
        if entry.packed != entry.size:
            raise Wrong(name, "stored, but of two sizes")
        for at in range(0, entry.size, _CHUNK):
            self._file.seek(start + at)
            yield _read(self._file, min(_CHUNK, entry.size - at))

    def _inflated(self, entry: Entry, start: int, name: str) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        left, size, at, end = b"", 0, start, start + entry.packed
        while not inflater.eof:
            if not left and at < end:
                self._file.seek(at)
                left = _read(self._file, min(_CHUNK, end - at))
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


def _directory(file: BinaryIO) -> list[Raw]:
    """Read the directory; the files in it fill the archive from its first byte to the directory's."""
    whole = file.seek(0, 2)
    count, size, start = _end(file, whole)
    if count == 0:
        raise Wrong(ARCHIVE, "holds no file")
    if count > layout.MOST_FILES or size > count * (_ENTRY.size + 512):
        raise Wrong(ARCHIVE, "holds more files than a bundle may")
    file.seek(start)
    listed = sorted(_entries(_read(file, size), count), key=itemgetter(_OFFSET))
    if sum(raw[_SIZE] for raw in listed) > layout.most_bytes_of_all(whole):
        raise Wrong(ARCHIVE, "would inflate to more than a bundle may")
    ends = [*(raw[_OFFSET] for raw in listed[1:]), start]
    if listed[0][_OFFSET] != 0 or any(raw[_OFFSET] >= end for raw, end in zip(listed, ends, strict=True)):
        raise Wrong(ARCHIVE, "files overlap, or something stands before them")
    return [(*raw, end) for raw, end in zip(listed, ends, strict=True)]


def _end(file: BinaryIO, whole: int) -> tuple[int, int, int]:
    """Return how many files the directory lists, its size and where it begins; it must end where the end record is."""
    end = whole - _END.size
    if end < 0:
        raise Wrong(ARCHIVE, "not a zip archive")
    file.seek(end)
    magic, *disks, here, count, size, start, comment = _END.unpack(_read(file, _END.size))
    if magic != b"PK\x05\x06" or comment:
        raise Wrong(ARCHIVE, "not a zip archive, or something stands after its end")
    told = (here, count, size, start)
    here, count, size, start, end = _end_64(file, end) or (*told, end)
    if any(disks) or here != count:
        raise Wrong(ARCHIVE, "of several disks")
    # What does not fit into the old record stands in the wide one only.
    most = (_FULL_16, _FULL_16, _FULL, _FULL)
    if any(
        one not in (other, full)
        for one, other, full in zip(told, (here, count, size, start), most, strict=True)
    ):
        raise Wrong(ARCHIVE, "two end records that disagree")
    if start + size != end:
        raise Wrong(ARCHIVE, "a directory that is not where it should be")
    return count, size, start


def _end_64(file: BinaryIO, end: int) -> tuple[int, int, int, int, int] | None:
    """Return what the wide end record says, and where it begins, if there is one."""
    at = end - _LOCATOR.size - _END_64.size
    if at < 0:
        return None
    file.seek(at)
    magic, length, _, _, disk, other, here, count, size, start = _END_64.unpack(_read(file, _END_64.size))
    sign, first, where, disks = _LOCATOR.unpack(_read(file, _LOCATOR.size))
    if sign != b"PK\x06\x07":
        return None
    if magic != b"PK\x06\x06" or (length, where) != (_END_64.size - 12, at):
        raise Wrong(ARCHIVE, "an end record that is not where it should be")
    if (disk, other, first, disks) != (0, 0, 0, 1):
        raise Wrong(ARCHIVE, "of several disks")
    return here, count, size, start, at


def _entries(
    data: bytes, count: int
) -> Iterator[tuple[bytes, int, int, tuple[int, int, int], int, int, int, int]]:
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            raise Wrong(ARCHIVE, "a directory that ends too early")
        (
            magic, made_by, needed, flags, method, time, date, crc, packed, size, name_bytes, extra_bytes, comment,
            disk, _, attributes, offset,
        ) = _ENTRY.unpack_from(data, at)  # fmt: skip
        at += _ENTRY.size
        name = data[at : at + name_bytes]
        at += name_bytes + extra_bytes
        if magic != b"PK\x01\x02" or comment or disk or at > len(data):
            raise Wrong(ARCHIVE, "a directory that cannot be read")
        if extra_bytes or _FULL in (size, packed, offset):
            size, packed, offset = _wide(data[at - extra_bytes : at], size, packed, offset)
        _regular(made_by >> 8, attributes)
        if needed not in _VERSIONS or flags & ~_FLAGS or method not in (_STORED, _DEFLATED):
            raise Wrong(ARCHIVE, "a file that is encrypted or packed in a way that no bundle is")
        if size > _MOST_RATIO * packed:
            raise Wrong(ARCHIVE, "a file that claims to inflate to more than it can")
        yield name, flags, method, (needed, time, date), crc, packed, size, offset
    if at != len(data):
        raise Wrong(ARCHIVE, "a directory with something after its last file")


def _regular(system: int, attributes: int) -> None:
    kind = S_IFMT(attributes >> 16)
    if kind not in (0, S_IFREG) or (system == 0 and attributes & _FOLDER):
        raise Wrong(ARCHIVE, "a link, or something else that is not a file")


def _wide(extra: bytes, *narrow: int) -> list[int]:
    """Replace the numbers that did not fit by those of the zip64 field, the only extra field that may stand there."""
    wide = [at for at, number in enumerate(narrow) if number == _FULL]
    if not wide or len(extra) != _EXTRA.size + 8 * len(wide):
        raise Wrong(ARCHIVE, "an extra field that no bundle has")
    if _EXTRA.unpack_from(extra) != (_ZIP64, 8 * len(wide)):
        raise Wrong(ARCHIVE, "an extra field that no bundle has")
    numbers = list(narrow)
    for at, number in zip(wide, struct.unpack_from(f"<{len(wide)}Q", extra, _EXTRA.size), strict=True):
        numbers[at] = number
    return numbers


def _top(first: Entry) -> str:
    match = _TOP.match(first.name.decode("ascii", "replace"))
    if match is None:
        raise Wrong(ARCHIVE, "without the one directory that a bundle has")
    return match[0]


def _by_name(entries: list[Raw], top: str) -> dict[str, Raw]:
    found: dict[str, Raw] = {}
    for raw in entries:
        name = raw[_NAME].decode("ascii", "replace")
        below = name[len(top) :]
        if not name.startswith(top) or not layout.allowed(below):
            raise Wrong(ARCHIVE, "holds something that does not belong into a bundle")
        if below in found:
            raise Wrong(below, "is there twice")
        if raw[_SIZE] > layout.most_bytes(below):
            raise Wrong(below, "larger than such a file may be")
        found[below] = raw
    return found


def _heads(entry: Entry) -> Iterator[bytes]:
    """Yield what may stand before a file's data, shorter first: its header, and that with room for wide sizes."""
    after = entry.flags & _SIZES_AFTER
    crc, packed, size = (0, 0, 0) if after else (entry.crc, entry.packed, entry.size)
    needed, time, date = entry.stamp
    shared = (entry.flags, entry.method, time, date, crc)
    # Where the directory needs wide numbers it may ask for a later version than the header, which was written before.
    versions = (needed, _PLAIN_VERSION)
    for version in versions:
        yield _LOCAL.pack(_FILE, version, *shared, packed, size, len(entry.name), 0) + entry.name
    wide = _WIDE_SIZES.pack(_ZIP64, _WIDE_SIZES.size - 4, size, packed)
    for version in versions:
        yield (
            _LOCAL.pack(_FILE, version, *shared, _FULL, _FULL, len(entry.name), len(wide)) + entry.name + wide
        )


def _tails(entry: Entry) -> tuple[bytes, ...]:
    """Return what may stand after a file's data: nothing, or its sizes if they were not known before."""
    if not entry.flags & _SIZES_AFTER:
        return (b"",)
    told = (b"PK\x07\x08", entry.crc, entry.packed, entry.size)
    return _DESCRIPTOR.pack(*told), _DESCRIPTOR_64.pack(*told)


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise Wrong(ARCHIVE, "ends too early")
    return data
