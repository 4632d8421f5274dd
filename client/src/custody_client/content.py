"""From what a runtime hands in to bytes: once, on the caller's thread, within a size and a time.

Values become JSON by msgspec: UUIDs, times, decimals, enums, sets, dataclasses as it writes them, integers in full.
What would be altered silently (NaN, infinities) or cannot be written (a lone surrogate, a cycle) is refused instead.
"""

from time import monotonic
from typing import Any, Final

import msgspec

from custody_client import where
from custody_client.encoding import JSON, MSGPACK, Unserialisable, budget, written_as
from custody_client.trouble import Trouble
from custody_client.words import CLIENT_UNSERIALISABLE

__all__ = ["NotObserved", "TooLarge", "Unserialisable", "completeness_of", "to_bytes"]

# Most requests fit into this; a larger buffer costs more to clear than most content costs to write.
_USUAL_BYTES: Final = 16 * 1024
# In MessagePack a float begins with 0xcb, and goes on like this if it is not finite; UTF-8 has neither pair.
_FLOAT: Final = 0xCB
_NOT_FINITE: Final = (b"\x7f", b"\xff")
_FEW_FLOATS: Final = 16
_PLAIN: Final = frozenset({dict, list, tuple, str})


class NotObserved(Exception):
    """Raised by a callable that finds nothing to give: what it would give was not looked at when it could be."""


class TooLarge(Exception):
    """Content that becomes more bytes than a part may have."""


def to_bytes(
    content: Any, content_type: str, most_bytes: int, seconds: float, trouble: Trouble | None = None
) -> bytes:
    """Return the bytes of content, or raise TooLarge, Unserialisable or NotObserved.

    `trouble` says whether the path to a fault, which costs, is wanted again.
    """
    kind = type(content)
    if kind is not bytes:
        budget.until = until = monotonic() + seconds
        budget.asked = False
        if kind not in _PLAIN:
            if callable(content):
                content = _called(content, until)
                kind = type(content)
            content = _spoken(content, most_bytes)
            kind = type(content)
        if kind is str and not content_type.startswith("application/json"):
            content = _utf8(content)
        elif kind is not bytes:
            content = _written(content, most_bytes, trouble)
    if len(content) > most_bytes:
        raise TooLarge
    found: bytes = content
    return found


def completeness_of(content: Any) -> str:
    """Return what content says of its own completeness, which assemblers do; else that it is complete."""
    if type(content) in _PLAIN or not hasattr(type(content), "encode"):
        return "complete"
    said = getattr(content, "completeness", "complete")
    return said if isinstance(said, str) else "unknown"


def _called(content: Any, until: float) -> Any:
    try:
        found = content()
    except NotObserved:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it raises, it gave no content
        raise Unserialisable(f"the callable raised {type(error).__qualname__}") from None
    if monotonic() > until:
        raise Unserialisable("the callable took too long")
    return found


def _spoken(content: Any, most_bytes: int) -> Any:
    """Return the bytes of what has bytes, or can say them by itself; anything else as it is."""
    if isinstance(content, (bytearray, memoryview)):
        # Measured before it is copied: whoever hands in a film waits for no copy of it.
        if memoryview(content).nbytes > most_bytes:
            raise TooLarge
        return bytes(content)
    if not hasattr(type(content), "encode") or not hasattr(type(content), "completeness"):
        return content
    try:
        said = content.encode()
    except Exception as error:  # noqa: BLE001 - whatever it raises, it gave no content
        raise Unserialisable(
            f"{type(content).__qualname__}.encode raised {type(error).__qualname__}"
        ) from None
    if not isinstance(said, bytes):
        raise Unserialisable(f"{type(content).__qualname__}.encode gave no bytes")
    return said


def _utf8(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise Unserialisable("str with a lone surrogate at $") from None


def _written(content: Any, most_bytes: int, trouble: Trouble | None) -> bytes:
    try:
        try:
            written = _into(content, min(_USUAL_BYTES, most_bytes))
        except BufferError:
            written = _into(content, most_bytes)
        if not _altered(content, written):
            return written
        told = "a float that is not finite"
    except BufferError:
        raise TooLarge from None
    except Unserialisable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it raises, it cannot be written
        told = type(error).__qualname__
    if trouble is None or trouble.due(CLIENT_UNSERIALISABLE):
        told = where.first_fault(content)
    raise Unserialisable(told)


def _into(content: Any, most_bytes: int) -> bytes:
    """Write JSON into a buffer that cannot grow: what would be longer, however much longer, stops there."""
    if not _bounded:
        return JSON.encode(content)
    buffer = bytearray(most_bytes)
    look = memoryview(buffer)  # a buffer that is looked at cannot be resized
    JSON.encode_into(content, buffer)
    look.release()
    return bytes(buffer)


def _altered(content: Any, written: bytes) -> bool:
    """Say whether a float was written as null; one look at the floats tells it of all but a few contents."""
    # Of what has to be asked for what it is, not a second time without need.
    if budget.asked and b"null" not in written:
        return False
    try:
        if not _suspicious(MSGPACK.encode(content)):
            return False
    except OverflowError:
        # An integer of more than 64 bits, which only JSON has.
        if b"null" not in written:
            return False
    return where.not_finite(msgspec.to_builtins(content, enc_hook=written_as))


def _suspicious(packed: bytes) -> bool:
    """Say whether there may be a float among these that is not finite: rarely wrongly so, and never wrongly not."""
    at = packed.find(_FLOAT)
    for _ in range(_FEW_FLOATS):
        if at < 0:
            return False
        if packed[at + 1 : at + 2] in _NOT_FINITE:
            return True
        at = packed.find(_FLOAT, at + 1)
    return any(bytes((_FLOAT,)) + each in packed for each in _NOT_FINITE)


def _writes_into_what_is_looked_at() -> bool:
    """Say whether this msgspec still cuts a buffer to size where it stands; else there is a limit only afterwards."""
    buffer = bytearray(64)
    with memoryview(buffer):
        try:
            JSON.encode_into({}, buffer)
        except BufferError:
            return False
        return bytes(buffer) == b"{}"


_bounded: Final = _writes_into_what_is_looked_at()
