"""How much each key reads, and the alarm when that is much more than usual.

Counted where access records are committed, and written down some seconds later for all processes together. What a
killed process had not written is missing here, and only here: the records themselves were committed.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from store.db import Database
from store.errors import Unavailable
from store.logging import logger
from store.services.metrics import Metrics
from store.tables import read_counts
from store.tables.accesses import Access

# Three times the usual is an alarm; below the floor nothing is: a key that hardly ever reads may open a hundred parts.
TIMES: Final = 3
FLOOR: Final = 100

_WRITTEN_AFTER_S: Final = 5.0


class ReadVolume:
    """Counts what the keys of this process's callers read, also what they were refused."""

    def __init__(
        self, database: Database, metrics: Metrics, *, written_after_s: float = _WRITTEN_AFTER_S
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._written_after_s = written_after_s
        self._counts: Counter[tuple[UUID, str]] = Counter()
        self._writing: asyncio.Task[None] | None = None

    def count(self, accesses: Iterable[Access]) -> None:
        """Count what was recorded; it is written soon."""
        self._counts.update((access.scope_id, access.key_id) for access in accesses)
        if self._counts and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._soon())

    async def close(self) -> None:
        """Write what is left."""
        if self._writing is not None:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing
        await self.write()

    async def write(self) -> None:
        """Write what was counted, and say which keys read unusually much."""
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            async with self._database.transaction() as connection:
                await read_counts.add(connection, counts)
                unusual = await read_counts.alarm(connection, list(counts), TIMES, FLOOR)
        except Unavailable as outage:
            self._counts.update(counts)
            logger().info("reads_not_counted", reason=outage.reason.value, cause=outage.cause)
            return
        for key in unusual:
            self._metrics.unusual_reads()
            logger().warning("unusual_reads", scope_id=key.scope_id, key_id=key.key_id, count=key.reads)

    async def _soon(self) -> None:
        # What came while it was written is written next; after an outage it is tried again.
        while self._counts:
            await asyncio.sleep(self._written_after_s)
            await self.write()
