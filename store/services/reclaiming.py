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
from store.services.duties import Budget
from store.tables import spans

# Writing anew keeps everybody out for as long as it takes: a second or less for so much.
MOST_REWRITTEN_BYTES: Final = 64 << 20


async def reclaim_space(
    database: Database, span_starts: Collection[datetime], budget: Budget
) -> set[datetime]:
    """Free the space of deleted bodies in these spans, each on its own; return those in which it is still to be done.

    Who reads a partition for long (a backup, say) keeps it from being written anew, and parts from being said purged:
    only when all others are done is it waited for. One span at least is tried, however little time there is.
    """
    left = sorted(span_starts)
    for patient in (False, True):
        still = []
        for place, span_start in enumerate(left):
            first = place == 0 and not patient
            if (budget.over and not first) or not await _reclaim(database, span_start, patient=patient):
                still.append(span_start)
        left = still
    return set(left)


async def _reclaim(database: Database, span_start: datetime, *, patient: bool) -> bool:
    """Free the space of one span; False where it is still to be done."""
    async with database.connection() as connection:
        size = await spans.size_bytes(connection, span_start)
    if size is None:
        return True  # gone as a whole
    full = size <= MOST_REWRITTEN_BYTES
    vacuum = partial(_vacuum, database, span_start, full=full)
    try:
        await (when_unlocked(vacuum) if patient else vacuum())
    except Unavailable as fault:
        if patient:
            logger().warning("space_not_reclaimed", span=span_start.isoformat(), cause=fault.cause)
        return patient and not full
    return True


async def _vacuum(database: Database, span_start: datetime, *, full: bool) -> None:
    async with database.connection() as connection:
        await spans.wait_shortly(connection, local=False)
        await spans.vacuum(connection, span_start, full=full)
