"""The directory of a zip archive: which files there are, where, and that nothing else is there.

As much of the format as bundles use (APPNOTE.TXT 4.3 and 4.5.3), and strictly; everything is little-endian.
"""

import re
import struct
from collections.abc import Iterator
from operator import itemgetter
from stat import S_IFMT, S_IFREG
from typing import BinaryIO, Final, NamedTuple

from custody_client.verify import layout
from custody_client.verify.wrong import Wrong

ARCHIVE: Final = "the archive"

STORED: Final = 0
DEFLATED: Final = 8
SIZES_AFTER: Final = 1 << 3
PLAIN_VERSION: Final = 20
ZIP64: Final = 1
FULL: Final = 0xFFFFFFFF

_TOP: Final = re.compile(r"custody-[0-9a-f]{32}/")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR: Final = struct.Struct("<4sLQL")
_EXTRA: Final = struct.Struct("<2H")
_FULL_16: Final = 0xFFFF

# Stored, deflated, wide: later ones need what no bundle has.
_VERSIONS: Final = (10, PLAIN_VERSION, 45)
# Sizes that follow the data, names in UTF-8, and how hard the deflater tried: nothing else, and never encryption.
_FLAGS: Final = SIZES_AFTER | 1 << 11 | 0b110
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
SIZE: Final = 6
_OFFSET: Final = 7


def read_directory(file: BinaryIO) -> list[Raw]:
    """Read the directory; the files in it fill the archive from its first byte to the directory's."""
    whole = file.seek(0, 2)
    count, size, start = _end(file, whole)
    if count == 0:
        raise Wrong(ARCHIVE, "holds no file")
    if count > layout.MOST_FILES or size > count * (_ENTRY.size + 512):
        raise Wrong(ARCHIVE, "holds more files than a bundle may")
    file.seek(start)
    listed = sorted(_entries(read_exactly(file, size), count), key=itemgetter(_OFFSET))
    if sum(raw[SIZE] for raw in listed) > layout.most_bytes_of_all(whole):
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
    magic, *disks, here, count, size, start, comment = _END.unpack(read_exactly(file, _END.size))
    if magic != b"PK\x05\x06" or comment:
        raise Wrong(ARCHIVE, "not a zip archive, or something stands after its end")
    told = (here, count, size, start)
    here, count, size, start, end = _end_64(file, end) or (*told, end)
    if any(disks) or here != count:
        raise Wrong(ARCHIVE, "of several disks")
    # What does not fit into the old record stands in the wide one only.
    most = (_FULL_16, _FULL_16, FULL, FULL)
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
    magic, length, _, _, disk, other, here, count, size, start = _END_64.unpack(
        read_exactly(file, _END_64.size)
    )
    sign, first, where, disks = _LOCATOR.unpack(read_exactly(file, _LOCATOR.size))
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
        if extra_bytes or FULL in (size, packed, offset):
            size, packed, offset = _wide(data[at - extra_bytes : at], size, packed, offset)
        _regular(made_by >> 8, attributes)
        if needed not in _VERSIONS or flags & ~_FLAGS or method not in (STORED, DEFLATED):
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
    wide = [at for at, number in enumerate(narrow) if number == FULL]
    if not wide or len(extra) != _EXTRA.size + 8 * len(wide):
        raise Wrong(ARCHIVE, "an extra field that no bundle has")
    if _EXTRA.unpack_from(extra) != (ZIP64, 8 * len(wide)):
        raise Wrong(ARCHIVE, "an extra field that no bundle has")
    numbers = list(narrow)
    for at, number in zip(wide, struct.unpack_from(f"<{len(wide)}Q", extra, _EXTRA.size), strict=True):
        numbers[at] = number
    return numbers


def top_of(first: Entry) -> str:
    """Return the directory that everything is in, with a slash."""
    match = _TOP.match(first.name.decode("ascii", "replace"))
    if match is None:
        raise Wrong(ARCHIVE, "without the one directory that a bundle has")
    return match[0]


def by_name(entries: list[Raw], top: str) -> dict[str, Raw]:
    """Return the files by their names below the top directory; Wrong on a name that no bundle has."""
    found: dict[str, Raw] = {}
    for raw in entries:
        name = raw[_NAME].decode("ascii", "replace")
        below = name[len(top) :]
        if not name.startswith(top) or not layout.allowed(below):
            raise Wrong(ARCHIVE, "holds something that does not belong into a bundle")
        if below in found:
            raise Wrong(below, "is there twice")
        if raw[SIZE] > layout.most_bytes(below):
            raise Wrong(below, "larger than such a file may be")
        found[below] = raw
    return found


def read_exactly(file: BinaryIO, size: int) -> bytes:
    """Return so many bytes; Wrong where there are fewer."""
    data = file.read(size)
    if len(data) != size:
        raise Wrong(ARCHIVE, "ends too early")
    return data
