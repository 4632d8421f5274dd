"""Taking, taking over and settling on a real Valkey: one settlement each, and everything given back."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from policies.limits import RunLimits, ShardLimits
from policies.reasons import Reason
from store.queue import Depth, Queue, RunKey, Settlement
from tests.support.logs import heard
from tests.support.queue_frames import fact, fields_of, gap, keys_in, new_key, open_run, part, state

pytestmark = pytest.mark.asyncio

ENTRIES = "custody:{q0}:entries"
EMPTY = (0, 0, 0, 0)


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    made = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    yield made
    await made.close()


def amounts(depth: Depth) -> tuple[int, int, int, int]:
    return depth.parts, depth.bytes, depth.notes, depth.stream_length


async def run_hash(queue: Queue, key: RunKey) -> dict[str, str]:
    return await fields_of(queue, f"custody:{{q0}}:run:{key.scope.hex}:{key.run}")


async def test_settling_gives_everything_back_and_keeps_what_was_captured(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key, "x1", exact=10), part(key, "x2", exact=20), state(key), gap(key)])
    (depth,) = await queue.depth()
    assert amounts(depth) == (2, 320, 2, 4)
    entries = await queue.take(0, "w", 10, 0)
    stored, refused = (entry for entry in entries if entry.type == "part")
    notes = [entry for entry in entries if entry.type != "part"]
    settlements = [
        stored.settle("stored"),
        refused.settle("refused", Reason.SOURCE_REVOKED),
        *(note.settle("noted") for note in notes),
    ]
    assert await queue.settle(0, settlements) == [True] * 4
    (depth,) = await queue.depth()
    assert amounts(depth) == EMPTY
    after = await run_hash(queue, key)
    assert [after[name] for name in ("parts", "bytes", "wparts", "wbytes", "wnotes")] == [
        "1",
        "10",
        "0",
        "0",
        "0",
    ]
    assert not [name for name in await keys_in(queue) if ":scope:" in name]
    assert await queue.outcomes() == {"stored": 1, "source_revoked": 1}
    # Refused is gone from the run: it may be posted again.
    (again,) = await queue.append([part(key, "x2")])
    assert again.outcome == "queued"


async def test_settling_twice_settles_once(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key, "x1"), part(key, "x2")])
    first, second = await queue.take(0, "w", 10, 0)
    assert await queue.settle(0, [first.settle("stored"), first.settle("stored")]) == [True, False]
    assert await queue.settle(0, [first.settle("refused", Reason.ERASED), second.settle("stored")]) == [
        False,
        True,
    ]
    (depth,) = await queue.depth()
    assert amounts(depth) == EMPTY
    assert (await run_hash(queue, key))["parts"] == "2"


async def test_of_two_writers_with_the_same_entry_only_one_settles(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key)])
    (slow,) = await queue.take(0, "slow", 10, 0)
    assert await queue.take(0, "quick", 10, 0) == []
    (reclaimed,) = await queue.reclaim(0, "quick", 0, 10)
    assert (reclaimed.id, reclaimed.sealed, reclaimed.deliveries) == (slow.id, slow.sealed, 2)
    assert await queue.settle(0, [reclaimed.settle("stored")]) == [True]
    assert await queue.settle(0, [slow.settle("stored")]) == [False]
    (depth,) = await queue.depth()
    assert amounts(depth) == EMPTY


async def test_a_busy_writers_entries_are_not_taken_over(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key)])
    await queue.take(0, "busy", 10, 0)
    assert await queue.reclaim(0, "other", 60_000, 10) == []


async def test_deliveries_count_up_so_that_poison_is_seen(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key), state(key)])
    await queue.take(0, "w", 10, 0)
    for times in (2, 3, 4):
        entries = await queue.reclaim(0, "w", 0, 10)
        assert [entry.deliveries for entry in entries] == [times, times]


async def test_taking_over_goes_through_a_long_list_bit_by_bit(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, run_limits=RunLimits(run_waiting_parts=100))
    await queue.append([part(key, f"x{n}") for n in range(50)])
    await queue.take(0, "dead", 100, 0)
    found = [entry.id for _ in range(5) for entry in await queue.reclaim(0, "w", 0, 10)]
    assert len(set(found)) == 50


async def test_entries_taken_out_behind_our_back_give_their_reservations_back(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key, "x1", exact=10), part(key, "x2", exact=20), state(key)])
    entries = await queue.take(0, "w", 10, 0)
    await queue._links.calls.xdel(ENTRIES, entries[0].id, entries[2].id)
    (left,) = await queue.reclaim(0, "w", 0, 10)
    assert left.id == entries[1].id
    (depth,) = await queue.depth()
    assert amounts(depth) == (1, 160, 0, 1)
    after = await run_hash(queue, key)
    assert [after[name] for name in ("parts", "bytes", "wparts", "wnotes")] == ["1", "20", "1", "0"]
    assert await queue.identity(key, "x1", "a", "logical-request") is None
    assert await queue.settle(0, [left.settle("stored")]) == [True]
    assert amounts((await queue.depth())[0]) == EMPTY


@pytest.mark.parametrize(
    "fields", [{"v": "2", "t": "part", "h": "?"}, {"v": "1", "t": "part", "h": "?", "b": "!"}, {"v": "1"}]
)
async def test_what_a_newer_version_wrote_stays_for_a_newer_writer(
    queue: Queue, fields: dict[str, str]
) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue._links.calls.xadd(ENTRIES, fields)  # type: ignore[arg-type]
    await queue.append([part(key)])
    with heard() as log:
        (entry,) = await queue.take(0, "w", 10, 0)
    assert entry.type == "part"
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["event"], line["count"]) for line in lines] == [("entries_left_to_a_newer_writer", 1)]
    await queue.settle(0, [entry.settle("stored")])
    pending = await queue._links.calls.xpending(ENTRIES, "writers")
    assert pending["pending"] == 1


async def test_a_writer_that_holds_something_keeps_its_name(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key)])
    (entry,) = await queue.take(0, "w", 10, 0)
    assert not await queue.leave(0, "w")
    await queue.settle(0, [entry.settle("stored")])
    assert await queue.leave(0, "w")
    assert await queue._links.calls.xinfo_consumers(ENTRIES, "writers") == []


async def test_once_a_writer_found_a_run_full_of_facts_it_takes_no_more_of_them(queue: Queue) -> None:
    full, other = new_key("full"), new_key("other")
    for key in (full, other):
        await open_run(queue, key)
    await queue.append([fact(full), fact(full), fact(other)])
    first, second, another = await queue.take(0, "w", 10, 0)
    settlements = [
        first.settle("noted"),
        second.settle("refused", Reason.CAPACITY_EXCEEDED),
        another.settle("noted"),
    ]
    assert await queue.settle(0, settlements) == [True] * 3
    answers = await queue.append([fact(full), state(full), part(full), fact(other)])
    assert [answer.reason for answer in answers] == [Reason.CAPACITY_EXCEEDED, None, None, None]
    # Forgotten and opened again, a writer has to say so anew.
    for entry in await queue.take(0, "w", 10, 0):
        await queue.settle(0, [entry.settle("stored" if entry.type == "part" else "noted")])
    assert await queue.forget_run(full)
    await open_run(queue, full)
    assert (await queue.append([fact(full)]))[0].outcome == "queued"


async def test_an_empty_shard_answers_plainly(queue: Queue) -> None:
    assert await queue.take(0, "w", 10, 0) == []
    assert await queue.reclaim(0, "w", 0, 10) == []
    assert await queue.settle(0, []) == []
    settlement = Settlement("0-1", new_key(), "state", "noted")
    assert await queue.settle(0, [settlement]) == [False]
    assert amounts((await queue.depth())[0]) == EMPTY
    assert (await queue.depth())[0].oldest_age_s == 0


async def test_taking_waits_for_the_first_entry(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    taking = asyncio.create_task(queue.take(0, "w", 10, 4_000))
    await asyncio.sleep(0.05)
    await queue.append([part(key)])
    async with asyncio.timeout(2):
        assert len(await taking) == 1


async def test_what_was_stored_stays_stored_when_a_late_writer_says_otherwise(queue: Queue) -> None:
    """Its run was lost and rebuilt from the database, which held the part already; its entry was still there."""
    key = new_key()
    await open_run(queue, key)
    frame = part(key, exact=10)
    await queue.append([frame])
    (entry,) = await queue.take(0, "w", 10, 0)
    await queue._links.calls.delete(f"custody:{{q0}}:run:{key.scope.hex}:{key.run}")
    await open_run(
        queue,
        key,
        captured_parts=1,
        captured_bytes=10,
        stored=[("x", "a", "logical-request", frame.evidence)],
    )
    assert (await run_hash(queue, key))["wparts"] == "1"
    await queue.settle(0, [entry.settle("refused", Reason.RUN_CLOSED)])
    after = await run_hash(queue, key)
    assert [after[name] for name in ("parts", "bytes", "wparts", "wbytes")] == ["1", "10", "0", "0"]
    found = await queue.identity(key, "x", "a", "logical-request")
    assert found is not None
    assert not found.pending
