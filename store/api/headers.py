"""Header hygiene: what every capture's headers must be before anything else is looked at."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from policies.reasons import Reason
from store.errors import CustodyError, Malformed
from store.services.said import PART_WORDS

# Said twice, these would let two readers of one request see two different requests.
_SINGLE: Final = frozenset(
    {
        "authorization",
        "content-length",
        "content-type",
        "content-digest",
        "content-encoding",
        "transfer-encoding",
        "expect",
        "host",
    }
)
_PREFIX: Final = "custody-"
# What is said of a part, and the header that says it; the body's own headers have no prefix.
_SAID: Final = {word if word in _SINGLE else _PREFIX + word: word for word in PART_WORDS}
_LENGTH_DIGITS: Final = 12
_SEPARATORS: Final = 4  # colon, space, and the line's end


def clean(raw: Sequence[tuple[bytes, bytes]], most_bytes: int) -> dict[str, str]:
    """Return headers by name (ASGI has them in lower case), or raise: too large, repeated where it matters, coded."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if len(headers) != len(raw):
        _only_once(raw)
    if sum([len(name) + len(value) + _SEPARATORS for name, value in raw]) > most_bytes:
        raise Malformed(detail=f"the headers are over {most_bytes} bytes")
    if headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise CustodyError(Reason.UNSUPPORTED_MEDIA, "send the body without a content coding")
    return headers


def declared_length(headers: dict[str, str]) -> int | None:
    """Return the declared size of the body in bytes, or None where it comes in chunks; neither is a fault."""
    text = headers.get("content-length")
    chunked = "transfer-encoding" in headers
    if text is not None and chunked:
        raise Malformed(detail="a length and chunks contradict each other")
    if chunked:
        return None
    if text is None:
        raise CustodyError(Reason.LENGTH_REQUIRED, "send Content-Length or chunks")
    if not text.isascii() or not text.isdigit() or len(text) > _LENGTH_DIGITS:
        raise Malformed(detail="Content-Length is not a number")
    return int(text)


def said_of(headers: dict[str, str]) -> dict[str, str]:
    """Return what the headers say of a part, by the names that `store.services.said` reads."""
    return {_SAID[name]: value for name, value in headers.items() if name in _SAID}


def wait_of(headers: dict[str, str], most_s: float) -> float:
    """Return how many seconds `Prefer: wait=n` (RFC 7240) asks for, at most `most_s`; 0 where nothing was asked."""
    if "prefer" not in headers:
        return 0.0
    for preference in headers["prefer"].split(","):
        name, _, value = preference.strip().partition("=")
        if name.lower() == "wait" and value.isascii() and value.isdigit():
            return min(float(value[:6]), most_s)
    return 0.0


def _only_once(raw: Sequence[tuple[bytes, bytes]]) -> None:
    for name_bytes, count in Counter(name for name, _ in raw).items():
        name = name_bytes.decode("latin-1")
        if count > 1 and (name in _SINGLE or name.startswith(_PREFIX)):
            raise Malformed(detail="a Custody header, Authorization or a body header is repeated")
