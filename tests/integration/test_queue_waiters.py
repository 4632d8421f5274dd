"""Waiting for a part to be settled, and hearing that a run was narrowed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from policies.limits import ShardLimits
from policies.reasons import Reason
from store.queue import Queue, RunKey, Settled, waiters
from tests.support.queue_frames import new_key, open_run, part

pytestmark = pytest.mark.asyncio


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    made = Queue(redis_url, shards=2, shard_limits=ShardLimits(), waiters=3)
    yield made
    await made.close()


async def listening(queue: Queue) -> None:
    async with asyncio.timeout(5):
        await queue._waiters.listening.wait()


async def settle_all(queue: Queue, outcome: str) -> None:
    for shard in queue.shards:
        entries = await queue.take(shard, "w", 100, 0)
        reason = Reason.SOURCE_REVOKED if outcome == "refused" else None
        await queue.settle(shard, [entry.settle(outcome, reason) for entry in entries])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [("stored", Settled("stored", None)), ("refused", Settled("refused", Reason.SOURCE_REVOKED))],
)
async def test_a_waiter_is_told_when_its_part_is_settled(queue: Queue, outcome: str, told: Settled) -> None:
    key = new_key()
    await open_run(queue, key)
    frames = [part(key, "x1"), part(key, "x2")]
    await queue.append(frames)
    waits = [asyncio.create_task(queue.wait_settled(frame.evidence, 5)) for frame in (*frames, frames[0])]
    await asyncio.sleep(0)
    await listening(queue)
    await settle_all(queue, outcome)
    async with asyncio.timeout(2):
        assert await asyncio.gather(*waits) == [told] * 3


async def test_a_wait_ends_by_its_time_and_leaves_nothing_behind(queue: Queue) -> None:
    assert await queue.wait_settled(uuid4(), 0.02) is None
    assert queue._waiters._waiting == {}


async def test_what_was_settled_before_the_wait_began_is_remembered(queue: Queue) -> None:
    queue.on_narrowed(lambda _: None)
    await listening(queue)
    key = new_key()
    await open_run(queue, key)
    frame = part(key)
    await queue.append([frame])
    await settle_all(queue, "stored")
    async with asyncio.timeout(5):
        while queue._waiters._heard_of(frame.evidence.hex) is None:  # noqa: ASYNC110 - redis-py has no event for it
            await asyncio.sleep(0.005)
    assert await queue.wait_settled(frame.evidence, 0) == Settled("stored", None)


async def test_of_too_many_waiters_the_last_is_not_kept_waiting(queue: Queue) -> None:
    waits = [asyncio.create_task(queue.wait_settled(uuid4(), 30)) for _ in range(3)]
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        assert await queue.wait_settled(uuid4(), 30) is None
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    # Those who went make room.
    assert queue._waiters._count == 0


async def test_every_process_hears_of_narrowed_and_closed_runs(redis_url: str, queue: Queue) -> None:
    heard: asyncio.Queue[RunKey] = asyncio.Queue()
    queue.on_narrowed(heard.put_nowait)
    await listening(queue)
    other = Queue(redis_url, shards=2, shard_limits=ShardLimits())
    narrowed, closed = new_key("a:b"), new_key("c.d")
    await open_run(other, closed)
    await other.narrow_run(narrowed, state="erased")
    await other.close_run(closed, {}, datetime.now(UTC))
    async with asyncio.timeout(5):
        assert [await heard.get(), await heard.get()] == [narrowed, closed]
    await other.close()


async def test_a_lost_subscription_is_taken_up_again(queue: Queue) -> None:
    heard: asyncio.Queue[RunKey] = asyncio.Queue()
    queue.on_narrowed(heard.put_nowait)
    await listening(queue)
    await queue._links.calls.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    key = new_key()
    async with asyncio.timeout(5):
        while heard.empty():
            await queue.narrow_run(key, state="erased")
            await asyncio.sleep(0.02)
    assert heard.get_nowait() == key


async def test_a_subscription_whose_server_says_nothing_any_more_is_given_up(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "_LISTEN_S", 0.08)
    heard: asyncio.Queue[RunKey] = asyncio.Queue()
    queue.on_narrowed(heard.put_nowait)
    await listening(queue)
    # One that is only quiet answers when it is asked.
    await asyncio.sleep(1.5)
    assert queue._waiters.listening.is_set()
    await queue._links.calls.execute_command("CLIENT", "PAUSE", 2500, "ALL")
    async with asyncio.timeout(2.4):
        while queue._waiters.listening.is_set():  # noqa: ASYNC110 - the listener tells nobody that it gave up
            await asyncio.sleep(0.01)
    key = new_key()
    async with asyncio.timeout(5):
        while heard.empty():
            await queue.narrow_run(key, state="erased")
            await asyncio.sleep(0.02)
    assert heard.get_nowait() == key


async def test_what_others_publish_there_does_not_end_the_listening(queue: Queue) -> None:
    heard: asyncio.Queue[RunKey] = asyncio.Queue()
    queue.on_narrowed(heard.put_nowait)
    await listening(queue)
    client = queue._links.calls
    for channel, message in (
        ("custody:runs", "nonsense"), ("custody:runs", b"\xff"), ("custody:{q0}:settled", "a b"),
        ("custody:{q0}:settled", f"{uuid4().hex} refused no_such_reason"),
    ):  # fmt: skip
        await client.publish(channel, message)
    key = new_key()
    await queue.narrow_run(key, state="erased")
    async with asyncio.timeout(5):
        assert await heard.get() == key
