"""`durable`: parts a second from first request to last commit, everything on, against `COPY` into a plain table.

Everything: admission, the queue's script, the re-check under locks, envelope, commitments, log queue. The rival writes
slices of 4 KiB from one connection, 256 a commit, into a table with a uuid key and a bytea of default storage.
"""

from collections.abc import Sequence
from typing import Final

import asyncpg

from bench.content import slices
from bench.figures import Figure, alternate
from bench.flushes import CONNECTIONS, FLUSH, PARTS, requests_of
from bench.load import Job, drive
from bench.runs import declare
from bench.setting import Setting
from bench.wire import write_requests
from store import clock
from store.ids import new_id

ROUNDS: Final = 4
BATCH: Final = 256


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of parts made durable a second to plain rows a second."""
    store = await setting.store()
    plain = await asyncpg.connect(store.owner_url)
    await plain.execute("CREATE TABLE bench_plain (id uuid PRIMARY KEY, content bytea NOT NULL)")
    async with store.api() as api, store.writers():
        runs = await declare(store, api, PARTS // FLUSH, "durable")

        async def ours(_: int) -> float:
            file = write_requests(setting.file("durable"), requests_of(runs, setting.contents.some(PARTS)))
            before = await store.stored()
            sent = await drive(Job(api.port, str(file), CONNECTIONS))
            sent.rate(202)
            ended = await store.written()
            return (await store.stored() - before) / (ended - sent.first_at)

        async def rival(_: int) -> float:
            return await _copied(plain, slices(setting.contents, PARTS))

        await rival(-1)
        found = await alternate(setting.rounds(ROUNDS), ours, rival)
    await plain.execute("DROP TABLE bench_plain")
    await plain.close()
    return [Figure("durable", found.ratio, found.told("parts/s", "COPY"))]


async def _copied(plain: asyncpg.Connection, contents: Sequence[bytes]) -> float:
    """Write every slice, and return how many a second."""
    rows = [(new_id(), content) for content in contents]
    began = clock.monotonic()
    for at in range(0, len(rows), BATCH):
        await plain.copy_records_to_table(
            "bench_plain", records=rows[at : at + BATCH], columns=("id", "content")
        )
    elapsed_s = clock.monotonic() - began
    await plain.execute("TRUNCATE bench_plain")
    return len(rows) / elapsed_s
