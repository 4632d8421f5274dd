"""Bodies that a hold keeps beyond their span, in a partition that no span drops, and the buckets that wrap them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection, Record
from store.tables import load
from store.tables.purging import Target

_SQL = load("held_bodies")

# Where such a body lies; the migration made the partition, and the statements name the same instant.
HELD: Final = datetime(9999, 1, 1, tzinfo=UTC)


class HoldBucket(NamedTuple):
    """A bucket without a span."""

    scope_id: UUID
    bucket_id: UUID


class Wrapped(NamedTuple):
    """A part's wrapped secret, and in which bucket's key."""

    evidence: UUID
    bucket_id: UUID
    wrapped: bytes


async def scopes_without(connection: Connection, limit: int) -> list[UUID]:
    """Return scopes that have no live bucket of this kind."""
    return [row["scope_id"] for row in await connection.fetch(_SQL["scopes_without"], limit)]


async def insert_bucket(connection: Connection, bucket: HoldBucket) -> bool:
    """Make a scope's live one; False where there is one already."""
    return await connection.fetchval(_SQL["insert_bucket"], *bucket) is not None


async def share_bucket(connection: Connection, scope: UUID) -> UUID | None:
    """Return the scope's live one and keep it so until the transaction ends; None where there is none yet."""
    value: UUID | None = await connection.fetchval(_SQL["share_bucket"], scope)
    return value


async def take_held(
    connection: Connection, scope: UUID, bucket: UUID, span_start: datetime, limit: int
) -> list[UUID]:
    """Lock and return parts of a bucket that are held and still lie in its span."""
    rows = await connection.fetch(_SQL["candidates"], scope, bucket, span_start, limit)
    found = list({row["evidence"] for row in rows})
    taken = await connection.fetch(_SQL["take_parts"], scope, span_start, found) if found else []
    return [row["evidence"] for row in taken]


async def wrapped_in_span(
    connection: Connection, span_start: datetime, scope: UUID, evidence: Sequence[UUID]
) -> list[Wrapped]:
    """Return the wrapped secrets of some bodies of one span."""
    rows = await connection.fetch(_SQL["wrapped_in_span"], span_start, scope, list(evidence))
    return [_wrapped(row) for row in rows]


async def move(connection: Connection, span_start: datetime, scope: UUID, bodies: Sequence[Wrapped]) -> None:
    """Move bodies out of a span, their secrets wrapped anew and everything else as it is."""
    evidence = [each.evidence for each in bodies]
    buckets, secrets = [each.bucket_id for each in bodies], [each.wrapped for each in bodies]
    await connection.execute(_SQL["move_bodies"], span_start, scope, evidence, buckets, secrets)
    await connection.execute(_SQL["follow_bodies"], scope, evidence)


async def overdue(connection: Connection, scope: UUID, limit: int) -> list[Target]:
    """Return parts that a hold kept beyond their bucket and that nothing holds any more."""
    return [
        Target(row["scope_id"], row["run_uid"], row["evidence"], row["bucket_id"])
        for row in await connection.fetch(_SQL["overdue"], scope, limit)
    ]


async def set_stale(connection: Connection, scope: UUID, buckets: Sequence[UUID]) -> None:
    """Have the keys of those among these changed that are buckets without a span."""
    await connection.execute(_SQL["set_stale"], scope, list(buckets))


async def stale(connection: Connection) -> list[HoldBucket]:
    """Return live ones whose key is to be changed."""
    return [_bucket(row) for row in await connection.fetch(_SQL["stale"])]


async def retire(connection: Connection, bucket: HoldBucket) -> bool:
    """Let nobody move anything in any more; False where somebody did this before."""
    return await connection.fetchval(_SQL["retire"], *bucket) is not None


async def retired(connection: Connection) -> list[HoldBucket]:
    """Return those whose rest is to be wrapped anew and whose key is then to be destroyed."""
    return [_bucket(row) for row in await connection.fetch(_SQL["retired"])]


async def take_wrapped(connection: Connection, bucket: HoldBucket, limit: int) -> list[Wrapped]:
    """Lock and return secrets that a retired one still wraps."""
    return [_wrapped(row) for row in await connection.fetch(_SQL["take_wrapped"], *bucket, limit)]


async def put_wrapped(connection: Connection, bucket: HoldBucket, secrets: Sequence[Wrapped]) -> None:
    """Put secrets under another bucket's key in their place."""
    evidence, values = [each.evidence for each in secrets], [each.wrapped for each in secrets]
    await connection.execute(_SQL["put_wrapped"], *bucket, evidence, values)


async def left_in(connection: Connection, bucket: HoldBucket) -> bool:
    """Say whether its key still wraps anything."""
    return bool(await connection.fetchval(_SQL["left_in"], *bucket))


async def set_destroyed(connection: Connection, bucket: HoldBucket) -> None:
    """Say that a retired one's key is gone."""
    await connection.execute(_SQL["destroyed"], *bucket)


async def counts(connection: Connection) -> dict[str, int]:
    """Return how many bodies are kept beyond their span, by the name of their scope."""
    return {row["scope"]: row["bodies"] for row in await connection.fetch(_SQL["counts"])}


async def due(connection: Connection) -> bool:
    """Say whether some key is to be changed."""
    return bool(await connection.fetchval(_SQL["due"]))


def _bucket(row: Record) -> HoldBucket:
    return HoldBucket(row["scope_id"], row["bucket_id"])


def _wrapped(row: Record) -> Wrapped:
    return Wrapped(row["evidence"], row["bucket_id"], row["wrapped"])
