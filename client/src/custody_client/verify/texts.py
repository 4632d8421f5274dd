"""Texts that have one form only: base64, decimal numbers, canonical JSON. Any other writing of them is refused."""

import json
from binascii import Error, a2b_base64, b2a_base64
from typing import Final

# 32 bytes leave four bits for the last digit: only sixteen of the 64 can stand there.
B64_32: Final = "[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]="
HEX_ID: Final = "[0-9a-f]{32}"
# Nothing that we count needs more than 18 digits, and none begins with a zero.
NUMBER: Final = "(?:0|[1-9][0-9]{0,17})"

_canonical: Final = json.JSONEncoder(
    ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def strict_base64(text: bytes) -> bytes:
    """Decode; ValueError if the bytes would be written otherwise."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except Error as error:
        raise ValueError("not base64") from error
    if b2a_base64(data, newline=False) != text:
        raise ValueError("not base64 in its one form")
    return data


def canonical_json(data: bytes) -> object:
    """Parse JSON; ValueError unless it has sorted keys, each once, no spaces, ASCII only."""
    try:
        value = json.loads(data.decode("ascii"))
        again = _canonical.encode(value)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if again.encode("ascii") != data:
        raise ValueError("JSON, but not in its one form")
    return value
