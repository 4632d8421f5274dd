"""Intake keys: the hour's keys for bodies that wait in the queue, made ahead, destroyed a day after their last entry.

What rests in the queue's file after that can be opened by nobody; the file is rewritten daily all the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from store.db import Database
from store.keyring import Keyring
from store.queue import Queue
from store.tables import leases, spans

DUTY: Final = "intake_keys"

# So long captures go on without any duty.
AHEAD_HOURS: Final = 72
KEPT_AFTER: Final = timedelta(hours=24)
_HOUR: Final = timedelta(hours=1)
_REWRITE_EVERY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class IntakeKeys:
    """What the keys' duty works with; `database` acts as the duties."""

    database: Database
    keyring: Keyring
    queue: Queue

    async def run(self) -> Mapping[str, int]:
        """Make keys ahead, destroy those that nothing needs, and have the queue's file rewritten once a day."""
        async with self.database.connection() as connection:
            now = await spans.database_now(connection)
        made = self.keyring.create_intake_keys(now, AHEAD_HOURS)
        waiting = max((depth.oldest_age_s for depth in await self.queue.depth()), default=0.0)
        gone = self._destroy_before(now - timedelta(seconds=waiting) - KEPT_AFTER)
        return {"made": len(made), "destroyed": gone, "rewritten": await self._rewrite(now)}

    def _destroy_before(self, needed_since: datetime) -> int:
        """Destroy keys whose hour ended before: the oldest entry that waits is younger by a day or more."""
        past = [key_id for start, key_id in self.keyring.intake_keys() if start + _HOUR <= needed_since]
        for key_id in past:
            self.keyring.destroy_intake_key(key_id)
        return len(past)

    async def _rewrite(self, now: datetime) -> int:
        async with self.database.connection() as connection:
            last = await leases.paced_at(connection, DUTY)
            if last is not None and timedelta(0) <= now - last < _REWRITE_EVERY:
                return 0
            await self.queue.rewrite_file()
            await leases.pace(connection, DUTY)
        return 1
