"""Small duties: the months of append-only tables, and the daily look at every live bucket's key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from store.db import Database
from store.keyring import Keyring
from store.logging import logger
from store.tables import buckets, exports, months, read_counts, spans
from store.tables.buckets import BucketKey

MONTHS: Final = "months"
BUCKET_KEYS: Final = "bucket_keys"

_A_MONTH: Final = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class Months:
    """Makes the months of `accesses` and `operator_actions` ahead; drops what nobody keeps, and what is as old."""

    database: Database

    async def run(self) -> Mapping[str, int]:
        """Make this month and the next, then drop what is past; exports and counts of reads go too."""
        async with self.database.transaction() as connection:
            now = await spans.database_now(connection)
            for instant in (now, now.replace(day=1) + _A_MONTH):
                await months.ensure(connection, instant)
            past = await months.past(connection)
        for month in past:
            async with self.database.transaction() as connection:
                await months.drop(connection, month)
        async with self.database.transaction() as connection:
            forgotten = await exports.forget(connection) + await read_counts.forget(connection)
        return {"dropped": len(past), "forgotten": forgotten}


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """Looks whether every live bucket can still be opened: a lost key is found before a reader finds it."""

    database: Database
    keyring: Keyring

    async def run(self) -> Mapping[str, int]:
        """Look at every live bucket, and name each that nobody can open."""
        live, lost = await self.look()
        for bucket in lost:
            logger().error(
                "bucket_key_lost", duty=BUCKET_KEYS, scope_id=bucket.scope_id, bucket=bucket.bucket_id
            )
        return {"live": len(live), "lost": len(lost)}

    async def look(self) -> tuple[Sequence[BucketKey], Sequence[BucketKey]]:
        """Return every live bucket, and those of them that have no key."""
        have = self.keyring.bucket_keys()
        async with self.database.connection() as connection:
            live = await buckets.live(connection)
        return live, [bucket for bucket in live if bucket not in have]
