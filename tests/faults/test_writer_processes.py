"""Writer processes: killed over and over, told to stop, started with settings that cannot be worked with."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from store.queue import Queue
from store.services.verify import verify
from tests.support import factories
from tests.support.factories import House, queue_at, queue_up
from tests.support.writers import drained, nothing_reserved, until, waiting

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with queue_at(redis_url) as opened:
        yield opened


@pytest.fixture
def environment(house: House, redis_url: str, keys_dir: Path, tmp_path: Path) -> Mapping[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "CUSTODY_DATABASE_URL": house.url,
        "CUSTODY_REDIS_URL": redis_url,
        "CUSTODY_DATA_DIR": str(tmp_path / "data"),
        "CUSTODY_KEYS_DIR": str(keys_dir),
        "CUSTODY_RECLAIM_IDLE": "300ms",
        "CUSTODY_WRITER_BATCH": "16",
    }


@asynccontextmanager
async def writer(environment: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A writer process, killed at the end of the block if it is still there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "write", env=environment, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_killed_again_and_again_every_part_is_stored_once(
    house: House, queue: Queue, environment: Mapping[str, str]
) -> None:
    for _ in range(5):
        run = await house.declare()
        entries = [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(40)]
        await queue_up(queue, run, entries)

    left = 200
    while left > 50:
        async with writer(environment):

            async def moved(left: int = left) -> bool:
                return await waiting(queue) < left

            await until(moved)
        left = await waiting(queue)
    async with writer(environment):
        await drained(queue)

    assert await house.count("parts") == await house.count("bodies") == await house.count("log_queue") == 200
    assert await house.count("gaps") == 0
    await nothing_reserved(queue)
    report = await verify(house.database, house.keyring, queue)
    assert report.sound, report.faults


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
async def test_told_to_stop_it_ends_well_and_leaves_the_rest(
    house: House, queue: Queue, environment: Mapping[str, str], number: signal.Signals
) -> None:
    run = await house.declare()
    async with writer(environment) as process:
        await queue_up(queue, run, [house.part(run, b"first")])
        await drained(queue)
        process.send_signal(number)
        async with asyncio.timeout(15):
            assert await process.wait() == 0
    await queue_up(queue, run, [house.part(run, b"second", exchange="second")])
    assert await waiting(queue) == 1

    async with writer(environment):
        await drained(queue)

    assert await house.count("bodies") == 2


async def test_settings_that_cannot_be_worked_with_are_named(environment: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "write",
        env={**environment, "CUSTODY_RECLAIM_IDLE": "3"}, cwd=ROOT, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()

    assert process.returncode == os.EX_CONFIG
    assert b"CUSTODY_RECLAIM_IDLE" in said
