"""What a runtime says of an observation before its content is looked at: the same struct from headers and from a frame.

An unclear word means the stricter policy: it is never guessed at.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import http_sf
import msgspec

from policies.content import Word, clear_content, clear_word
from policies.kinds import Completeness, Content, Dispatch, Kind, Settlement, Vantage
from policies.revocation import Binding
from policies.sequences import LAST_SEQUENCE
from store.errors import Malformed
from store.ids import caller_id

OPAQUE: Final = "application/octet-stream"
MAX_SOURCES: Final = 32
MAX_REFS: Final = 4
MAX_REF_BYTES: Final = 200
_SHA256_BYTES: Final = 32
_SEQUENCE_DIGITS: Final = 16
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)

# What a part may call itself; anything else is kept as opaque bytes, since a type that nobody renders decides nothing.
MEDIA_TYPES: Final = frozenset(
    {
        "application/json",
        "application/problem+json",
        "application/ld+json",
        "application/x-ndjson",
        "application/jsonl",
        "application/xml",
        "application/yaml",
        "application/msgpack",
        "application/cbor",
        "application/x-protobuf",
        "application/vnd.amazon.eventstream",
        "application/x-www-form-urlencoded",
        OPAQUE,
        "text/plain",
        "text/event-stream",
        "text/markdown",
        "text/html",
        "text/csv",
        "text/xml",
        "multipart/form-data",
    }
)
# The words by which a part is told of besides its identity, from headers as from a frame.
PART_WORDS: Final = (
    "session",
    "sequence",
    "content-type",
    "content-digest",
    "sources",
    "completeness",
    "captured-at",
    "vantage",
    "dispatch",
    "settlement",
    "content",
)
_KINDS: Final = {kind.value: kind for kind in Kind}
_PARAMETERS: Final = re.compile(r"\s*;.*", re.DOTALL)


class PartSaid(msgspec.Struct, frozen=True, gc=False):
    """One observation that wants to become a part."""

    exchange: str
    attempt: str
    kind: Kind
    session: str | None = None
    sequence: int | None = None
    media_type: str = OPAQUE
    digest: bytes | None = None
    bindings: tuple[Binding, ...] = ()
    completeness: Completeness = Completeness.UNKNOWN
    captured_at: datetime | None = None
    vantage: Vantage = Vantage.SDK
    dispatch: Dispatch = Dispatch.UNKNOWN
    settlement: Settlement = Settlement.UNKNOWN
    content: Content = Content.ALLOW


class StateSaid(msgspec.Struct, frozen=True):
    """What a runtime says of an attempt; `refs` are ids of others by which it can be found."""

    exchange: str
    attempt: str
    dispatch: Dispatch = Dispatch.UNKNOWN
    settlement: Settlement = Settlement.UNKNOWN
    refs: tuple[str, ...] = ()


def state_said(said: StateSaid) -> StateSaid:
    """Check what is said of an attempt: ids of ours, few and short references."""
    if len(said.refs) > MAX_REFS or any(not 1 <= len(ref.encode()) <= MAX_REF_BYTES for ref in said.refs):
        raise Malformed(detail=f"at most {MAX_REFS} references of 1 to {MAX_REF_BYTES} bytes")
    caller_id(said.exchange)
    caller_id(said.attempt)
    return said


def part_said(exchange: str, attempt: str, kind: str, said: Mapping[str, str]) -> PartSaid:
    """Read what `said` tells in `PART_WORDS`."""
    session = said.get("session")
    sequence = said.get("sequence")
    return PartSaid(
        exchange=caller_id(exchange),
        attempt=caller_id(attempt),
        kind=known_kind(kind),
        session=None if session is None else caller_id(session),
        sequence=None if sequence is None else _sequence(sequence, session),
        media_type=media_type(said.get("content-type")),
        digest=content_digest(said.get("content-digest")),
        bindings=source_bindings(said.get("sources")),
        completeness=_word(said.get("completeness"), Completeness, Completeness.UNKNOWN),
        captured_at=captured_at(said.get("captured-at")),
        vantage=_word(said.get("vantage"), Vantage, Vantage.SDK),
        dispatch=_word(said.get("dispatch"), Dispatch, Dispatch.UNKNOWN),
        settlement=_word(said.get("settlement"), Settlement, Settlement.UNKNOWN),
        content=clear_content([said["content"]]) if "content" in said else Content.ALLOW,
    )


def known_kind(text: str) -> Kind:
    """Return the kind; what is not one of the two is a fault of the request."""
    kind = _KINDS.get(text)
    if kind is None:
        raise Malformed(detail="kind is logical-request or observable-output")
    return kind


def media_type(text: str | None) -> str:
    """Return the type without its parameters if it is on the list, else the opaque one."""
    if text is not None and text in MEDIA_TYPES:
        return text
    if text in MEDIA_TYPES:
        return text
    bare = _PARAMETERS.sub("", text or "").strip().lower()
    return bare if bare in MEDIA_TYPES else OPAQUE


def content_digest(text: str | None) -> bytes | None:
    """Return the sha-256 of a Content-Digest field (RFC 9530); other algorithms are not checked."""
    if text is None:
        return None
    value = _fields(text, "dictionary", "Content-Digest").get("sha-256", (None, {}))[0]
    if value is None:
        return None
    if not isinstance(value, bytes) or len(value) != _SHA256_BYTES:
        raise Malformed(detail="Content-Digest holds no sha-256 of 32 bytes")
    return value


def source_bindings(text: str | None) -> tuple[Binding, ...]:
    """Return the bindings of a Custody-Sources field: `"doc-7";v=3, "doc-8"` (a structured-field list)."""
    if text is None:
        return ()
    members = _fields(text, "list", "Custody-Sources")
    return bindings_of([(value, parameters.get("v")) for value, parameters in members])


def bindings_of(pairs: Sequence[tuple[object, object]]) -> tuple[Binding, ...]:
    """Check (source, version) pairs: bounded, ids of ours, versions from 1; sorted and without repeats."""
    if len(pairs) > MAX_SOURCES:
        raise Malformed(detail=f"at most {MAX_SOURCES} sources")
    bindings = set()
    for source, version in pairs:
        if not isinstance(source, str) or not (version is None or _is_version(version)):
            raise Malformed(detail="a source is an id with an optional version from 1")
        bindings.add(Binding(caller_id(source), version if isinstance(version, int) else None))
    return tuple(sorted(bindings, key=lambda binding: (binding.source, binding.version or 0)))


def captured_at(text: str | None) -> datetime | None:
    """Return the caller's own time; it is shown and decides nothing, so that an unreadable one is left out."""
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
        # An offset may lead out of the calendar; and the calendar's two ends are infinities to the database.
        return instant.astimezone(UTC) if instant.tzinfo is not None and _FIRST < instant < _LAST else None
    except (ValueError, OverflowError):
        return None


def _fields(text: str, form: Literal["dictionary", "list"], name: str) -> Any:
    """Parse a structured field (RFC 9651): members are pairs of a value and its parameters."""
    try:
        return http_sf.parse(text.encode("ascii"), tltype=form)
    except ValueError:
        # UnicodeError and the parser's own error both are ValueErrors; the parser's message quotes what it met.
        raise Malformed(detail=f"{name} is not a structured field") from None


def _is_version(version: object) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and 1 <= version < 2**31


def _word(said: str | None, words: type[Word], otherwise: Word) -> Word:
    return otherwise if said is None else clear_word([said], words, otherwise)


def _sequence(text: str, session: str | None) -> int:
    if session is None:
        raise Malformed(detail="a sequence is numbered within a session")
    # Bounded before it becomes a number: leading zeros would let any length through.
    if not text.isascii() or not text.isdigit() or len(text) > _SEQUENCE_DIGITS:
        raise Malformed(detail="a sequence is a number from 1")
    if not 1 <= int(text) <= LAST_SEQUENCE:
        raise Malformed(detail="a sequence is a number from 1")
    return int(text)
