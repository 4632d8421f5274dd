"""Which keys wrap the secrets of a bucket: one, and while it is changed the old one too."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from store.db import Connection, Record
from store.tables import load
from store.tables.buckets import BucketKey
from store.tables.held_bodies import Wrapped

_SQL = load("bucket_keys")


class NeededKey(NamedTuple):
    """A key that something needs; the bucket's own id is its first key's."""

    scope_id: UUID
    bucket_id: UUID
    span_start: datetime | None
    key_id: UUID


class Changing(NamedTuple):
    """A bucket whose key is being changed."""

    scope_id: UUID
    bucket_id: UUID
    span_start: datetime
    key_id: UUID
    old_key_id: UUID


async def needed(connection: Connection) -> list[NeededKey]:
    """Return every key in which something is or will be wrapped, by the spans of their buckets."""
    return [NeededKey(*row.values()) for row in await connection.fetch(_SQL["needed"])]


async def samples(
    connection: Connection, span_start: datetime, keys: Sequence[NeededKey]
) -> dict[tuple[UUID, UUID], Wrapped]:
    """Return one wrapped secret for each of these (scope, key) of one span; nothing of one that wraps none."""
    scopes, ids = [key.scope_id for key in keys], [key.key_id for key in keys]
    rows = await connection.fetch(_SQL["samples"], span_start, scopes, ids)
    return {
        (row["scope_id"], row["key_id"]): Wrapped(row["evidence"], row["key_id"], row["wrapped"])
        for row in rows
    }


async def known(connection: Connection, keys: Collection[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], bool]:
    """Say of those of these (scope, key) that some bucket has or had whether they should be gone."""
    rows = await connection.fetch(_SQL["known"], [scope for scope, _ in keys], [key for _, key in keys])
    return {(row["scope_id"], row["key_id"]): row["over"] for row in rows}


async def of_expired(connection: Connection, span_start: datetime) -> list[BucketKey]:
    """Return every key that any expired bucket of a span has or had, its own id among them."""
    return [
        BucketKey(row["scope_id"], row["key_id"])
        for row in await connection.fetch(_SQL["of_expired"], span_start)
    ]


async def changeable(connection: Connection, scope: UUID | None, bucket: UUID | None) -> list[BucketKey]:
    """Return live buckets whose key may be changed, of all or one scope, and all or one bucket."""
    return [_bucket(row) for row in await connection.fetch(_SQL["changeable"], scope, bucket)]


async def changing(connection: Connection, scope: UUID | None, bucket: UUID | None) -> list[Changing]:
    """Return those of which somebody began to change the key."""
    return [Changing(*row.values()) for row in await connection.fetch(_SQL["changing"], scope, bucket)]


async def holding(connection: Connection, scope: UUID | None, bucket: UUID | None) -> list[BucketKey]:
    """Return the live ones without a span."""
    return [_bucket(row) for row in await connection.fetch(_SQL["holding"], scope, bucket)]


async def begin(connection: Connection, scope: UUID, bucket: UUID, key: UUID) -> Changing | None:
    """Have a bucket that is locked alone wrap in another key from now on; None where it is not to be changed now."""
    row = await connection.fetchrow(_SQL["begin"], scope, bucket, key)
    return None if row is None else Changing(*row.values())


async def take_wrapped(connection: Connection, bucket: Changing, after: UUID, limit: int) -> list[Wrapped]:
    """Lock and return secrets that the old key still wraps, by their ids."""
    place = (bucket.span_start, bucket.scope_id, bucket.old_key_id)
    rows = await connection.fetch(_SQL["take_wrapped"], *place, after, limit)
    return [Wrapped(row["evidence"], row["bucket_id"], row["wrapped"]) for row in rows]


async def put_wrapped(connection: Connection, bucket: Changing, secrets: Sequence[Wrapped]) -> None:
    """Put the same secrets, wrapped in the new key, in their place."""
    evidence, values = [each.evidence for each in secrets], [each.wrapped for each in secrets]
    place = (bucket.span_start, bucket.scope_id, bucket.key_id)
    await connection.execute(_SQL["put_wrapped"], *place, evidence, values)


async def left_in(connection: Connection, bucket: Changing) -> bool:
    """Say whether the old key still wraps anything."""
    place = (bucket.span_start, bucket.scope_id, bucket.old_key_id)
    return bool(await connection.fetchval(_SQL["left_in"], *place))


async def changed(connection: Connection, bucket: Changing) -> None:
    """Say that the old key is gone."""
    await connection.execute(_SQL["changed"], bucket.scope_id, bucket.bucket_id, bucket.old_key_id)


def _bucket(row: Record) -> BucketKey:
    return BucketKey(row["scope_id"], row["bucket_id"])
