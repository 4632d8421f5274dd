"""A failover after which the old primary lives on as a replica: running processes leave it for its successor."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from redis.asyncio import Redis

from policies.limits import ShardLimits
from store.embedded import start_valkey
from store.errors import Unavailable
from store.queue import Queue, RunKey, Settled
from tests.support.queue_frames import new_key, open_run, part
from tests.support.services import short_directory

pytestmark = pytest.mark.asyncio


@dataclass(frozen=True)
class Pair:
    """Two servers with one password. The address leads to the first, until it leads to the second."""

    address: str
    old: Path
    new: Path

    async def demote(self) -> None:
        """The old primary is told to follow another: its clients keep their connections."""
        async with Redis.from_url(self.address) as client:
            await client.execute_command("REPLICAOF", "127.0.0.1", "1")

    def lead_to_the_new_one(self) -> None:
        (self.new / "valkey.sock").rename(self.old / "valkey.sock")

    async def fail_over(self) -> None:
        await self.demote()
        self.lead_to_the_new_one()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with short_directory() as directory, ExitStack() as servers:
        old, new = (start_valkey(directory / name, durable=False) for name in ("old", "new"))
        servers.callback(new.stop)
        servers.callback(old.stop)
        with redis.Redis.from_url(new.url) as client:
            client.config_set("requirepass", (directory / "old" / "password").read_text())
        yield Pair(old.url, directory / "old", directory / "new")


@asynccontextmanager
async def queue_of(pair: Pair) -> AsyncIterator[Queue]:
    """What one process has of the queue."""
    queue = Queue(pair.address, shards=1, shard_limits=ShardLimits())
    try:
        yield queue
    finally:
        await queue.close()


@pytest.fixture
async def queue(pair: Pair) -> AsyncIterator[Queue]:
    async with queue_of(pair) as made:
        yield made


async def busy(queue: Queue, key: RunKey) -> None:
    """Many calls at once, so that every pool has several connections."""
    await open_run(queue, key)
    await asyncio.gather(
        *(queue.append([part(key, f"busy-{n}")]) for n in range(8)),
        *(queue.forget_run(new_key()) for _ in range(8)),
        *(queue.identity(key, "x", "a", "logical-request") for _ in range(8)),
        *(queue.take(0, f"w-{n}", 1, 0) for n in range(8)),
    )


async def refused(call: Awaitable[object]) -> bool:
    try:
        await call
    except Unavailable as fault:
        return fault.cause == "ReadOnlyError"
    return False


async def test_a_running_process_goes_on_with_the_new_primary_and_says_meanwhile_that_it_cannot(
    pair: Pair, queue: Queue
) -> None:
    key = new_key()
    await busy(queue, key)
    await pair.demote()

    for n in range(3):
        assert await refused(queue.append([part(key, f"meanwhile-{n}")]))
        assert await refused(queue.take(0, "w", 5, 0))
        assert ["replica" in fault for fault in await queue.check()] == [True]

    pair.lead_to_the_new_one()
    await open_run(queue, key)
    assert [answer.outcome for answer in await queue.append([part(key, "after")])] == ["queued"]
    entries = await queue.take(0, "w", 5, 0)
    assert await queue.settle(0, [entry.settle("stored") for entry in entries]) == [True]
    assert await queue.check() == []


async def test_one_refused_call_frees_a_process_from_the_old_primary(pair: Pair, queue: Queue) -> None:
    key = new_key()
    await busy(queue, key)
    await pair.fail_over()

    assert await refused(queue.append([part(key, "first")]))

    await busy(queue, key)
    assert (await queue.depth())[0].stream_length == 8
    assert await queue.epochs() == {0: None}


async def test_a_plain_command_that_is_refused_frees_it_too(pair: Pair, queue: Queue) -> None:
    await busy(queue, new_key())
    await pair.fail_over()

    assert await refused(queue.ensure_epoch(0))

    epoch = await queue.ensure_epoch(0)
    async with queue_of(pair) as other:
        assert await other.epochs() == {0: epoch}


async def test_a_look_at_its_health_frees_a_process_that_nobody_asks_for_more(
    pair: Pair, queue: Queue
) -> None:
    """Out of a balancer's turn a process gets no captures, and nothing else would tell it."""
    await busy(queue, new_key())
    await pair.fail_over()

    assert ["replica" in fault for fault in await queue.check()] == [True]

    assert await queue.check() == []


async def test_a_writer_that_waits_for_entries_takes_those_of_the_new_primary(
    pair: Pair, queue: Queue
) -> None:
    key = new_key()
    await busy(queue, key)
    await queue.take(0, "w", 20, 0)
    blocked = asyncio.create_task(queue.take(0, "w", 5, 5_000))
    await asyncio.sleep(0.2)
    await pair.fail_over()

    async with asyncio.timeout(2):
        with pytest.raises(Unavailable):
            await blocked
        async with queue_of(pair) as other:
            await open_run(other, key)
            await other.append([part(key, "after")])
        assert await refused(queue.reclaim(0, "w", 1_000, 5))
        (entry,) = await queue.take(0, "w", 5, 0)
        assert await queue.settle(0, [entry.settle("stored")]) == [True]


async def test_whoever_waits_hears_what_the_new_primary_s_writers_settle(pair: Pair, queue: Queue) -> None:
    key = new_key()
    await busy(queue, key)
    queue.on_narrowed(lambda _: None)
    async with asyncio.timeout(5):
        await queue._waiters.listening.wait()
    await pair.fail_over()
    assert await refused(queue.append([part(key, "first")]))

    async with asyncio.timeout(10), queue_of(pair) as other:
        while not (await other._links.calls.pubsub_numpat()):  # noqa: ASYNC110 - it happens in the server
            await asyncio.sleep(0.02)
        await open_run(other, key)
        frame = part(key, "after")
        await queue.append([frame])
        waiting = asyncio.create_task(queue.wait_settled(frame.evidence, 5))
        (entry,) = await other.take(0, "w", 5, 0)
        await other.settle(0, [entry.settle("stored")])
        assert await waiting == Settled("stored", None)


async def test_a_demoted_server_tells_nobody_what_waits(pair: Pair, queue: Queue) -> None:
    """Erasures are acknowledged, runs closed and keys destroyed by it, and it is of the past."""
    key = new_key()
    await busy(queue, key)
    for ask in (
        lambda: queue.runs_wait_s([key]),
        lambda: queue.scopes_wait_s([key.scope]),
        lambda: queue.sealed_by(timedelta()),
        queue.depth,
    ):
        assert not await refused(ask())
        await pair.demote()
        assert await refused(ask())
        async with Redis.from_url(pair.address) as client:
            await client.execute_command("REPLICAOF", "NO", "ONE")
