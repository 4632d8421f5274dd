"""`sequence`: leaves a second from the queue into the proof log, against `COPY` of the same entries into a plain table.

Everything is on: taken by deleting, read, hashed, appended with their index, tiles spilled, the new end written. The
rival has the same columns and a primary key, and as many entries a commit.
"""

from typing import Final

import asyncpg

from bench.figures import Figure, alternate
from bench.setting import Setting
from bench.stack import Store
from store import clock
from store.commitments import leaf
from store.ids import new_bucket_id, new_evidence_id, secret
from store.services.sequencing import BATCH, Sequencer
from store.tables.log import Entry

LEAVES: Final = 10 * BATCH
ROUNDS: Final = 7

_PLAIN: Final = """
CREATE TABLE bench_entries (
    idx bigint PRIMARY KEY, scope_id uuid NOT NULL, kind text NOT NULL, subject uuid, leaf bytea NOT NULL
)
"""


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of leaves sequenced a second to rows copied a second."""
    async with setting.stack.store() as store:
        connection = await asyncpg.connect(store.owner_url)
        await connection.execute(_PLAIN)

        async def ours(_: int) -> float:
            await _queue(store, connection)
            return await _sequenced(store)

        async def rival(_: int) -> float:
            return await _copied(connection, _entries(store))

        # The first leaves of a log and the first rows of a table are not what either is about.
        await ours(-1)
        await rival(-1)
        found = await alternate(setting.rounds(ROUNDS), ours, rival)
        await connection.close()
    return [Figure("sequence", found.ratio, found.told("leaves/s", "COPY"))]


def _entries(store: Store) -> list[Entry]:
    """Make leaves of parts, as a writer queues them."""
    scope, bucket, now = store.scopes[0].scope_id, new_bucket_id(), clock.utc_now()
    entries = []
    for index in range(LEAVES):
        evidence = new_evidence_id()
        told = leaf("part", b=bucket, c=secret(32), m=secret(32), p=evidence, t=now)
        entries.append(Entry(index, scope, "part", evidence, told))
    return entries


async def _queue(store: Store, connection: asyncpg.Connection) -> None:
    records = [(entry.scope_id, entry.leaf) for entry in _entries(store)]
    for at in range(0, len(records), 256):
        # As many a commit as a writer has.
        await connection.copy_records_to_table(
            "log_queue", records=records[at : at + 256], columns=("scope_id", "leaf")
        )


async def _sequenced(store: Store) -> float:
    """Have the duty take what waits, and return how much a second."""
    assert store.services.duties_database is not None
    duty = Sequencer(store.services.duties_database, store.services.settings.reads_lease)
    began = clock.monotonic()
    counts = await duty.run()
    elapsed_s = clock.monotonic() - began
    if counts["sequenced"] != LEAVES:
        raise RuntimeError(f"the duty did something else: {dict(counts)}")
    return LEAVES / elapsed_s


async def _copied(connection: asyncpg.Connection, entries: list[Entry]) -> float:
    await connection.execute("TRUNCATE bench_entries")
    began = clock.monotonic()
    for at in range(0, len(entries), BATCH):
        await connection.copy_records_to_table(
            "bench_entries", records=entries[at : at + BATCH], columns=Entry._fields
        )
    return len(entries) / (clock.monotonic() - began)
