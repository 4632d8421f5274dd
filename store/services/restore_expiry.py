"""Buckets that expired after the backup expire again; what was held then moves out first, as it did when they expired.

Holds of before have been replayed by then, since the log is replayed in its order. Where a bucket's key is destroyed
by now nothing of it can be opened, so that nothing is moved: what was held went with the database that had it.
"""

from dataclasses import dataclass
from uuid import UUID

from store.db import Connection, Database
from store.keyring import Keyring
from store.services.hold_buckets import BATCH, move_some
from store.tables import buckets, restores
from store.tables.buckets import Bucket


@dataclass(frozen=True, slots=True)
class ExpiryAgain:
    """`database` acts as the duties."""

    database: Database
    keyring: Keyring

    async def move(self, scope: UUID, bucket: UUID) -> None:
        """Move most of what is held, in batches of a transaction: that may be very much."""
        moved = BATCH
        while moved == BATCH:
            async with self.database.transaction() as connection:
                locked = await buckets.lock_alone(connection, scope, bucket)
                moved = await self._some(connection, locked)

    async def expire(self, connection: Connection, scope: UUID, bucket: UUID, at: int) -> bool:
        """Move the rest and mark the bucket, within the caller's transaction; False where it is not live."""
        locked = await buckets.lock_alone(connection, scope, bucket)
        while await self._some(connection, locked):
            pass
        if await restores.expire(connection, (scope, bucket), at):
            return True
        # Where it expired here too, before anybody knew that it had: the log says so once.
        await restores.unqueue_expiry(connection, bucket)
        return False

    async def _some(self, connection: Connection, locked: Bucket | None) -> int:
        if locked is None or locked.state != "live":
            return 0
        keys = await restores.keys_of(connection, (locked.scope_id, locked.bucket_id))
        if not any(self.keyring.has_bucket_key(locked.scope_id, key) for key in keys):
            return 0
        return await move_some(connection, self.keyring, locked.scope_id, locked.bucket_id, locked.span_start)
