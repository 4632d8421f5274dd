"""Intake keys: the hour's keys for bodies that wait in the queue, made ahead, destroyed a day after their last entry.

What waits for long keeps the key that sealed it and no other. What rests in the queue's file after that can be opened
by nobody; the file is rewritten daily all the same.
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
# What came in since sealed no hour that is so long over, whatever the clocks are apart.
_OLD: Final = KEPT_AFTER / 2
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
        gone = await self._destroy_past(now)
        return {"made": len(made), "destroyed": gone, "rewritten": await self._rewrite(now)}

    async def _destroy_past(self, now: datetime) -> int:
        """Destroy keys whose hour ended a day ago or more, but for those that sealed what still waits."""
        over = now - KEPT_AFTER
        if not self._ended_by(over):
            return 0
        sealed = await self.queue.sealed_by(_OLD)
        # Of entries that were not looked at it is only known that they are no older than this.
        over -= timedelta(seconds=sealed.unseen_s or 0.0)
        past = [key_id for key_id in self._ended_by(over) if key_id not in sealed.ages_s]
        for key_id in past:
            self.keyring.destroy_intake_key(key_id)
        return len(past)

    def _ended_by(self, instant: datetime) -> list[bytes]:
        return [key_id for start, key_id in self.keyring.intake_keys() if start + _HOUR <= instant]

    async def _rewrite(self, now: datetime) -> int:
        async with self.database.connection() as connection:
            last = await leases.paced_at(connection, DUTY)
            if last is not None and timedelta(0) <= now - last < _REWRITE_EVERY:
                return 0
            await self.queue.rewrite_file()
            await leases.pace(connection, DUTY)
        return 1
