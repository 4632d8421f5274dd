"""The canonical bytes that the log and its commitments are about: metadata, close records, leaves."""

import base64
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from uuid import UUID

import msgspec

from store.encoding import Identity, canonical_json

# The fields of each kind of leaf besides k, t and v; all ids in them are minted by us.
_FIELDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "part": frozenset({"b", "c", "m", "p"}),
        "close": frozenset({"m", "r"}),
        "hold": frozenset({"h", "op", "si", "sk"}),
        "revoke": frozenset({"op", "si", "sv"}),
        "purge": frozenset({"of", "p", "w"}),
        "expire": frozenset({"b", "n"}),
        "restore": frozenset({"from", "to"}),
        "resume": frozenset({"size", "why"}),
        "key": frozenset({"op", "u"}),
    }
)

# The closed values, by kind and field.
_WORDS: Final[Mapping[tuple[str, str], frozenset[str]]] = MappingProxyType(
    {
        ("hold", "op"): frozenset({"place", "release"}),
        ("hold", "sk"): frozenset({"part", "run", "scope"}),
        ("revoke", "op"): frozenset({"revoke", "restore", "withdraw"}),
        ("purge", "w"): frozenset(
            {"erased", "retention_expired", "source_unavailable", "dependency_changed"}
        ),
        ("resume", "why"): frozenset({"rolled_back"}),
    }
)

Value = UUID | bytes | datetime | int | str | None


def leaf(kind: str, **fields: Value) -> bytes:
    """Return the entry of a leaf; `t` is database time, ids become hex, commitments base64.

    Raises ValueError on a field that the kind does not have, lacks, or gives a word outside its closed list:
    a leaf can never be corrected.
    """
    if fields.keys() != _FIELDS[kind] | {"t"}:
        raise ValueError(f"a leaf of kind {kind} has not exactly its fields")
    for name, value in fields.items():
        words = _WORDS.get((kind, name))
        if words is not None and value not in words:
            raise ValueError(f"a leaf of kind {kind} has a word in {name} that is not of its list")
    return canonical_json({"k": kind, "v": 1} | {name: _plain(value) for name, value in fields.items()})


class _Part(msgspec.Struct, frozen=True, gc=False):
    """A part's leaf, which is written for every part: the fields of `leaf("part")`, in the order of their names."""

    b: str
    c: bytes
    k: str
    m: bytes
    p: str
    t: int
    v: int


def part_leaf(bucket: UUID, evidence: UUID, commitment: bytes, meta_commitment: bytes, at: datetime) -> bytes:
    """Return what `leaf` returns for a part, in a third of the time."""
    return canonical_json(
        _Part(bucket.hex, commitment, "part", meta_commitment, evidence.hex, _seconds(at), 1)
    )


class _Meta(msgspec.Struct, frozen=True, gc=False):
    """The committed metadata, in the order of the fields' names."""

    attempt: str
    bucket: str
    captured_at: datetime | str | None
    completeness: str
    exchange: str
    kind: str
    media_type: str
    received_at: datetime | str
    run: str
    scope: str
    sequence: int | None
    session: str | None
    size_class: int
    sources: list[list[str | None]]
    v: int
    vantage: str


def meta_bytes(  # noqa: PLR0913 - the committed fields, each by its name
    identity: Identity,
    *,
    bucket: UUID,
    captured_at: datetime | None,
    completeness: str,
    media_type: str,
    received_at: datetime,
    sequence: int | None,
    session: str | None,
    size_class: int,
    sources: Collection[tuple[str, int | None]],
    vantage: str,
) -> bytes:
    """Return the committed metadata of a part; sources are (id, version), in any order, each once."""
    return canonical_json(
        # In their order: naming them takes longer than all the rest.
        _Meta(
            identity.attempt, bucket.hex, None if captured_at is None else _instant(captured_at), completeness,
            identity.exchange, identity.kind, media_type, _instant(received_at), identity.run, identity.scope.hex,
            sequence, session, size_class, _sources(sources) if sources else [], 1, vantage,
        )
    )  # fmt: skip


def close_bytes(
    scope: UUID,
    run: str,
    *,
    sessions: Mapping[str, int],
    stored: int,
    not_captured: Mapping[str, int],
    unaccounted: int,
) -> bytes:
    """Return what a closing commits to: each session's last number, and counts by outcome and reason."""
    return canonical_json(
        {
            "counts": {"not_captured": dict(not_captured), "stored": stored, "unaccounted": unaccounted},
            "run": run,
            "scope": scope.hex,
            "sessions": sorted([session, last] for session, last in sessions.items()),
            "v": 1,
        }
    )


def _plain(value: Value) -> int | str | None:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return _seconds(value)
    return value


# The parts of a batch are stored at one instant.
@lru_cache(maxsize=64)
def _seconds(value: datetime) -> int:
    return int(value.timestamp())


def _instant(value: datetime) -> datetime | str:
    """Return a time as it is to be written: in UTC, with six digits and a Z."""
    if value.microsecond and value.tzinfo is UTC:
        return value  # so the encoder writes it by itself, and twenty times faster
    text = value.astimezone(UTC).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00") + "Z"


def _sources(sources: Iterable[tuple[str, int | None]]) -> list[list[str | None]]:
    # Sorted as they stand in the text, an unbound version first, so that a reader can check the order.
    pairs = {(name, "" if version is None else str(version)) for name, version in sources}
    return [[name, version or None] for name, version in sorted(pairs)]
