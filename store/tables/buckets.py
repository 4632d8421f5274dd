"""Buckets: all parts of one scope that expire in one span; the unit of scheduled expiry."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from store.db import Connection, Record
from store.tables import load

_SQL = load("buckets")


@dataclass(frozen=True, slots=True)
class Bucket:
    """One row; it expires at `span_end`."""

    scope_id: UUID
    bucket_id: UUID
    span_start: datetime
    span_end: datetime
    state: str


class BucketKey(NamedTuple):
    """What names a bucket, and its key."""

    scope_id: UUID
    bucket_id: UUID


@dataclass(frozen=True, slots=True)
class MissingBucket:
    """A scope that has no bucket for a span yet."""

    scope_id: UUID
    span_start: datetime
    span_end: datetime


@dataclass(frozen=True, slots=True)
class DueSpan:
    """A span whose end has come; `begun` says that some of its buckets were marked expired before."""

    span_start: datetime
    span_end: datetime
    begun: bool


async def longest_retention_s(connection: Connection) -> int | None:
    """Return the longest retention that any scope allows, in seconds; None where there is no scope."""
    value: int | None = await connection.fetchval(_SQL["longest_retention_s"])
    return value


async def short_of_buckets(connection: Connection, ahead_s: float) -> bool:
    """Say whether some scope has no bucket beyond the longest retention plus `ahead_s`."""
    return bool(await connection.fetchval(_SQL["short_of_buckets"], ahead_s))


async def missing(
    connection: Connection, spans: Sequence[tuple[datetime, datetime]], limit: int
) -> list[MissingBucket]:
    """Return up to `limit` pairs of scope and span that have no row."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    rows = await connection.fetch(_SQL["missing"], starts, ends, limit)
    return [MissingBucket(row["scope_id"], row["span_start"], row["span_end"]) for row in rows]


async def insert(connection: Connection, rows: Sequence[Bucket]) -> set[UUID]:
    """Insert rows and return the ids of those that were not there already."""
    inserted = await connection.fetch(
        _SQL["insert"],
        [row.scope_id for row in rows],
        [row.bucket_id for row in rows],
        [row.span_start for row in rows],
        [row.span_end for row in rows],
    )
    return {row["bucket_id"] for row in inserted}


async def lock_alone(connection: Connection, scope: UUID, bucket: UUID) -> Bucket | None:
    """Return one bucket, with every writer of it waited for and kept out until the transaction ends."""
    return _bucket(await connection.fetchrow(_SQL["lock_alone"], scope, bucket))


async def next_to_expire(connection: Connection) -> BucketKey | None:
    """Return the key of a live bucket whose end is the next to come; None where there is none."""
    row = await connection.fetchrow(_SQL["next_to_expire"])
    return None if row is None else BucketKey(*row.values())


async def due_spans(connection: Connection, limit: int) -> list[DueSpan]:
    """Return spans whose end has come by database time and that are not wholly destroyed, oldest first."""
    rows = await connection.fetch(_SQL["due_spans"], limit)
    return [DueSpan(row["span_start"], row["span_end"], row["begun"]) for row in rows]


async def of_span(connection: Connection, span_start: datetime) -> list[Bucket]:
    """Return the buckets of a span that are not destroyed, by scope."""
    return [_of(row) for row in await connection.fetch(_SQL["of_span"], span_start)]


async def alive_in_span(connection: Connection, span_start: datetime) -> int:
    """Count the buckets of a span that have not expired yet."""
    return int(await connection.fetchval(_SQL["alive_in_span"], span_start))


async def part_leaves(connection: Connection, bucket: Bucket) -> int:
    """Count the part leaves with this bucket, whatever became of the parts."""
    return int(
        await connection.fetchval(_SQL["part_leaves"], bucket.scope_id, bucket.bucket_id, bucket.span_start)
    )


async def mark_expired(connection: Connection, bucket: Bucket) -> None:
    """Mark a live bucket expired."""
    await connection.execute(_SQL["mark_expired"], bucket.scope_id, bucket.bucket_id)


async def mark_destroyed(connection: Connection, bucket: Bucket) -> None:
    """Mark an expired bucket destroyed."""
    await connection.execute(_SQL["mark_destroyed"], bucket.scope_id, bucket.bucket_id)


async def oldest_undestroyed(connection: Connection) -> datetime | None:
    """Return since when content that has expired is still on the disk; None when there is none."""
    value: datetime | None = await connection.fetchval(_SQL["oldest_undestroyed"])
    return value


def _bucket(row: Record | None) -> Bucket | None:
    return None if row is None else _of(row)


def _of(row: Record) -> Bucket:
    return Bucket(row["scope_id"], row["bucket_id"], row["span_start"], row["span_end"], row["state"])


async def runs_over(connection: Connection, bucket: Bucket, last: UUID, limit: int) -> list[tuple[UUID, str]]:
    """Return id and name of runs that nobody closed, and that were over when this bucket ended."""
    rows = await connection.fetch(_SQL["runs_over"], bucket.scope_id, bucket.span_end, last, limit)
    return [(row["run_uid"], row["run"]) for row in rows]
