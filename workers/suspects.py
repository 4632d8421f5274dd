"""Entries that were delivered too often without an outcome: a writer may have died of one of them.

Each is tried alone, by one writer at a time, and that it is tried is remembered in the queue before and taken back
after. A try that is still remembered once no living writer can be at it was the end of one; after a few of these the
entry is given up unopened. Its neighbours, which were only delivered together with it, are stored as usual.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from policies.reasons import Reason
from store.errors import Unavailable
from store.logging import logger
from store.queue import Entry, Queue
from store.services.write_batch import BatchWriter, Written

LONE_TRIES: Final = 3
# Longer than a statement may take. A try that is not over by then has nobody left who is at it.
GRACE: Final = timedelta(seconds=60)


class Suspects:
    """Writes the suspects of one shard."""

    def __init__(self, queue: Queue, batches: BatchWriter, shard: int, grace: timedelta = GRACE) -> None:
        self._queue = queue
        self._batches = batches
        self._shard = shard
        self._grace = grace

    async def write(self, entries: Sequence[Entry]) -> Written:
        """Write one suspect (alone, so there is one); see BatchWriter."""
        (entry,) = entries
        try:
            deaths = await self._queue.begin_alone(self._shard, entry.id, self._grace)
        except Unavailable as outage:
            return Written(left=[entry], outage=outage)
        if deaths is None:
            # Another writer is at it, and tells what came of it; if it dies, this is delivered again.
            return Written(at_fault=[entry])
        if deaths >= LONE_TRIES:
            run_uid = entry.header.run_uid.hex()
            logger().error(
                "entry_given_up", shard=self._shard, count=deaths, run_uid=run_uid, kind=entry.type
            )
            written = await self._batches.give_up(entry)
        else:
            written = await self._try(entry)
        await self._outlived(entry)
        return written

    async def _try(self, entry: Entry) -> Written:
        """Write it, or stop in time: what takes longer than the grace would be taken for dead."""
        try:
            async with asyncio.timeout(self._grace.total_seconds() / 2):
                return await self._batches.write([entry])
        except TimeoutError:
            outage = Unavailable(Reason.STORE_UNAVAILABLE, cause="a write took too long")
            return Written(left=[entry], outage=outage)

    async def _outlived(self, entry: Entry) -> None:
        try:
            await self._queue.end_alone(self._shard, entry.id)
        except Unavailable as outage:
            # It counts as one try too many; that is what the others are for.
            logger().warning("queue_away", shard=self._shard, reason=outage.reason.value, cause=outage.cause)
