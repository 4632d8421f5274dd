"""`batch_accept`: parts answered `queued` a second in flushes of 32, against plain pipelined `XADD` of the same bytes.

A writer runs meanwhile, as it always does; runs and scopes are so many that the default bounds refuse nothing.
"""

from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis

from bench.figures import Figure, alternate
from bench.flushes import CONNECTIONS, FLUSH, PARTS, requests_of
from bench.load import Job, drive
from bench.runs import declare
from bench.setting import Setting
from bench.wire import write_requests
from store import clock

ROUNDS: Final = 4
PIPELINE: Final = 64

_STREAM: Final = "bench:plain"


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of parts accepted a second to entries added a second."""
    store = await setting.store()
    plain = Redis.from_url(store.environment["CUSTODY_REDIS_URL"])
    async with store.api() as api, store.writers():
        runs = await declare(store, api, PARTS // FLUSH, "batch")
        contents: list[bytes] = []

        async def ours(_: int) -> float:
            contents[:] = setting.contents.some(PARTS)
            file = write_requests(setting.file("batch"), requests_of(runs, contents))
            sent = await drive(Job(api.port, str(file), CONNECTIONS))
            await store.written()
            return sent.rate(202) * FLUSH

        async def rival(_: int) -> float:
            return await _added(plain, contents or setting.contents.some(PARTS))

        await rival(-1)
        found = await alternate(setting.rounds(ROUNDS), ours, rival)
    await plain.aclose()
    refused = await store.refused()
    told = found.told("parts/s", "XADD") + (f"; refused: {refused}" if refused else "")
    return [Figure("batch_accept", found.ratio, told)]


async def _added(plain: Redis, contents: Sequence[bytes]) -> float:
    """Add every content to a stream, and return how many a second."""
    began = clock.monotonic()
    for at in range(0, len(contents), PIPELINE):
        pipeline = plain.pipeline(transaction=False)
        for content in contents[at : at + PIPELINE]:
            pipeline.xadd(_STREAM, {"b": content})
        await pipeline.execute()
    elapsed_s = clock.monotonic() - began
    await plain.delete(_STREAM)
    return len(contents) / elapsed_s
