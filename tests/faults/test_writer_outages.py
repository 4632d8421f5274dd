"""Postgres or Redis goes away under a writer: nothing that was queued is lost, refused or counted as a fault."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.limits import ShardLimits
from policies.reasons import Reason
from store.errors import Unavailable
from store.queue import Queue, Settlement
from tests.support import factories
from tests.support.factories import House, queue_at, queue_up
from tests.support.outages import postgres_away
from tests.support.writers import drained, waiting, writing


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with queue_at(redis_url) as opened:
        yield opened


async def test_postgres_goes_away_and_comes_back(
    house: House, queue: Queue, postgres_url: str, database_url: str
) -> None:
    run = await house.declare()
    async with writing(house, queue):
        await queue_up(queue, run, [house.part(run, b"before", exchange="before")])
        await drained(queue)
        async with postgres_away(postgres_url, database_url):
            await queue_up(
                queue, run, [house.part(run, b"during %d" % n, exchange=f"x-{n}") for n in range(20)]
            )
            # Long enough for more reclaims than a part at fault would survive.
            await asyncio.sleep(2)
            assert await waiting(queue) == 20
        await drained(queue)

    assert await house.count("bodies") == 21
    assert await house.count("gaps") == 0
    assert await queue.outcomes() == {"stored": 21}


async def test_stopped_while_postgres_is_away_everything_is_there_for_the_next(
    house: House, queue: Queue, postgres_url: str, database_url: str
) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(10)])
    async with postgres_away(postgres_url, database_url), writing(house, queue):
        await asyncio.sleep(0.5)
    assert await waiting(queue) == 10

    async with writing(house, queue):
        await drained(queue)

    assert await house.count("bodies") == 10
    assert await queue.outcomes() == {"stored": 10}


class Deaf(Queue):
    """A queue whose settling fails a few times, before it happened or after."""

    failures = 2
    happened = False

    async def settle(self, shard: int, settlements: "list[Settlement]") -> list[bool]:  # type: ignore[override]
        if self.failures:
            self.failures -= 1
            if self.happened:
                await super().settle(shard, settlements)
            raise Unavailable(Reason.QUEUE_UNAVAILABLE, "made up")
        return await super().settle(shard, settlements)


@pytest.mark.parametrize("happened", [True, False])
async def test_settling_fails_after_the_commit(house: House, redis_url: str, *, happened: bool) -> None:
    queue = Deaf(redis_url, shards=1, shard_limits=ShardLimits())
    queue.happened = happened
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(10)])
    async with writing(house, queue):
        await drained(queue)

    assert await house.count("bodies") == await house.count("log_queue") == 10
    assert await queue.outcomes() == {"stored": 10}
    assert await queue.recount(0) == 0
    await queue.close()
