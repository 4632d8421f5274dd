"""The writer between queue and database: settled only after the commit, and nothing lost on the way."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from policies.reasons import Reason
from store.queue import Entry, Queue
from store.services.write_batch import BatchWriter, Written
from tests.support import factories
from tests.support.factories import House, queue_at, queue_up
from tests.support.writers import GRACE, IDLE, MAX_DELIVERIES, drained, nothing_reserved, waiting, writing
from workers import suspects


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with queue_at(redis_url) as opened:
        yield opened


async def test_what_is_queued_is_stored_and_settled(house: House, queue: Queue) -> None:
    run = await house.declare()
    entries = [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(30)]
    await queue_up(
        queue,
        run,
        [
            *entries,
            house.state(run, dispatch="dispatched"),
            house.gap(run, Reason.NOT_OBSERVED, session="s", first=3),
        ],
    )

    async with writing(house, queue):
        await drained(queue)

    assert await house.count("parts") == await house.count("bodies") == 30
    assert await house.count("attempts") == await house.count("gaps") == 1
    await nothing_reserved(queue)
    assert (await queue.outcomes())["stored"] == 30


async def test_two_writers_side_by_side_store_everything_once(house: House, queue: Queue) -> None:
    runs = [await house.declare() for _ in range(4)]
    for run in runs:
        await queue_up(
            queue, run, [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(100)]
        )

    async with writing(house, queue, batch=16), writing(house, queue, batch=16):
        await drained(queue)

    assert await house.count("parts") == await house.count("bodies") == await house.count("log_queue") == 400
    await nothing_reserved(queue)


@pytest.mark.parametrize(("content", "most"), [(b"small", 32), (os.urandom(250_000), 8)])
async def test_where_much_waits_small_parts_are_taken_in_larger_batches(
    house: House, queue: Queue, monkeypatch: pytest.MonkeyPatch, content: bytes, most: int
) -> None:
    asked: list[int] = []
    take = queue.take

    async def taking(shard: int, consumer: str, count: int, block_ms: int) -> list[Entry]:
        asked.append(count)
        return await take(shard, consumer, count, block_ms)

    monkeypatch.setattr(queue, "take", taking)
    for _ in range(12):
        run = await house.declare()
        await queue_up(queue, run, [house.part(run, content, exchange=f"x-{n}") for n in range(5)])

    async with writing(house, queue, batch=8):
        await drained(queue)

    assert (min(asked), max(asked)) == (8, most)
    assert await house.count("bodies") == 60


async def test_a_refusal_at_the_re_check_settles_with_its_reason(house: House, queue: Queue) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content")])
    await house.narrow(run, content="opt_out")

    async with writing(house, queue):
        await drained(queue)

    assert await queue.outcomes() == {"content_opt_out": 1}
    assert await house.value("SELECT reason FROM gaps") == "content_opt_out"
    await nothing_reserved(queue)


async def test_a_bad_part_is_given_up_after_bounded_tries_and_its_batch_is_stored(
    house: House, queue: Queue
) -> None:
    run = await house.declare()
    parts = [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(20)]
    bad = house.part(run, b"bad", exchange="bad")
    assert bad.sealed is not None
    damaged = type(bad)(bad.id, bad.type, bad.header, bad.sealed[:-1] + bytes([bad.sealed[-1] ^ 1]), None)
    await queue_up(queue, run, [*parts[:10], damaged, *parts[10:]])

    async with writing(house, queue):
        await drained(queue)

    assert await house.count("bodies") == 20
    assert (await queue.outcomes()) == {"stored": 20, "write_failed": 1}
    assert await house.rows("SELECT exchange, said_by, reason FROM gaps") == [
        {"exchange": "bad", "said_by": "store", "reason": "write_failed"}
    ]
    await nothing_reserved(queue)


async def test_a_row_that_the_database_refuses_is_found_by_halving(house: House) -> None:
    run = await house.declare()
    entries = [
        house.part(run, b"content %d" % n, exchange=f"x-{n}", deliveries=MAX_DELIVERIES) for n in range(20)
    ]
    entries[13] = house.part(run, b"bad", exchange="bad", session="nul\x00", deliveries=MAX_DELIVERIES)

    written = await BatchWriter(house.persister(), max_deliveries=MAX_DELIVERIES).write(entries)

    assert {each.entry_id for each in written.settlements if each.outcome == "stored"} == {
        entry.id for n, entry in enumerate(entries) if n != 13
    }
    assert [each.reason for each in written.settlements if each.outcome == "refused"] == [Reason.WRITE_FAILED]
    # Its name cannot be written either, so that it is only counted.
    assert await house.rows("SELECT reason, exchange, merged FROM gaps") == [
        {"reason": "write_failed", "exchange": None, "merged": 1}
    ]
    assert await house.count("bodies") == 19


async def test_a_bad_row_is_left_for_another_try_first(house: House) -> None:
    run = await house.declare()
    bad = house.part(run, b"bad", exchange="bad", session="nul\x00")

    written = await BatchWriter(house.persister(), max_deliveries=MAX_DELIVERIES).write([bad])

    assert (written.at_fault, written.settlements) == ([bad], [])
    assert await house.count("gaps") == 0


async def test_without_a_bucket_entries_stay_and_are_stored_later(house: House, queue: Queue) -> None:
    run = await house.declare(keep=timedelta(days=30))
    await queue_up(queue, run, [house.part(run, b"content")])

    async with writing(house, queue):
        # Longer than it would take to be delivered as often as a part at fault may be.
        await asyncio.sleep(IDLE.total_seconds() * 2 * (MAX_DELIVERIES + 1))
        assert await waiting(queue)
        assert await house.count("gaps") == 0
        await house.execute("UPDATE scopes SET retention_max_s = 31 * 86400")
        await house.make_buckets()
        await drained(queue)

    assert await queue.outcomes() == {"stored": 1}
    await nothing_reserved(queue)


async def test_what_another_writer_left_is_taken_over(house: House, queue: Queue) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content")])
    assert len(await queue.take(0, "dead", 10, 100)) == 1

    async with writing(house, queue):
        await drained(queue)

    assert await house.count("bodies") == 1


async def test_cancelled_between_take_and_commit_everything_stays_pending(house: House, queue: Queue) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content")])
    entries = await queue.take(0, "mine", 10, 100)
    locked = asyncio.Event()
    release = asyncio.Event()

    async def hold_the_run() -> None:
        async with house.duties.transaction() as connection:
            await connection.execute("SELECT 1 FROM runs FOR UPDATE")
            locked.set()
            await release.wait()

    holding = asyncio.create_task(hold_the_run())
    await locked.wait()
    writing_ = asyncio.create_task(house.persister().persist(entries))
    await asyncio.sleep(0.2)
    writing_.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing_
    release.set()
    await holding

    assert await waiting(queue)
    assert await house.count("parts") == 0
    async with writing(house, queue):
        await drained(queue)
    assert await house.count("bodies") == 1


async def test_told_to_stop_it_takes_nothing_more(house: House, queue: Queue) -> None:
    async with writing(house, queue) as running:
        await asyncio.sleep(0.05)
    assert running.done()
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content")])

    assert await waiting(queue)
    async with writing(house, queue):
        await drained(queue)


# --- entries that writers died of


async def test_what_three_writers_died_of_is_given_up_and_its_neighbours_are_stored(
    house: House, queue: Queue
) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(5)])
    held: list[str] = []
    for _ in range(MAX_DELIVERIES + 1):
        taken = await queue.take(0, "dead", 10, 1) or await queue.reclaim(0, "dead", 0, 10)
        held = [entry.id for entry in taken]
    for deaths in range(suspects.LONE_TRIES):
        assert await queue.begin_alone(0, held[2], timedelta(0)) == deaths

    async with writing(house, queue):
        await drained(queue)

    assert await queue.outcomes() == {"stored": 4, "write_failed": 1}
    assert await house.value("SELECT exchange FROM gaps") == "x-2"
    assert await queue.begin_alone(0, held[2], GRACE) == 0
    await nothing_reserved(queue)


class Slow(BatchWriter):
    """A writer of batches that is slow, and nothing worse."""

    def __init__(self, house: House) -> None:
        super().__init__(house.persister(), max_deliveries=1)
        self.release = asyncio.Event()

    async def write(self, entries: Sequence[Entry]) -> Written:
        await self.release.wait()
        return await super().write(entries)


async def test_writers_that_try_a_part_at_the_same_time_are_not_taken_for_dead(
    house: House, queue: Queue
) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content")])
    await queue.take(0, "dead", 10, 100)
    (entry,) = await queue.reclaim(0, "mine", 0, 10)
    slow = Slow(house)
    # In turn, as writers take a slow one's entry over from each other.
    tries = [asyncio.create_task(suspects.Suspects(queue, slow, 0).write([entry])) for _ in range(6)]
    await asyncio.sleep(0.2)
    slow.release.set()

    found = [each for attempt in tries for each in (await attempt).settlements]

    assert [each.outcome for each in found] == ["stored"]
    assert await house.count("gaps") == 0


async def test_a_lone_try_ends_before_it_could_be_taken_for_dead(house: House, queue: Queue) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content")])
    (entry,) = await queue.take(0, "mine", 10, 100)
    suspect = suspects.Suspects(queue, Slow(house), 0, timedelta(milliseconds=100))

    for _ in range(suspects.LONE_TRIES + 1):
        written = await suspect.write([entry])

        assert (written.left, written.settlements) == ([entry], [])
        assert written.outage is not None


async def test_suspects_that_do_no_harm_are_stored(house: House, queue: Queue) -> None:
    run = await house.declare()
    await queue_up(queue, run, [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(5)])
    for _ in range(10 * MAX_DELIVERIES):
        await queue.take(0, "dead", 10, 1) or await queue.reclaim(0, "dead", 0, 10)

    async with writing(house, queue):
        await drained(queue)

    assert await queue.outcomes() == {"stored": 5}


async def test_what_was_stored_is_not_given_up(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    batches = BatchWriter(house.persister(), max_deliveries=MAX_DELIVERIES)
    await batches.write([entry])

    written = await batches.give_up(entry)

    assert [each.outcome for each in written.settlements] == ["stored"]
    assert await house.count("gaps") == 0


async def test_waiting_for_a_bucket_does_not_make_an_entry_a_suspect(house: House, queue: Queue) -> None:
    run = await house.declare(keep=timedelta(days=30))
    await queue_up(queue, run, [house.part(run, b"content")])

    async with writing(house, queue):
        await asyncio.sleep(IDLE.total_seconds() * 2 * (MAX_DELIVERIES + 2))

    (entry,) = await queue.reclaim(0, "looking", 0, 10)
    assert entry.deliveries == 2
