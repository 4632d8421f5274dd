"""A queue server that is full, evicts, or is no single node: said plainly, and nothing that was answered is lost."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from policies.limits import ShardLimits
from store.embedded import valkey
from store.queue import Queue
from tests.support.api import problem
from tests.support.journey import Journey
from tests.support.stack import free_port, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PART = 200 * 1024


@asynccontextmanager
async def told(way: Journey, **settings: str) -> AsyncIterator[None]:
    """The queue server with other settings for a while."""
    client = way.queue._links.calls
    before = {name: (await client.config_get(name.replace("_", "-"))) for name in settings}
    for name, value in settings.items():
        await client.config_set(name.replace("_", "-"), value)
    try:
        yield
    finally:
        for known in before.values():
            for name, value in known.items():
                await client.config_set(name, value)


async def test_a_full_server_refuses_newcomers_and_keeps_what_it_took(way: Journey):
    """Out of memory is `queue_unavailable`, without a word about trying again; then it goes on."""
    waiting = {"run_parts": 100, "run_bytes": "64MiB", "bytes": "64MiB"}
    runtime = await way.runtime(waiting=waiting, limits={"run_bytes": "64MiB"})
    used = int((await way.queue._links.calls.info("memory"))["used_memory"])
    contents = [os.urandom(PART) for _ in range(64)]
    async with told(way, maxmemory=str(used + (4 << 20))):
        answers = [await runtime.put(content, f"x-{number}") for number, content in enumerate(contents)]
        refused = [answer for answer in answers if answer.status_code != 202]
        assert 0 < len(refused) < 64
        for answer in refused:
            assert (answer.status_code, problem(answer)["reason"]) == (503, "queue_unavailable")
            assert answer.json()["retryable"] is False
            assert "retry-after" not in answer.headers
            assert (answer.json()["receipt"]["capture"], answer.json()["receipt"]["recorded"]) == (
                "not_captured",
                False,
            )
        # Who is refused loses nothing: not the receipt of what waits, and not its place.
        first = await way.client.get(answers[0].headers["location"], headers=runtime.key)
        assert first.json()["capture"] == "queued"
    await way.write()
    for number, (content, answer) in enumerate(zip(contents, answers, strict=True)):
        if answer.status_code == 202:
            assert await way.content(runtime, f"x-{number}") == content
        else:
            assert (await runtime.put(content, f"x-{number}")).status_code == 202
    await way.write()
    run = await way.json(f"/v1/runs/{runtime.run}", runtime)
    assert run["counts"]["stored"] == 64


@pytest.mark.parametrize(
    ("setting", "value"),
    [("maxmemory_policy", "allkeys-lru"), ("maxmemory_policy", "volatile-ttl"), ("appendonly", "no")],
)
async def test_a_server_that_would_forget_is_a_loud_fault_of_health(way: Journey, setting: str, value: str):
    """Eviction deletes queued work without an error, so that a process is not ready with it."""
    assert (await way.client.get("/readyz")).status_code == 200
    async with told(way, **{setting: value}):
        answer = await way.client.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        assert any(value in missing or setting in missing for missing in answer.json()["missing"])
    assert (await way.client.get("/readyz")).status_code == 200


async def test_a_server_that_became_a_replica_is_a_loud_fault_of_health_until_it_is_a_primary_again(
    way: Journey,
):
    """It takes nothing, and what it says of the queue is of the past."""
    client = way.queue._links.calls
    await client.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        answer = await way.client.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        assert any("replica" in missing for missing in answer.json()["missing"])
    finally:
        await client.execute_command("REPLICAOF", "NO", "ONE")
    assert (await way.client.get("/readyz")).status_code == 200


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """One node of a cluster, which has no slots yet."""
    port = free_port()
    # The bus's own port is 10,000 above by itself, which is none for high ones.
    settings = {
        "port": port, "cluster-port": free_port(), "bind": "127.0.0.1", "dir": tmp_path, "logfile": tmp_path / "log",
        "cluster-enabled": "yes", "appendonly": "yes", "stream-node-max-entries": 1, "maxmemory-policy": "noeviction",
    }  # fmt: skip
    command = [
        str(valkey._program()),
        *(word for name, value in settings.items() for word in (f"--{name}", str(value))),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


async def test_a_cluster_is_said_to_be_one_before_anything_is_queued(cluster: str):
    """Keys of a shard share a hash tag, and this version speaks to one node: start and health say so."""

    async def answers() -> bool:
        try:
            return bool(await asyncio.to_thread(redis.Redis.from_url(cluster).ping))
        except redis.ConnectionError:
            return False

    await until(answers, "the node answers")
    queue = Queue(cluster, shards=1, shard_limits=ShardLimits())
    try:
        (fault,) = await queue.check()
    finally:
        await queue.close()
    assert "cluster" in fault
    assert "single node" in fault
