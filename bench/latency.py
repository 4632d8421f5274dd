"""`latency_p50`, `latency_p99`: from the answer 202 to the word that the part is stored, at 300 parts a second, in ms.

"Stored" is when the queue publishes it, which is after the commit and after its settling: never too early.
"""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import asyncpg
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bench.figures import Figure, percentile
from bench.load import Job, drive
from bench.runs import declare
from bench.setting import Setting
from bench.stack import Store
from bench.wire import Run, put_part, write_requests
from store import clock
from store.queue.keys import ShardKeys

RATE: Final = 300
SECONDS: Final = 15
CONNECTIONS: Final = 32
RUNS: Final = 100


async def measure(setting: Setting) -> list[Figure]:
    """Return both percentiles."""
    store = await setting.store()
    async with store.api() as api, store.writers():
        runs = await declare(store, api, RUNS, "latency")
        parts = [runs[at % RUNS] for at in range(RATE * SECONDS)]
        contents = setting.contents.some(len(parts))
        file = write_requests(setting.file("latency"), map(put_part, parts, contents))
        settled = _Settled(store)
        async with settled:
            sent = await drive(Job(api.port, str(file), CONNECTIONS, rate=RATE, marks=True))
            sent.rate(202)
            await store.written()
            await asyncio.sleep(0.2)
        posted = await _evidence(store, parts)
    waits_ms = [(settled.at[posted[at]] - answered) * 1000 for at, (_, answered) in enumerate(sent.marks)]
    answers_ms = [(answered - asked) * 1000 for asked, answered in sent.marks]
    told = (
        f"{len(waits_ms)} parts at {RATE}/s; stored after the answer: median {percentile(waits_ms, 50):.1f} ms, "
        f"99 % {percentile(waits_ms, 99):.1f} ms, worst {max(waits_ms):.1f} ms; answered after "
        f"{percentile(answers_ms, 50):.1f} ms (99 %: {percentile(answers_ms, 99):.1f} ms)"
    )
    return [
        Figure("latency_p50", max(0.0, percentile(waits_ms, 50)), told),
        Figure("latency_p99", max(0.0, percentile(waits_ms, 99)), told),
    ]


class _Settled:
    """Listens to what the queue publishes, and notes when each part was said to be stored."""

    def __init__(self, store: Store) -> None:
        self._redis = Redis.from_url(store.environment["CUSTODY_REDIS_URL"])
        self.at: dict[UUID, float] = {}

    async def __aenter__(self) -> None:
        self._channel = self._redis.pubsub()
        await self._channel.subscribe(ShardKeys.of(0).settled)
        self._task = asyncio.create_task(self._listen())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._channel.aclose()
        await self._redis.aclose()

    async def _listen(self) -> None:
        try:
            async for message in self._channel.listen():
                now = clock.monotonic()
                if message["type"] == "message":
                    for line in message["data"].splitlines():
                        evidence, outcome, *_ = line.split(b" ")
                        if outcome == b"stored":
                            self.at[UUID(evidence.decode())] = now
        except RedisError as fault:
            raise RuntimeError("the queue's word was cut off") from fault


async def _evidence(store: Store, parts: Sequence[Run]) -> list[UUID]:
    """Return the evidence reference of each part, in the order in which they were posted."""
    connection = await asyncpg.connect(store.owner_url)
    rows = await connection.fetch(
        "SELECT r.run, p.sequence, p.evidence FROM parts p JOIN runs r USING (scope_id, run_uid) "
        "WHERE r.run LIKE 'latency-%'"
    )
    await connection.close()
    found = {(row["run"], row["sequence"]): row["evidence"] for row in rows}
    numbered: dict[str, int] = {}
    posted = []
    for run in parts:
        numbered[run.name] = numbered.get(run.name, 0) + 1
        posted.append(found[run.name, numbered[run.name]])
    return posted
