"""How the log's texts are read: what does not write back to the same text is refused."""

import base64
import binascii
import re
from typing import Final

HASH_BYTES: Final = 32

# Sizes are bigint in the database.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_LARGEST: Final = 2**63 - 1


class Unreadable(ValueError):
    """A text of the log is not exactly of its form; never says what it held."""


def number(text: str) -> int:
    """Read a whole number without sign, spaces or leading zeros."""
    if _NUMBER.fullmatch(text) is None or int(text) > _LARGEST:
        raise Unreadable("a number is not written as it should be")
    return int(text)


def from_base64(text: str) -> bytes:
    """Read standard, padded base64 that has no bits left over."""
    try:
        value = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Unreadable("base64 is not written as it should be") from None
    if to_base64(value) != text:
        raise Unreadable("base64 has more than one spelling, and this is not ours")
    return value


def to_base64(value: bytes) -> str:
    """Write standard, padded base64."""
    return base64.b64encode(value).decode("ascii")


def hash_from_base64(text: str) -> bytes:
    """Read one SHA-256 hash."""
    value = from_base64(text)
    if len(value) != HASH_BYTES:
        raise Unreadable("a hash does not have 32 bytes")
    return value
