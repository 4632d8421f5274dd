"""When Redis dies, forgets, fills up, falls silent or is set up wrongly."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from policies.limits import ShardLimits
from policies.reasons import Reason
from store.embedded import Server, start_valkey
from store.errors import Unavailable
from store.queue import Queue, appends, connection
from tests.support.queue_frames import new_key, open_run, part, state
from tests.support.services import short_directory

pytestmark = pytest.mark.asyncio


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as made:
        yield made


@asynccontextmanager
async def queue_at(url: str) -> AsyncIterator[Queue]:
    queue = Queue(url, shards=1, shard_limits=ShardLimits())
    try:
        yield queue
    finally:
        await queue.close()


def kill(server: Server) -> None:
    os.kill(server.pid, signal.SIGKILL)
    server.stop()


async def test_a_killed_server_comes_back_with_everything(directory: Path) -> None:
    server = start_valkey(directory / "v")
    key = new_key()
    async with queue_at(server.url) as queue:
        await open_run(queue, key)
        epoch = await queue.ensure_epoch(0)
        await queue.append([part(key, "x1"), part(key, "x2"), state(key)])
        (taken, *_) = await queue.take(0, "w", 1, 0)
        kill(server)
        with pytest.raises(Unavailable) as away:
            await queue.append([part(key, "x3")])
        assert away.value.reason is Reason.QUEUE_UNAVAILABLE
        server = start_valkey(directory / "v")
        assert await queue.epochs() == {0: epoch}
        # What was queued is known, what was not is taken; what was taken and not settled is handed out again.
        answers = await queue.append([part(key, "x1"), part(key, "x3")])
        assert [answer.outcome for answer in answers] == ["exists", "queued"]
        entries = [*await queue.reclaim(0, "w2", 0, 10), *await queue.take(0, "w2", 10, 0)]
        assert len(entries) == 4
        assert entries[0].id == taken.id
        settlements = [e.settle("stored" if e.type == "part" else "noted") for e in entries]
        assert await queue.settle(0, settlements) == [True] * 4
        assert (await queue.depth())[0].stream_length == 0
        assert await queue.recount(0) == 0
    server.stop()


async def test_a_server_that_lost_its_data_says_absent_and_has_no_epoch(redis_url: str) -> None:
    key = new_key()
    async with queue_at(redis_url) as queue:
        await open_run(queue, key)
        await queue.ensure_epoch(0)
        await queue.append([part(key, "x1")])
        (entry,) = await queue.take(0, "w", 10, 0)
        await queue._links.calls.flushall()
        (answer,) = await queue.append([part(key, "x2")])
        assert answer.outcome == "absent"
        assert await queue.epochs() == {0: None}
        assert await queue.settle(0, [entry.settle("stored")]) == [False]
        assert await queue.take(0, "w", 10, 0) == []
        await open_run(queue, key)
        assert (await queue.append([part(key, "x2")]))[0].outcome == "queued"
        assert len(await queue.take(0, "w", 10, 0)) == 1


async def test_nobody_at_the_address_is_unavailable_at_once(directory: Path) -> None:
    async with queue_at(f"unix://{directory}/nobody") as queue:
        async with asyncio.timeout(1):
            with pytest.raises(Unavailable):
                await queue.append([part(new_key())])
            with pytest.raises(Unavailable):
                await queue.run_view(new_key())
            with pytest.raises(Unavailable):
                await queue.take(0, "w", 1, 0)
        (fault,) = await queue.check()
        assert "does not answer" in fault


@asynccontextmanager
async def silent_server(path: Path) -> AsyncIterator[str]:
    """Accepts, reads, and never answers."""

    async def read_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65_536):
            pass
        writer.close()

    server = await asyncio.start_unix_server(read_for_ever, path)
    try:
        yield f"unix://{path}"
    finally:
        server.close()


async def test_a_silent_server_is_unavailable_to_everybody_in_time(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connection, appends):
        monkeypatch.setattr(module, "SILENCE_S", 0.2)
    async with silent_server(directory / "s") as url, queue_at(url) as queue:

        async def post(n: int) -> Any:
            await asyncio.sleep(n / 1000)
            return await queue.append([part(new_key())])

        async with asyncio.timeout(2):
            outcomes = await asyncio.gather(*(post(n) for n in range(200)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}


async def test_a_full_server_refuses_newcomers_whole_and_lets_writers_go_on(redis_url: str) -> None:
    key = new_key()
    async with queue_at(redis_url) as queue:
        await open_run(queue, key)
        await queue.append([part(key, "x1"), part(key, "x2")])
        client = queue._links.calls
        before = (await client.config_get("maxmemory"))["maxmemory"]
        await client.config_set("maxmemory", 1)
        try:
            with pytest.raises(Unavailable) as full:
                await queue.append([part(key, "x1"), part(key, "x3"), state(key)])
            assert full.value.cause == "OutOfMemoryError"
            # A resend of what is here needs no room.
            assert (await queue.append([part(key, "x1")]))[0].outcome == "exists"
            assert (await queue.depth())[0].stream_length == 2
            entries = await queue.take(0, "w", 10, 0)
            assert await queue.settle(0, [entry.settle("stored") for entry in entries]) == [True, True]
        finally:
            await client.config_set("maxmemory", before)
        assert (await queue.append([part(key, "x3")]))[0].outcome == "queued"
        assert await queue.recount(0) == 0


async def test_a_full_server_still_hears_that_a_run_is_narrowed(redis_url: str) -> None:
    key = new_key()
    async with queue_at(redis_url) as queue:
        await open_run(queue, key)
        client = queue._links.calls
        before = (await client.config_get("maxmemory"))["maxmemory"]
        await client.config_set("maxmemory", 1)
        try:
            await queue.narrow_run(key, state="content_opt_out")
        finally:
            await client.config_set("maxmemory", before)
        (answer,) = await queue.append([part(key, "x1")])
        assert answer.reason is Reason.CONTENT_OPT_OUT


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("maxmemory-policy", "allkeys-lru", "allkeys-lru"),
        ("appendonly", "no", "appendonly"),
        ("stream-node-max-entries", "100", "stream-node-max-entries"),
    ],
)
async def test_a_server_that_would_lose_what_was_queued_or_keep_what_was_settled_is_named(
    redis_url: str, setting: str, value: str, said: str
) -> None:
    async with queue_at(redis_url) as queue:
        assert await queue.check() == []
        client = queue._links.calls
        before = (await client.config_get(setting))[setting]
        await client.config_set(setting, value)
        try:
            (fault,) = await queue.check()
            assert said in fault
        finally:
            await client.config_set(setting, before)
        # An append-only file that was switched on again is begun in the background; the next test wants it there.
        await queue.rewrite_file()


async def test_closing_fails_whoever_still_waits(redis_url: str) -> None:
    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    posting = asyncio.create_task(queue.append([part(new_key())]))
    await asyncio.sleep(0)
    await queue.close()
    with pytest.raises(Unavailable):
        await posting
