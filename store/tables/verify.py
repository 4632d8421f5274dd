"""Rows as `verify` reads them, a batch at a time; every query goes on after the key of the last row before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection, Record
from store.tables import load

_SQL: Final = load("verify")

Key = tuple[UUID, UUID]
"""A scope and the id of something within it."""

FIRST: Final = (UUID(int=0), UUID(int=0))


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part, its run's text, its sources and its bucket; those are None where the row that they name is not there."""

    scope_id: UUID
    evidence: UUID
    run_uid: UUID
    run: str | None
    exchange: str
    attempt: str
    kind: str
    bucket_id: UUID
    span_start: datetime
    session: str | None
    sequence: int | None
    size_class: int
    media_type: str
    completeness: str
    vantage: str
    source_set: bytes | None
    sources: Sequence[str] | None
    versions: Sequence[int | None] | None
    captured_at: datetime | None
    received_at: datetime
    commitment: bytes
    meta_commitment: bytes
    meta_opening: bytes
    state: str
    bucket_state: str | None
    bucket_span: datetime | None

    @property
    def key(self) -> Key:
        """What names it."""
        return self.scope_id, self.evidence


class BodyRow(NamedTuple):
    """A body."""

    scope_id: UUID
    evidence: UUID
    bucket_id: UUID
    wrapped: bytes
    exact_bytes: int
    ciphertext: bytes


class BodyKey(NamedTuple):
    """Where a body is, and what its part says; `state` is None without a part."""

    span_start: datetime
    scope_id: UUID
    evidence: UUID
    state: str | None
    part_span: datetime | None


class Leaf(NamedTuple):
    """A leaf that waits for the log."""

    id: int
    scope_id: UUID
    leaf: bytes


class Committed(NamedTuple):
    """What a part's leaf must say."""

    bucket_id: UUID
    commitment: bytes
    meta_commitment: bytes
    stored_at: datetime


class BucketRow(NamedTuple):
    """A bucket; one that holds beyond spans has none. `keys` are all that it has or had, as far as its row knows."""

    scope_id: UUID
    bucket_id: UUID
    span_start: datetime | None
    state: str
    key_id: UUID
    keys: list[UUID]


class Superseded(NamedTuple):
    """A gap that names the part that came after all, and whether that is there."""

    scope_id: UUID
    run_uid: UUID
    gap_id: UUID
    there: bool


async def from_one_instant(connection: Connection) -> None:
    """See one instant until the transaction ends, and write nothing; first statement of a transaction."""
    await connection.execute(_SQL["from_one_instant"])


async def parts_after(connection: Connection, last: Key, limit: int) -> list[PartRow]:
    """Return the next parts by key."""
    return [_part(row) for row in await connection.fetch(_SQL["parts_after"], *last, limit)]


async def parts_named(connection: Connection, keys: Sequence[Key]) -> list[PartRow]:
    """Return these parts as they are now."""
    return [_part(row) for row in await connection.fetch(_SQL["parts_named"], *_columns(keys))]


async def bodies_of(connection: Connection, span_start: datetime, keys: Sequence[Key]) -> dict[Key, BodyRow]:
    """Return the bodies that parts of one span have."""
    rows = await connection.fetch(_SQL["bodies_of"], span_start, *_columns(keys))
    return {(row["scope_id"], row["evidence"]): BodyRow(*row.values()) for row in rows}


async def bodies_after(
    connection: Connection, last: tuple[datetime, UUID, UUID], limit: int
) -> list[BodyKey]:
    """Return the next bodies by key, without their bytes."""
    return [BodyKey(*row.values()) for row in await connection.fetch(_SQL["bodies_after"], *last, limit)]


async def bodies_stray(connection: Connection, bodies: Sequence[BodyKey]) -> list[Key]:
    """Return those that are there and should not be."""
    spans = [body.span_start for body in bodies]
    rows = await connection.fetch(_SQL["bodies_stray"], spans, *_columns([body[1:3] for body in bodies]))
    return [(row["scope_id"], row["evidence"]) for row in rows]


async def leaves_after(connection: Connection, last: int, limit: int) -> list[Leaf]:
    """Return the next leaves by id."""
    return [Leaf(*row.values()) for row in await connection.fetch(_SQL["leaves_after"], last, limit)]


async def committed(connection: Connection, keys: Sequence[Key]) -> dict[Key, Committed]:
    """Return what these parts' leaves must say; a part that is not there is left out."""
    rows = await connection.fetch(_SQL["committed"], *_columns(keys))
    return {keys[row["place"] - 1]: Committed(*[row[field] for field in Committed._fields]) for row in rows}


async def evidence_after(connection: Connection, last: Key, limit: int) -> list[Key]:
    """Return the keys of the next parts."""
    return [
        (row["scope_id"], row["evidence"])
        for row in await connection.fetch(_SQL["evidence_after"], *last, limit)
    ]


async def buckets_after(connection: Connection, last: Key, limit: int) -> list[BucketRow]:
    """Return the next buckets by key."""
    return [BucketRow(*row.values()) for row in await connection.fetch(_SQL["buckets_after"], *last, limit)]


async def superseded_after(
    connection: Connection, last: tuple[UUID, UUID, UUID], limit: int
) -> list[Superseded]:
    """Return the next superseded gaps by key."""
    return [
        Superseded(*row.values()) for row in await connection.fetch(_SQL["superseded_after"], *last, limit)
    ]


def _part(row: Record) -> PartRow:
    return PartRow(*row.values())


def _columns(keys: Sequence[Key]) -> Iterator[list[UUID]]:
    yield [scope for scope, _ in keys]
    yield [each for _, each in keys]
