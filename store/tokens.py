"""Signed texts that a caller carries for us: prefix, then URL-safe base64 of payload and tag.

They hide nothing from their bearer; they only cannot be made or changed by anybody without the key.
"""

import base64
import binascii
import hmac
from functools import lru_cache
from typing import Final

from store.encoding import Keyed, lp

_LONGEST: Final = 8192


def sign(prefix: str, key: bytes, payload: bytes, bound: bytes = b"", *, tag_bytes: int = 32) -> str:
    """Return the text of a payload; `bound` is under the tag but not in the text: the reader must know it."""
    tag = _tag(prefix, key, payload, bound)[:tag_bytes]
    return prefix + _text(payload + tag)


def verified(prefix: str, key: bytes, text: str, bound: bytes = b"", *, tag_bytes: int = 32) -> bytes | None:
    """Return the payload of a text that we signed for the same `bound`, else None."""
    if len(text) > _LONGEST or not text.startswith(prefix) or not text.isascii():
        return None
    encoded = text[len(prefix) :]
    try:
        signed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except binascii.Error:
        return None
    payload, tag = signed[:-tag_bytes], signed[-tag_bytes:]
    genuine = hmac.compare_digest(tag, _tag(prefix, key, payload, bound)[:tag_bytes])
    # Base64 can be written in several ways; only ours is the text that we gave out.
    return payload if genuine and _text(signed) == encoded else None


def _tag(prefix: str, key: bytes, payload: bytes, bound: bytes) -> bytes:
    return _keyed(key).digest(_head(prefix, bound) + payload)


# The keys of signed texts stay for good, and a process has few.
@lru_cache(maxsize=8)
def _keyed(key: bytes) -> Keyed:
    return Keyed(key)


@lru_cache(maxsize=64)
def _head(prefix: str, bound: bytes) -> bytes:
    return lp(prefix.encode("ascii"), bound)


def _text(signed: bytes) -> str:
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode("ascii")
