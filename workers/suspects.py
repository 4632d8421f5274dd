"""Entries that were delivered too often without an outcome: a writer may have died of one of them.

Each is tried alone, and that it is tried is remembered in the queue before and taken back after. What is still
remembered a few times over was the end of as many writers: it is given up unopened. Its neighbours, which were only
delivered together with it, are stored as usual.
"""

from collections.abc import Sequence
from typing import Final

from store.errors import Unavailable
from store.logging import logger
from store.queue import Entry, Queue
from store.services.write_batch import BatchWriter, Written

LONE_TRIES: Final = 3


class Suspects:
    """Writes the suspects of one shard."""

    def __init__(self, queue: Queue, batches: BatchWriter, shard: int) -> None:
        self._queue = queue
        self._batches = batches
        self._shard = shard

    async def write(self, entries: Sequence[Entry]) -> Written:
        """Write one suspect (alone, so there is one); see BatchWriter."""
        (entry,) = entries
        try:
            begun = await self._queue.begin_alone(self._shard, entry.id)
        except Unavailable as outage:
            return Written(left=[entry], outage=outage)
        if begun > LONE_TRIES:
            run_uid = entry.header.run_uid.hex()
            logger().error("entry_given_up", shard=self._shard, count=begun, run_uid=run_uid, kind=entry.type)
            written = await self._batches.give_up(entry)
        else:
            written = await self._batches.write([entry])
        await self._outlived(entry)
        return written

    async def _outlived(self, entry: Entry) -> None:
        try:
            await self._queue.end_alone(self._shard, entry.id)
        except Unavailable as outage:
            # It counts as one try too many; that is what the others are for.
            logger().warning("queue_away", shard=self._shard, reason=outage.reason.value, cause=outage.cause)
