"""T5 of destroying parts: the space of deleted bodies.

A deleted row's bytes stay in the table's file until something overwrites them. Small partitions are written anew, which
leaves none; in large ones the space is only freed, and what is left in it ends with the bucket.
Failing to get the lock is no failure of the purge: readers are refused already, and the next one tries again.
"""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Final

from store.db import Database
from store.errors import Unavailable
from store.logging import logger
from store.services.buckets import when_unlocked
from store.tables import spans

# Writing anew keeps everybody out for as long as it takes: a second or less for so much.
MOST_REWRITTEN_BYTES: Final = 64 << 20


async def reclaim_space(database: Database, span_starts: Collection[datetime]) -> None:
    """Free the space of deleted bodies in these spans, each on its own."""
    for span_start in sorted(span_starts):
        try:
            await when_unlocked(partial(_reclaim, database, span_start))
        except Unavailable as fault:
            logger().warning("space_not_reclaimed", span=span_start.isoformat(), cause=fault.cause)


async def _reclaim(database: Database, span_start: datetime) -> None:
    async with database.connection() as connection:
        size = await spans.size_bytes(connection, span_start)
        if size is None:
            return
        await spans.wait_shortly(connection, local=False)
        await spans.vacuum(connection, span_start, full=size <= MOST_REWRITTEN_BYTES)
