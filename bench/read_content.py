"""`read_content`: guarded reads of content at 16 connections, against selecting the same bytes over the same stack.

Guarded: key, role, retention, sources, the bucket's key, both commitments, and an access record committed first.
"""

from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

import asyncpg

from bench import rivals
from bench.figures import Figure, alternate
from bench.flushes import FLUSH, requests_of
from bench.load import Job, drive
from bench.runs import declare
from bench.setting import Setting
from bench.stack import Store
from bench.wire import Run, get, write_requests

CONNECTIONS: Final = 16
ROUNDS: Final = 5
PARTS: Final = 2_048
READS: Final = 3_000


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of guarded reads a second to plain ones."""
    store = await setting.store()
    plain = await asyncpg.connect(store.owner_url)
    environment = {rivals.DATABASE: store.owner_url}
    async with (
        store.api() as api,
        store.stack.served(f"{rivals.__name__}:create_select", environment) as select,
    ):
        placed = await _placed(
            setting, store, api.port, plain, await declare(store, api, PARTS // FLUSH, "read")
        )
        random = Random(PARTS)

        async def ours(_: int) -> float:
            reads = (
                get(f"/v1/parts/{evidence}/content", key) for evidence, key in random.choices(placed, k=READS)
            )
            file = write_requests(setting.file("read"), reads)
            return (await drive(Job(api.port, str(file), CONNECTIONS))).rate(200)

        async def rival(_: int) -> float:
            reads = (get(f"/rows/{evidence}", key) for evidence, key in random.choices(placed, k=READS))
            file = write_requests(setting.file("select"), reads)
            return (await drive(Job(select.port, str(file), CONNECTIONS))).rate(200)

        await ours(-1)
        await rival(-1)
        found = await alternate(setting.rounds(ROUNDS), ours, rival)
    await plain.execute("DROP TABLE bench_rows")
    await plain.close()
    return [Figure("read_content", found.ratio, found.told("reads/s", "plain select"))]


async def _placed(
    setting: Setting, store: Store, port: int, plain: asyncpg.Connection, runs: Sequence[Run]
) -> list[tuple[UUID, str]]:
    """Store the same contents on both sides; return each part's evidence reference and a key that reads it."""
    contents = setting.contents.some(PARTS)
    file = write_requests(setting.file("placed"), requests_of(runs, contents))
    (await drive(Job(port, str(file), 4))).rate(202)
    await store.drain()
    rows = await plain.fetch(
        "SELECT r.run, r.scope_id, p.sequence, p.evidence FROM parts p JOIN runs r USING (scope_id, run_uid) "
        "WHERE r.run LIKE 'read-%'"
    )
    first = {run.name: at * FLUSH for at, run in enumerate(runs)}
    await plain.execute("CREATE TABLE bench_rows (id uuid PRIMARY KEY, content bytea NOT NULL)")
    await plain.copy_records_to_table(
        "bench_rows",
        records=[(row["evidence"], contents[first[row["run"]] + row["sequence"] - 1]) for row in rows],
        columns=("id", "content"),
    )
    await plain.execute("VACUUM ANALYZE bench_rows, parts, bodies")
    readers = {scope.scope_id: key for scope, key in zip(store.scopes, store.reviewers, strict=True)}
    return [(row["evidence"], readers[row["scope_id"]]) for row in rows]
