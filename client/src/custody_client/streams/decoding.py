"""From bytes to plain values; nothing raises, what cannot be read is None."""

import json
from typing import Any, Final

import msgspec

_json: Final = msgspec.json.Decoder()


NOT_STRICT: Final = object()


def decoded(data: bytes) -> Any:
    """Return the JSON value, or NOT_STRICT."""
    try:
        return _json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return NOT_STRICT


def leniently(data: bytes) -> Any:
    """Return the JSON value, or None.

    msgspec refuses what servers do send: NaN, numbers out of range, halves of surrogate pairs, bytes that are no
    UTF-8. The standard library reads these, at leisure.
    """
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def is_json(text: str) -> bool:
    """Tell whether a text is JSON by its grammar; NaN is not."""
    try:
        _json.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return _is_json_all_the_same(text)
    except RecursionError:
        return False
    return True


def _is_json_all_the_same(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(word: str) -> None:
    raise ValueError(word)
