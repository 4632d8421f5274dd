"""The frame that is sealed in place of the content: codec, length, payload, padding.

codec (0 raw, 1 zstd) ‖ u32 big-endian length of the payload ‖ payload ‖ zeros to a multiple of 64

Padding and size classes keep lengths from telling short contents apart.
"""

import sys
import threading
from collections.abc import Mapping
from typing import Final

from policies.reasons import Reason
from store import errors

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RAW: Final = 0
ZSTD: Final = 1

_HEADER: Final = 5
_BLOCK: Final = 64
_SMALLEST_CLASS: Final = 256

# Measured on real calls: the shorter ones would take a fifth of all the time, and make the store 2 % smaller.
_WORTH_COMPRESSING: Final = 1024

# Measured on real calls: levels 2 and 3 cost up to twice the time of 1, and looking for matches of less than seven
# bytes an eighth more; each gives the same size within 1 %.
_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.min_match: 7,
}


class _Threads(threading.local):
    """One compressor a thread: making one costs as much as compressing 4 KiB, and sharing one would block."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(options=_OPTIONS)


_threads = _Threads()


def size_class(size: int) -> int:
    """Return the next power of two, at least 256: all that outlives content may know of its size."""
    return max(_SMALLEST_CLASS, 1 << (size - 1).bit_length()) if size > 1 else _SMALLEST_CLASS


def frame_encode(content: bytes, *, compress: bool) -> bytes:
    """Frame content; `compress` allows zstd, which is used only where it makes the payload smaller."""
    if compress and len(content) >= _WORTH_COMPRESSING:
        payload = _threads.compressor.compress(content, zstd.ZstdCompressor.FLUSH_FRAME)
        if len(payload) < len(content):
            return _frame(ZSTD, payload)
    return _frame(RAW, content)


def frame_decode(frame: bytes, max_bytes: int) -> bytes:
    """Return the content of a frame; Corrupt if it is no frame or holds more than `max_bytes`."""
    length = int.from_bytes(frame[1:_HEADER], "big")
    end = _HEADER + length
    padding = -end % _BLOCK
    # A second way to write the same content would be a place to hide something in.
    if len(frame) != end + padding or frame.count(0, end) != padding:
        raise _not_a_frame()
    if frame[0] == RAW and length <= max_bytes:
        return frame[_HEADER:end]
    if frame[0] == ZSTD:
        return _inflate(frame[_HEADER:end], max_bytes)
    raise _not_a_frame()


def _frame(codec: int, payload: bytes) -> bytes:
    length = len(payload)
    return b"".join(
        (codec.to_bytes(1), length.to_bytes(4, "big"), payload, bytes(-(_HEADER + length) % _BLOCK))
    )


def _inflate(payload: bytes, max_bytes: int) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    try:
        # One byte more than allowed, so that a frame of exactly `max_bytes` can reach its end.
        content = decompressor.decompress(payload, max_length=max_bytes + 1)
    except zstd.ZstdError as error:
        raise _not_a_frame() from error
    if len(content) > max_bytes or not decompressor.eof or decompressor.unused_data:
        raise _not_a_frame()
    return content


def _not_a_frame() -> errors.Corrupt:
    return errors.Corrupt(Reason.INTEGRITY_MISMATCH, "not a frame")
