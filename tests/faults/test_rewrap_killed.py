"""Changing a bucket's key, killed before and after each step: all stays readable, and the next one finishes it."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.limits import ShardLimits
from store.clock import monotonic
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.queue import Queue
from store.services.key_check import KeyCheck
from store.services.rewrapping import Rewrapping, Selection
from store.services.verify import verify
from tests.support import factories
from tests.support.factories import House, evidence_of
from tests.support.held import body_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]
ROOT = Path(__file__).parents[2]
PARTS = 5
PROGRAM = """
import asyncio, sys
from pathlib import Path
from uuid import UUID
from store.clock import monotonic
from store.db import DUTIES_ROLE, Database
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.services import rewrapping
from tests.support.dying import die_at

step, when, database_url, keys, copy, bucket = sys.argv[1:]
rewrapping.BATCH = 2
die_at(step, when)

async def main():
    database = await Database.open(database_url, role=DUTIES_ROLE, size=4)
    keyring = Keyring(FileKeyDirectory(Path(keys), Path(copy)), monotonic)
    await rewrapping.Rewrapping(database, keyring, 0).run("op", rewrapping.Selection(bucket=UUID(bucket)))

asyncio.run(main())
"""
STEPS = [
    "store.keyring:Keyring.create_bucket_key",
    "store.tables.buckets:lock_alone",
    "store.tables.bucket_keys:begin",
    "store.tables.operator_actions:insert",
    "store.tables.bucket_keys:take_wrapped",
    "store.tables.bucket_keys:put_wrapped",
    "store.tables.bucket_keys:left_in",
    "store.keyring:Keyring.destroy_bucket_keys",
    "store.key_files:sync",
    "store.tables.bucket_keys:changed",
]


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_change_of_keys_is_finished_by_the_next(
    house: House, keys_dir: Path, tmp_path: Path, redis_url: str, step: str, when: str
) -> None:
    copy = tmp_path / "copy"
    directory = FileKeyDirectory(keys_dir, copy)
    for role in ("bucket", "token"):
        directory.complete(role, *directory.names(role), anew=True)
    house.keyring.directory = directory
    run = await house.declare()
    entries = [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(PARTS)]
    await house.persister().persist(entries)
    first = await body_of(house.url, evidence_of(entries[0]))
    assert first is not None

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, step, when, house.url, str(keys_dir), str(copy), str(first.bucket_id), cwd=ROOT
    )  # fmt: skip
    assert await process.wait() == -signal.SIGKILL

    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    try:
        # Whatever the killed one left, everything opens, and a writer goes on.
        assert (await verify(house.database, Keyring(directory, monotonic), queue)).faults == []
        late = house.part(run, b"late", exchange="late")
        assert not (await house.persister().persist([late])).waiting
        rewrapping = Rewrapping(house.duties, Keyring(directory, monotonic), grace_s=0)
        assert (await rewrapping.run("op", Selection(unfinished=True))).left == []
        if directory.read("bucket", f"{house.scope.hex}.{first.bucket_id.hex}") is not None:
            # It was killed before the row said anything.
            assert (await rewrapping.run("op", Selection(bucket=first.bucket_id))).changed == 1
        keyring = Keyring(directory, monotonic)
        assert not keyring.has_bucket_key(house.scope, first.bucket_id)
        assert (await verify(house.database, keyring, queue)).faults == []
        report = await KeyCheck(house.database, keyring, queue, "custody.example/log").look()
        assert [fault for fault in report.faults if fault.role == "bucket"] == []
    finally:
        await queue.close()
    assert await house.value("SELECT count(*) FROM bodies") == PARTS + 1
    assert await house.value("SELECT count(*) FROM buckets WHERE old_key_id IS NOT NULL") == 0
    assert await house.value("SELECT count(*) FROM operator_actions WHERE action = 'bucket_key_changed'") == 1
