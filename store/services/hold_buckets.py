"""The bucket without a span that each scope has: what is held moves there before its own bucket expires.

    make      key, then row; a duty does it for every scope that has none
    move      in batches of a transaction: secrets wrapped anew under its key, bodies moved as they are
    change    when something in it was destroyed: another one is made live, the rest is wrapped anew for it, and the
              old key is destroyed, after which nothing that was ever in it can be opened by a copy from before

A crash anywhere is continued by the next run: what is retired and not destroyed is found by its row.
"""

from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store import ids
from store.db import Connection, Database
from store.errors import Corrupt, Unavailable
from store.keyring import Keyring
from store.logging import logger
from store.services import wrapping
from store.services.duties import Budget, each_within
from store.tables import held_bodies
from store.tables.held_bodies import HoldBucket, Wrapped

# How many bodies move, or are wrapped anew, in one transaction.
BATCH: Final = 200
_SCOPES: Final = 512
_BUDGET_S: Final = 20.0


class NoPlace(Unavailable):
    """A scope has nowhere to move what is held: other scopes are not concerned, the database may be well."""


async def ensure_hold_buckets(database: Database, keyring: Keyring) -> int:
    """Make one for every scope that has none; return how many were made."""
    async with database.connection() as connection:
        scopes = await held_bodies.scopes_without(connection, _SCOPES)
    return sum([await _make(database, keyring, scope, None) for scope in scopes])


async def hold_buckets_due(database: Database) -> bool:
    """Say whether some scope has none."""
    async with database.connection() as connection:
        return bool(await held_bodies.scopes_without(connection, 1))


async def move_some(
    connection: Connection, keyring: Keyring, scope: UUID, bucket: UUID, span_start: datetime
) -> int:
    """Move held bodies of a bucket out of its span, within the caller's transaction; return how many.

    NoPlace where the scope has no bucket for them yet, or that has no key: then its own one must not expire.
    """
    taken = await held_bodies.take_held(connection, scope, bucket, span_start, BATCH)
    if not taken:
        return 0
    into = await held_bodies.share_bucket(connection, scope)
    if into is None:
        raise NoPlace(Reason.STORE_UNAVAILABLE, "no bucket for what is held")
    to = HoldBucket(scope, into)
    if not keyring.has_bucket_key(*to):
        # Left as it is, what can still be opened would go with the key of its own bucket.
        logger().error("hold_key_lost", scope_id=scope, bucket=into)
        raise NoPlace(Reason.STORE_UNAVAILABLE, "no key for what is held")
    found = await held_bodies.wrapped_in_span(connection, span_start, scope, taken)
    await held_bodies.move(connection, span_start, scope, [_anew(keyring, to, each) for each in found])
    return len(found)


async def change_keys(database: Database, keyring: Keyring, budget: Budget | None = None) -> int:
    """Change the keys of those of which something was destroyed; return how many old keys are gone."""
    budget = budget or Budget(_BUDGET_S)
    async with database.connection() as connection:
        stale = await held_bodies.stale(connection)
    for bucket in stale:
        await _make(database, keyring, bucket.scope_id, bucket)
    async with database.connection() as connection:
        retired = await held_bodies.retired(connection)
    return sum([await _empty(database, keyring, bucket, budget) for bucket in retired])


async def _make(database: Database, keyring: Keyring, scope: UUID, in_place_of: HoldBucket | None) -> bool:
    bucket = HoldBucket(scope, ids.new_bucket_id())
    keyring.create_bucket_key(*bucket)
    async with database.transaction() as connection:
        retired = in_place_of is None or await held_bodies.retire(connection, in_place_of)
        made = retired and await held_bodies.insert_bucket(connection, bucket)
    if not made:
        # Somebody else did it meanwhile: our key was never used and opens nothing.
        keyring.destroy_bucket_key(*bucket)
    return made


async def _empty(database: Database, keyring: Keyring, bucket: HoldBucket, budget: Budget) -> bool:
    """Wrap for the live one what a retired one still wraps, then destroy its key; as far as the time allows."""
    await each_within(budget.left_s, partial(_wrap_some, database, keyring, bucket))
    async with database.connection() as connection:
        if await held_bodies.left_in(connection, bucket):
            return False
    keyring.destroy_bucket_key(*bucket)
    async with database.connection() as connection:
        await held_bodies.set_destroyed(connection, bucket)
    logger().info("hold_key_changed", scope_id=bucket.scope_id, bucket=bucket.bucket_id)
    return True


async def _wrap_some(database: Database, keyring: Keyring, bucket: HoldBucket) -> int:
    async with database.transaction() as connection:
        into = await held_bodies.share_bucket(connection, bucket.scope_id)
        if into is None:
            return 0
        to = HoldBucket(bucket.scope_id, into)
        if not keyring.has_bucket_key(*to):
            # Then the old key stays: it is what still opens these.
            logger().error("hold_key_lost", scope_id=bucket.scope_id, bucket=into)
            return 0
        found = await held_bodies.take_wrapped(connection, bucket, BATCH)
        secrets = [_anew(keyring, to, each, keep_bucket=False) for each in found]
        await held_bodies.put_wrapped(connection, to, secrets)
    return len(found)


def _anew(keyring: Keyring, to: HoldBucket, secret: Wrapped, *, keep_bucket: bool = True) -> Wrapped:
    """Wrap a secret for another bucket, whose key is there. One that nobody can open stays as it is, and unreadable."""
    scope, evidence = to.scope_id, secret.evidence
    try:
        return wrapping.anew(keyring, scope, to.bucket_id, secret)
    except Corrupt as fault:
        logger().error("held_unreadable", reason=fault.reason.value, scope_id=scope, evidence=evidence)
        return secret if keep_bucket else secret._replace(bucket_id=to.bucket_id)
