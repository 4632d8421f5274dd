"""JSON values as they were written: numbers keep their digits, for nothing here decodes them and writes them anew."""

import json
from typing import Any, Final

import msgspec
from msgspec import Raw

Path = tuple[str | int, ...]

_object: Final = msgspec.json.Decoder(dict[str, Raw])
_array: Final = msgspec.json.Decoder(list[Raw])


def exact(data: bytes | None, path: Path, value: object) -> bytes:
    """Return the JSON at `path` of `data`, in UTF-8, without spaces between tokens; of `value` where no bytes came."""
    if data is None:
        return written(value)
    try:
        for step in path:
            data = bytes(_array.decode(data)[step] if isinstance(step, int) else _object.decode(data)[step])
        text = msgspec.json.format(data, indent=-1)
        text.decode()  # msgspec passes over strings that nobody asks for
        return text
    except (msgspec.MsgspecError, LookupError, RecursionError, UnicodeError):
        return written(value)


def written(value: object) -> bytes:
    """Return JSON of a value that came as an object, not as bytes."""
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        return json.dumps(value, separators=(",", ":"), default=_named, skipkeys=True).encode()


def _named(value: Any) -> str:
    return f"<{type(value).__name__}>"
