"""Sequencers that are killed at any moment, beside others and writers: each leaf gets one index, none is lost."""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from store import ids
from store.db import SERVICE_ROLE, Database
from store.services import verify_log
from store.services.verify_tree import TreeCheck
from tests.support.duties import duties_database, scalar
from tests.support.log_queue import entries, part_leaf, purge_leaf, queue, sequencer

ROOT = Path(__file__).parents[2]
# A process that does nothing else: it sequences what waits, again and again, in small batches.
PROGRAM = """
import asyncio, sys
from datetime import timedelta
from store.db import DUTIES_ROLE, Database
from store.services import sequencing

async def main(url):
    sequencing.BATCH = int(sys.argv[2])
    database = await Database.open(url, role=DUTIES_ROLE, size=2)
    duty = sequencing.Sequencer(database, timedelta(minutes=15))
    print("on", flush=True)
    while True:
        await duty.run()

asyncio.run(main(sys.argv[1]))
"""


async def started(url: str, batch: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, str(batch),
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"on\n"
    return process


async def killed(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def write(url: str, count: int, seen: list[bytes]) -> None:
    """Queue parts, and the purge of some of them, as writers and duties do."""
    for _ in range(0, count, 50):
        evidence = [ids.new_evidence_id() for _ in range(50)]
        leaves = [*map(part_leaf, evidence), purge_leaf(evidence[7])]
        seen += leaves
        await queue(url, leaves)
        await asyncio.sleep(0.005)


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(3))
async def test_killed_at_any_moment_it_leaves_no_index_twice_and_none_out(database_url: str, seed: int):
    chance = random.Random(seed)
    queued: list[bytes] = []
    writing = asyncio.create_task(write(database_url, 20_000, queued))
    running = [await started(database_url, 37) for _ in range(2)]
    while not writing.done():
        await asyncio.sleep(chance.random() * 0.3)
        await killed(running.pop(chance.randrange(2)))
        running.append(await started(database_url, 37))
    await writing
    for process in running:
        await killed(process)
    async with duties_database(database_url) as database:
        while (await sequencer(database).run())["sequenced"]:
            pass
    found = await entries(database_url)
    assert await scalar(database_url, "SELECT count(*) FROM log_queue") == 0
    assert sorted(each.replace(b'"of":null', b"") for each in queued) == sorted(map(unplaced, found))
    await tree_is_sound(database_url)


def unplaced(entry: bytes) -> bytes:
    before, of, after = entry.partition(b'"of":')
    return before + after.lstrip(b"0123456789") if of else entry


async def tree_is_sound(url: str) -> None:
    faults: list[tuple[str, object]] = []
    database = await Database.open(url, role=SERVICE_ROLE, size=2)
    tree = TreeCheck(lambda kind, where: faults.append((kind, where)))
    await verify_log.walk(database, 1_000, tree.add, tree.end)
    await database.close()
    assert faults == []
    assert tree.tiles > 0
