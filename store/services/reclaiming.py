"""T5 of destroying parts: the space of deleted bodies.

A deleted row's bytes stay in the table's file until something overwrites them. Small partitions are written anew, which
leaves none; in large ones the space is only freed, and what is left in it ends with the bucket.
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


async def reclaim_space(database: Database, span_starts: Collection[datetime]) -> set[datetime]:
    """Free the space of deleted bodies in these spans, each on its own; return those in which it is still to be done.

    Who reads a partition for long (a backup, say) keeps it from being written anew, and parts from being said purged.
    """
    left = set()
    for span_start in sorted(span_starts):
        async with database.connection() as connection:
            size = await spans.size_bytes(connection, span_start)
        if size is None:
            continue  # gone as a whole
        full = size <= MOST_REWRITTEN_BYTES
        try:
            await when_unlocked(partial(_vacuum, database, span_start, full=full))
        except Unavailable as fault:
            logger().warning("space_not_reclaimed", span=span_start.isoformat(), cause=fault.cause)
            if full:
                left.add(span_start)
    return left


async def _vacuum(database: Database, span_start: datetime, *, full: bool) -> None:
    async with database.connection() as connection:
        await spans.wait_shortly(connection, local=False)
        await spans.vacuum(connection, span_start, full=full)
