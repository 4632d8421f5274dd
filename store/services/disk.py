"""Whether the database's disk takes more: at 90 % of its limit new captures are refused, and purging goes on."""

import math
from typing import Final

from policies.capacity import admit_disk
from policies.decisions import ALLOW, Decision
from store.db import Database
from store.services.last_known import LastKnown
from store.tables import disk

# Asking walks the files of the database; a disk does not fill within this time.
_AGE_S: Final = 10.0


class Disk:
    """The disk of the database, as it was a few seconds ago. While Postgres is away the last answer stands."""

    def __init__(self, database: Database, limit_bytes: int | None) -> None:
        self._database = database
        self._limit_bytes = limit_bytes
        self._used: LastKnown[None, int] = LastKnown(
            self._read, age_s=_AGE_S, size=1, grace_s=lambda _: math.inf
        )

    async def decide(self) -> Decision:
        """Decide whether new captures are taken; Unavailable where that has never been told."""
        if self._limit_bytes is None:
            return ALLOW
        return admit_disk(await self._used.get(None) or 0, self._limit_bytes)

    async def _read(self, _: None) -> int:
        async with self._database.connection() as connection:
            return await disk.used_bytes(connection)
