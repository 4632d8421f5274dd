"""`durable_with_log`: parts made durable a second with sequencer and publisher at work, against the same without them.

At work are the processes that production runs: the duties, all of them, and the publisher. What the rounds without them
have left in the log's queue is sequenced before they are measured.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from bench.figures import Figure, alternate
from bench.flushes import CONNECTIONS, FLUSH, PARTS, requests_of
from bench.load import Job, drive
from bench.runs import declare
from bench.setting import Setting
from bench.stack import Process, Store
from bench.wire import Run, write_requests
from store.tables import log
from store.up.processes import commands

ROUNDS: Final = 4

_READY_S: Final = 60.0


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of the two rates."""
    store = await setting.store()
    async with store.api() as api, store.writers():
        sides = [await declare(store, api, PARTS // FLUSH, f"log-{side}") for side in ("on", "off")]

        async def ours(_: int) -> float:
            async with _log_at_work(store):
                return await _stored_a_second(setting, store, api, sides[0])

        async def rival(_: int) -> float:
            return await _stored_a_second(setting, store, api, sides[1])

        found = await alternate(setting.rounds(ROUNDS), ours, rival)
    return [Figure("durable_with_log", found.ratio, found.told("parts/s", "without them"))]


async def _stored_a_second(setting: Setting, store: Store, api: Process, runs: Sequence[Run]) -> float:
    contents = setting.contents.some(PARTS)
    file = write_requests(setting.file("durable"), requests_of(runs, contents))
    before = await store.stored()
    sent = await drive(Job(api.port, str(file), CONNECTIONS))
    sent.rate(202)
    ended = await store.written()
    return (await store.stored() - before) / (ended - sent.first_at)


@asynccontextmanager
async def _log_at_work(store: Store) -> AsyncIterator[None]:
    """Run the processes, and wait until everything there is has been sequenced and published."""
    named = commands("127.0.0.1", 0, duties=True)
    async with AsyncExitStack() as exits:
        for name in ("duties", "publisher"):
            _, *command = named[name]
            await exits.enter_async_context(store.stack.running(command, store.environment))
        async with asyncio.timeout(_READY_S):
            while not await _all_published(store):  # noqa: ASYNC110 - asked
                await asyncio.sleep(0.2)
        yield


async def _all_published(store: Store) -> bool:
    async with store.services.database.connection() as connection:
        state = await log.state(connection)
        return state.size > 0 and state.published_size == state.size and not await log.waits(connection)
