"""Frames of Amazon's binary event stream (`application/vnd.amazon.eventstream`), out of bytes that are cut anywhere.

A frame: its length and that of its headers (4 bytes each, big endian), CRC-32 of these, headers, payload, CRC-32 of all
before. A header: length of the name (1), name, type (1), value; only those of type text are told.
"""

from typing import Final, NamedTuple
from zlib import crc32

_PRELUDE: Final = 12
_SMALLEST: Final = 16
_LARGEST: Final = 24 * 1024 * 1024  # 16 MiB of payload, 128 KiB of headers, and room for what AWS may allow
# Sizes of values by type: true, false, byte, short, int, long; bytes and text say theirs; timestamp, UUID.
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_SIZED: Final = frozenset({6, 7})
_TEXT: Final = 7
_KNOWN: Final = 32


class Frame(NamedTuple):
    """One message: its headers of type text, and its payload."""

    headers: dict[str, str]
    payload: bytes


class Frames:
    """Cuts bytes into frames. After a prelude that is wrong nothing can be found again: it is `lost`."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = _PRELUDE
        self._skip = 0
        self._known: dict[bytes, dict[str, str]] = {}
        self.lost = False
        self.damaged = 0
        self.dropped = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes, give the frames that are whole with them and whose sums are right."""
        if self.lost:
            return []
        data = self._skipped(data)
        self._pieces.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return []
        return self._cut(b"".join(self._pieces))

    def rest(self) -> bytes:
        """Return the bytes that make no whole frame so far."""
        return b"".join(self._pieces)

    def _cut(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        at, self._wanted = 0, _PRELUDE
        while len(data) - at >= _PRELUDE:
            length = self._length(data, at)
            if self.lost:
                break
            if length <= self._limit and len(data) - at < length:
                self._wanted = length
                break
            at += self._take(data[at : at + length], length, frames)
        self._pieces = [] if self.lost else [data[at:]]
        self._held = 0 if self.lost else len(data) - at
        return frames

    def _length(self, data: bytes, at: int) -> int:
        """Return the frame's length; a prelude whose sum is wrong loses the thread."""
        length, headers = int.from_bytes(data[at : at + 4]), int.from_bytes(data[at + 4 : at + 8])
        right = crc32(data[at : at + 8]) == int.from_bytes(data[at + 8 : at + 12])
        self.lost = not right or not _SMALLEST + headers <= length <= _LARGEST
        return length

    def _skipped(self, data: bytes) -> bytes:
        passed = min(self._skip, len(data))
        self._skip -= passed
        return data[passed:] if passed else data

    def _take(self, frame: bytes, length: int, frames: list[Frame]) -> int:
        """Read one frame; pass over what is more than may be held, also over what of it is still to come."""
        if length > self._limit:
            self._skip = length - len(frame)
            self.dropped += 1
        elif crc32(frame[:-4]) != int.from_bytes(frame[-4:]):
            self.damaged += 1
        else:
            self._read(frame, frames)
        return len(frame)

    def _read(self, frame: bytes, frames: list[Frame]) -> None:
        end = _PRELUDE + int.from_bytes(frame[4:8])
        headers = self._headers(frame[_PRELUDE:end])
        if headers is None:
            self.damaged += 1
        else:
            frames.append(Frame(headers, frame[end:-4]))

    def _headers(self, data: bytes) -> dict[str, str] | None:
        """Read headers; the same few come again with every frame."""
        headers = self._known.get(data)
        if headers is None and (headers := _headers(data)) is not None and len(self._known) < _KNOWN:
            self._known[data] = headers
        return headers


def _headers(data: bytes) -> dict[str, str] | None:
    """Return the headers that are text, or None where the bytes are no headers."""
    headers: dict[str, str] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        if name_end >= len(data):
            return None
        name, kind = data[at + 1 : name_end], data[name_end]
        at = name_end + 1
        if kind not in _SIZES and kind not in _SIZED:
            return None
        size = _SIZES[kind] if kind in _SIZES else int.from_bytes(data[at : at + 2])
        at += 2 if kind in _SIZED else 0
        if at + size > len(data):
            return None
        if kind == _TEXT:
            headers[name.decode("utf-8", "replace")] = data[at : at + size].decode("utf-8", "replace")
        at += size
    return headers
