"""Small duties: what goes of append-only tables, and which live buckets have their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from store.db import Database
from store.keyring import Keyring
from store.services import console_sessions
from store.services.duties import each_within
from store.tables import bucket_keys, exports, months, publishing, read_counts, spans
from store.tables.buckets import BucketKey

MONTHS: Final = "months"

_A_MONTH: Final = timedelta(days=31)
_CHECKPOINTS: Final = 10_000
_BUDGET_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Months:
    """Makes the months of `accesses` and `operator_actions` ahead; drops what nobody keeps, and what is as old.

    Of checkpoints what nothing needs any more goes too, and sessions of the console that ended, or rested for
    `console_idle`.
    """

    database: Database
    console_idle: timedelta

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
        return {
            "dropped": len(past),
            "forgotten": forgotten,
            "thinned": await each_within(_BUDGET_S, self._thin),
            "sessions": await console_sessions.remove_over(self.database, self.console_idle),
        }

    async def _thin(self) -> int:
        async with self.database.connection() as connection:
            return await publishing.thin_checkpoints(connection, _CHECKPOINTS)


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """Which live buckets have their keys; `key_check` looks closer."""

    database: Database
    keyring: Keyring

    async def look(self) -> tuple[Sequence[BucketKey], Sequence[BucketKey]]:
        """Return every live bucket, and those of them that have no key."""
        have = self.keyring.bucket_keys()
        async with self.database.connection() as connection:
            needed = await bucket_keys.needed(connection)
        lost = [key for key in needed if (key.scope_id, key.key_id) not in have]
        return [BucketKey(*key[:2]) for key in needed], [BucketKey(*key[:2]) for key in lost]
