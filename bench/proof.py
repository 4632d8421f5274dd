"""`proof_ms`: one inclusion proof in a log of 1,000,000 leaves, made from the tables and checked, as readers get it."""

import statistics
from random import Random
from typing import Final

import asyncpg

from bench.figures import Figure, number, percentile
from bench.setting import Setting
from bench.stack import Store
from store import clock
from store.commitments import leaf
from store.ids import new_bucket_id, new_evidence_id, secret
from store.log_tree.hashes import leaf_hash
from store.log_tree.notes import Checkpoint, Signer
from store.log_tree.tiles import OpenTiles
from store.services.proofs import Proofs
from store.tables import log
from store.tables.log import NewEntry

LEAVES: Final = 1_000_000
PROOFS: Final = 300

_PAGE: Final = 50_000
_ORIGIN: Final = "bench.example/log"


async def measure(setting: Setting) -> list[Figure]:
    """Return the median time of one proof, for leaves all over the log, one after the other."""
    async with setting.stack.store() as store:
        await _filled(store)
        times = await _times_ms(Proofs(store.services.database), Random(1))
    told = (
        f"{PROOFS} proofs at {LEAVES} leaves: median {number(statistics.median(times))} ms, "
        f"99 % {number(percentile(times, 99))} ms"
    )
    return [Figure("proof_ms", statistics.median(times), told)]


async def _times_ms(proofs: Proofs, random: Random) -> list[float]:
    times = []
    for _ in range(PROOFS):
        index = random.randrange(LEAVES)
        began = clock.monotonic()
        await proofs.inclusion(index)
        times.append((clock.monotonic() - began) * 1000)
    return times


async def _filled(store: Store) -> None:
    """Make a log as the sequencer and the publisher leave it, a page of entries at a time."""
    duties, tree = store.services.duties_database, OpenTiles()
    assert duties is not None
    for first in range(0, LEAVES, _PAGE):
        entries = _entries(store, first)
        async with duties.transaction() as connection:
            full = tree.append([leaf_hash(entry[-1]) for entry in entries])
            await log.append(connection, entries)
            await log.append_tiles(connection, {(tile.level or 0, tile.tile): data for tile, data in full})
    edge = tree.edge()
    note = Signer(_ORIGIN, secret(32)).sign(Checkpoint(_ORIGIN, tree.size, edge.root()).text)
    owner = await asyncpg.connect(store.owner_url)
    await owner.execute(
        "UPDATE log_state SET size = $1, published_size = $1, root = $2, edge = $3, open_tiles = $4",
        tree.size, edge.root(), edge.nodes, tree.tiles,
    )  # fmt: skip
    await owner.execute("INSERT INTO log_checkpoints (size, note) VALUES ($1, $2)", tree.size, note)
    await owner.execute("VACUUM (ANALYZE) log_entries, log_tiles")
    await owner.close()


def _entries(store: Store, first: int) -> list[NewEntry]:
    scope, bucket, now = store.scopes[0].scope_id, new_bucket_id(), clock.utc_now()
    entries: list[NewEntry] = []
    for index in range(first, first + _PAGE):
        evidence = new_evidence_id()
        told = leaf("part", b=bucket, c=secret(32), m=secret(32), p=evidence, t=now)
        entries.append((index, scope, "part", evidence, told))
    return entries
