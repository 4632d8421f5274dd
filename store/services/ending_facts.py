"""Deleting the facts of runs that are erased or over, a few runs at a time.

One run of the purge meets each of them once: held ones stay, and are not asked about again for every batch of parts.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from store.db import Database
from store.tables import facts, purging
from store.tables.facts import FIRST, Over

_RUNS: Final = 50


class EndingFacts:
    """How far one run of the purge is with the facts of each scope; `database` acts as the duties."""

    def __init__(self, database: Database, until: datetime) -> None:
        """Begin with those that were over by `until`."""
        self._database = database
        self._until = until
        # None where a scope has no more.
        self._after: dict[UUID, Over | None] = {}

    def left(self, scope: UUID) -> bool:
        """Say whether there may be more in a scope."""
        return self._after.get(scope, FIRST) is not None

    async def some(self, scope: UUID) -> int:
        """Delete the facts of the next runs, and return how many; a run that somebody else has waits."""
        after = self._after.get(scope, FIRST)
        if after is None:
            return 0
        async with self._database.connection() as connection:
            runs = await facts.over(connection, scope, self._until, _RUNS, after)
        gone = 0
        for run in runs:
            gone += await self._end(scope, run.run_uid)
        self._after[scope] = runs[-1] if len(runs) == _RUNS else None
        return gone

    async def _end(self, scope: UUID, run: UUID) -> int:
        async with self._database.transaction() as connection:
            # Whoever places a hold has these locks before, and is then seen, or waits for them.
            await purging.lock_scope(connection, scope)
            if await purging.lock_run(connection, scope, run, wait=False) is None:
                return 0
            return await facts.end(connection, scope, run)
