"""Writers at work in a test, and waiting for what they do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from store.queue import Queue
from store.services.write_batch import BatchWriter
from tests.support.factories import House
from workers.writer import Pace, Writer

IDLE = timedelta(milliseconds=300)
MAX_DELIVERIES = 3
# Twice as long as a try may take that is not stopped.
GRACE = timedelta(seconds=1)


@asynccontextmanager
async def writing(house: House, queue: Queue, *, batch: int = 256) -> AsyncIterator["asyncio.Task[None]"]:
    """A writer at work, told to stop at the end of the block."""
    stop = asyncio.Event()
    batches = BatchWriter(house.persister(), max_deliveries=MAX_DELIVERIES)
    running = asyncio.create_task(Writer(queue, batches, Pace(batch, IDLE, MAX_DELIVERIES, GRACE)).run(stop))
    try:
        yield running
    finally:
        stop.set()
        await running


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    """Wait until something holds; the deadline tells when it never did."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.02)


async def waiting(queue: Queue) -> int:
    """How many entries there are."""
    (depth,) = await queue.depth()
    return depth.stream_length


async def drained(queue: Queue) -> None:
    """Wait until the queue is empty."""

    async def empty() -> bool:
        return not await waiting(queue)

    await until(empty)


async def nothing_reserved(queue: Queue) -> None:
    """Check that nothing waits, and that every reservation says so."""
    (depth,) = await queue.depth()
    assert (depth.parts, depth.bytes, depth.notes, depth.stream_length) == (0, 0, 0, 0)
    assert await queue.recount(0) == 0
