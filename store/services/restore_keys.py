"""Keys that a restored database needs: those that its buckets had in the backup may have been destroyed since."""

from typing import Final

from store.db import Database
from store.keyring import Keyring
from store.services.hold_buckets import ensure_hold_buckets, hold_buckets_due
from store.services.housekeeping import BucketKeys
from store.services.rewrapping import Rewrapping, Selection
from store.tables import bucket_keys

# Nobody reads by a key that is not there, so that nobody is waited for.
_GRACE_S: Final = 0.0


async def ready_to_hold(database: Database, keyring: Keyring, who: str) -> None:
    """Give every scope a bucket, with its key, that what is held can move to: the replay moves it before it expires."""
    while await hold_buckets_due(database):
        await ensure_hold_buckets(database, keyring)
    await replace_lost(database, keyring, who, holding=True)


async def replace_lost(database: Database, keyring: Keyring, who: str, *, holding: bool = False) -> None:
    """Give live buckets whose key is gone another one, those that hold or all others: writers need one.

    What the old one wraps stays as it is: nobody can open it.
    """
    _, lost = await BucketKeys(database, keyring).look()
    rewrapping = Rewrapping(database, keyring, grace_s=_GRACE_S)
    for bucket in lost:
        async with database.connection() as connection:
            without_span = bool(await bucket_keys.holding(connection, *bucket))
        if without_span is holding:
            await rewrapping.run(who, Selection(*bucket))
