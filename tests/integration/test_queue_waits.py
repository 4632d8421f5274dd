"""For how long something of a run has waited, and what sealed it: whatever else waits."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from policies.limits import ShardLimits
from store.queue import Queue, RunKey
from store.queue.upkeep import _OLDEST
from tests.support.queue_frames import new_key, open_run, part, state

pytestmark = pytest.mark.asyncio

HOUR_MS = 3_600_000
STREAM = "custody:{q0}:entries"


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    made = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    yield made
    await made.close()


async def _now_ms(queue: Queue) -> int:
    seconds, micros = await queue._links.calls.time()
    return int(seconds) * 1000 + int(micros) // 1000


async def _waits(queue: Queue, key: RunKey, hours: float, *, body: bytes = b"", number: int = 0) -> None:
    """An entry of so long ago, counted as the append script counts it."""
    client: Any = queue._links.calls
    at_ms = await _now_ms(queue) - int(hours * HOUR_MS)
    fields = {"v": "1", "n": f"{key.scope.hex}:{key.run}", "t": "part", "b": body}
    await client.xadd(STREAM, fields, id=f"{at_ms}-{number}")
    await client.hincrby(f"custody:{{q0}}:scope:{key.scope.hex}", f"r:{key.run}", 1)


async def test_each_run_and_scope_waits_for_its_own_entries_alone(queue: Queue) -> None:
    stuck, fresh, idle = new_key("stuck"), new_key("fresh"), new_key("idle")
    beside = RunKey(stuck.scope, "beside")
    await _waits(queue, stuck, 5)
    await _waits(queue, stuck, 4)
    for run in (fresh, idle):
        await open_run(queue, run)
    await queue.append([part(fresh), state(fresh)])

    waits = await queue.runs_wait_s([stuck, fresh, idle, beside])

    assert waits[stuck] == pytest.approx(5 * 3600, abs=5)
    assert 0 < waits[fresh] < 5
    assert (waits[idle], waits[beside]) == (0, 0)
    scopes = await queue.scopes_wait_s([stuck.scope, fresh.scope, idle.scope])
    assert scopes[stuck.scope] == pytest.approx(5 * 3600, abs=5)
    assert 0 < scopes[fresh.scope] < 5
    assert scopes[idle.scope] == 0
    assert (await queue.runs_wait_s([]), await queue.scopes_wait_s([])) == ({}, {})


async def test_however_much_waits_only_the_oldest_entries_are_looked_at(queue: Queue) -> None:
    stuck, behind, idle = new_key("stuck"), new_key("behind"), new_key("idle")
    for number in range(_OLDEST):
        await _waits(queue, stuck, 5 - number / _OLDEST, number=number)
    await _waits(queue, behind, 1)

    waits = await queue.runs_wait_s([stuck, behind, idle])

    # Of what lies behind it is said that it waits for less than the last that was looked at: longer than is true.
    assert waits[behind] == pytest.approx(4 * 3600, abs=30)
    assert waits[idle] == 0


async def test_bodies_make_them_fewer(queue: Queue) -> None:
    large, behind = new_key("large"), new_key("behind")
    for number in range(4):
        await _waits(queue, large, 5 - number, body=bytes(3 << 20), number=number)
    await _waits(queue, behind, 1)
    assert (await queue.runs_wait_s([behind]))[behind] == pytest.approx(3 * 3600, abs=5)


async def test_what_waits_for_long_says_which_keys_sealed_it(queue: Queue) -> None:
    run = new_key()
    first, second, third = b"A" * 8, b"B" * 8, b"C" * 8
    for hours, key in ((40, first), (39, first), (30, second), (1, third)):
        await _waits(queue, run, hours, body=b"\x01" + key + b"sealed")
    await _waits(queue, RunKey(uuid4(), "gap"), 0.5)

    sealed = await queue.sealed_by(timedelta(hours=12))

    assert sealed.ages_s == {
        first: pytest.approx(40 * 3600, abs=5),
        second: pytest.approx(30 * 3600, abs=5),
    }
    assert sealed.unseen_s is None
    assert set((await queue.sealed_by(timedelta())).ages_s) == {first, second, third}
