"""How deep the queue was and what was refused, over time: what the duty notes, and what operators see of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio

from policies.kinds import Role
from policies.limits import ShardLimits
from policies.reasons import Reason
from store.db import SERVICE_ROLE, Database
from store.queue import Queue
from store.services.duties import perform
from store.services.queue_depths import DUTY, REFUSALS, SPANS, Depths, History, QueueHistory, Window
from tests.support.api import Api, bearer, problem, running, settings_for
from tests.support.capture import capturing
from tests.support.duties import execute, scalar
from tests.support.queue_frames import new_key, open_run, part, state

MIB = 1 << 20
# Minutes as the duty notes them, from {last} to {first} minutes ago.
ROW = (
    "INSERT INTO queue_depths (minute, parts, notes, bytes_class, oldest_s, counts, queue)"
    " SELECT date_trunc('minute', now(), 'UTC') - n * interval '1 minute', {parts}, 0, 0, 0.5, {counts}, {queue}"
    " FROM generate_series({first}, {last}) AS n"
)
# All but the first and the last minutes.
BETWEEN = (
    "DELETE FROM queue_depths AS d USING (SELECT min(minute) AS first, max(minute) AS last FROM queue_depths) AS ends"
    " WHERE d.minute > first + $1 * interval '1 minute' AND d.minute < last - $2 * interval '1 minute'"
)
COUNTED = "jsonb_build_object('capacity_exceeded', 20000 - n)"


@pytest.fixture
async def history(database_url: str) -> AsyncIterator[QueueHistory]:
    opened = await Database.open(database_url, role=SERVICE_ROLE, size=2)
    yield QueueHistory(opened)
    await opened.close()


async def noted(url: str, first: int, last: int, **changed: str) -> None:
    """Put there what the duty would have noted from `last` to `first` minutes ago."""
    said = {"parts": "1", "counts": COUNTED, "queue": "'q'", **changed}
    await execute(url, ROW.format(first=first, last=last, **said))


async def begun(queue: Queue) -> None:
    for shard in queue.shards:
        await queue.ensure_epoch(shard)


async def earlier(url: str) -> None:
    """Let what was noted be a minute older."""
    await execute(url, "UPDATE queue_depths SET minute = minute - interval '1 minute'")


def refused(found: History) -> list[dict[Reason, int] | None]:
    return [None if each.refused is None else dict(each.refused) for each in found.points]


# --- the duty


async def test_a_minute_is_noted_once_however_many_note_it(
    database: Database, queue: Queue, database_url: str
) -> None:
    counts = await asyncio.gather(*(Depths(database, queue).run() for _ in range(5)))

    rows = await scalar(database_url, "SELECT count(*) FROM queue_depths")
    # Where a minute began meanwhile there are two.
    assert sum(each["noted"] for each in counts) == rows
    assert rows == await scalar(database_url, "SELECT count(DISTINCT minute) FROM queue_depths")
    assert await scalar(
        database_url, "SELECT bool_and(minute = date_trunc('minute', minute)) FROM queue_depths"
    )


async def test_what_waits_is_noted_and_its_bytes_as_a_class_that_tells_nothing_of_one_part(
    database: Database, queue: Queue, database_url: str
) -> None:
    look = "SELECT (parts, notes, bytes_class)::text FROM queue_depths ORDER BY minute DESC LIMIT 1"
    await Depths(database, queue).run()
    assert await scalar(database_url, look) == "(0,0,0)"
    await earlier(database_url)
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key, "x", exact=3, sealed=61), state(key)])
    await Depths(database, queue).run()
    assert await scalar(database_url, look) == f"(1,1,{MIB})"
    await earlier(database_url)
    await queue.append([part(key, f"x-{n}", exact=100, sealed=MIB + 60) for n in range(2)])
    await asyncio.sleep(0.05)
    await Depths(database, queue).run()
    assert await scalar(database_url, look) == f"(3,1,{4 * MIB})"
    assert await scalar(database_url, "SELECT max(oldest_s) BETWEEN 0.05 AND 60 FROM queue_depths")


async def test_what_is_older_than_a_week_goes(database: Database, queue: Queue, database_url: str) -> None:
    week = 7 * 24 * 60
    await noted(database_url, 1, 1)
    await noted(database_url, week - 5, week - 5)
    await noted(database_url, week + 125, week + 224)

    assert (await Depths(database, queue).run())["forgotten"] == 100

    assert await scalar(database_url, "SELECT count(*) FROM queue_depths") == 3


async def test_of_a_week_it_is_known_what_was_refused_in_its_first_hour(
    database: Database, queue: Queue, database_url: str, history: QueueHistory
) -> None:
    await noted(database_url, 1, 7 * 24 * 60 + 300)

    await Depths(database, queue).run()

    first, *_ = (await history.of(Window.WEEK)).points
    assert first.refused is not None


async def test_of_a_queue_that_does_not_answer_nothing_is_noted(
    database: Database, database_url: str
) -> None:
    away = Queue("redis://127.0.0.1:1", shards=1, shard_limits=ShardLimits())
    try:
        outcome = await perform(database, DUTY, Depths(database, away).run)
    finally:
        await away.close()

    assert outcome.word == "failed: queue_unavailable"
    assert await scalar(database_url, "SELECT count(*) FROM queue_depths") == 0


async def test_what_a_runtime_lost_by_itself_is_no_refusal_and_what_is_stored_none_either() -> None:
    own = {Reason.CLIENT_QUEUE_FULL, Reason.NOT_OBSERVED, Reason.UNACCOUNTED, Reason.NOT_FOUND}
    assert own & REFUSALS == set()
    assert {
        Reason.CAPACITY_EXCEEDED,
        Reason.CONTENT_OPT_OUT,
        Reason.WRITE_FAILED,
        Reason.INTERRUPTED,
    } <= REFUSALS


async def test_refusals_of_every_api_are_counted_and_those_by_the_queue_itself(
    database: Database,
    queue: Queue,
    database_url: str,
    redis_url: str,
    keys_dir: Path,
    history: QueueHistory,
) -> None:
    await begun(queue)
    async with AsyncExitStack() as exits:
        one = await exits.enter_async_context(
            capturing(database_url, redis_url, keys_dir, {"limits": {"part_bytes": "1KiB", "run_parts": 1}})
        )
        two = await exits.enter_async_context(running(settings_for(database_url, redis_url, keys_dir)))
        await Depths(database, queue).run()
        await earlier(database_url)
        for api in (one.api, two):
            large = await api.client.put(one.path("x"), content=bytes(2000), headers=one.headers())
            assert problem(large)["reason"] == "part_too_large"
        assert (await one.put(b"first", "x-1")).status_code == 202
        again = await two.client.put(one.path("x-2"), content=b"second", headers=one.headers())
        assert problem(again)["reason"] == "run_part_limit"
        lost = {"gaps": [{"session": "s", "sequences": "1-3", "reason": "client_queue_full"}]}
        told = await one.api.client.post(f"/v1/runs/{one.run}/gaps", json=lost, headers=one.headers())
        assert told.is_success
        await Depths(database, queue).run()

    found = await history.of(Window.HOUR)
    assert refused(found) == [None, {Reason.PART_TOO_LARGE: 2, Reason.RUN_PART_LIMIT: 1}]
    assert found.points[1].since == found.points[0].last
    assert (found.points[1].parts, found.points[1].times) == (1, 3)


async def test_of_a_queue_that_began_anew_what_was_refused_is_unknown_and_then_known_again(
    database: Database, queue: Queue, database_url: str, redis_url: str, history: QueueHistory
) -> None:
    duty, key = Depths(database, queue), new_key()

    async def refuse(times: int) -> None:
        await open_run(queue, key, state="erased")
        await queue.append([part(key, f"x-{number}") for number in range(times)])

    await begun(queue)
    await refuse(2)
    await duty.run()
    await earlier(database_url)
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.flushall()
    # More than before: by the counts alone it would seem to have gone on.
    await refuse(5)
    await duty.run()
    await earlier(database_url)
    await begun(queue)
    await duty.run()
    await earlier(database_url)
    await refuse(1)
    await duty.run()

    assert refused(await history.of(Window.HOUR)) == [None, None, None, {Reason.ERASED: 1}]


# --- what is made of it


@pytest.mark.parametrize("window", Window)
async def test_a_window_has_few_points_with_the_most_of_each_and_every_refusal(
    window: Window, database_url: str, history: QueueHistory
) -> None:
    await noted(database_url, 0, 7 * 24 * 60, parts="CASE n WHEN 7 THEN 900 ELSE n % 5 END")

    found = await history.of(window)

    span = SPANS[window]
    assert span.length / span.step <= len(found.points) <= 200
    assert max(each.parts for each in found.points) == 900
    first, last = found.points[0], found.points[-1]
    assert found.begins <= first.first < found.begins + span.step
    # A minute may have begun since.
    assert found.now - last.last < timedelta(minutes=2)
    # One a minute: all of them, from the last minute before the window.
    before = first.since or first.last
    total = sum(each.times or 0 for each in found.points)
    assert total == (last.last - before) / timedelta(minutes=1)
    assert all(each.last - each.first < span.step for each in found.points)
    assert [each.since for each in found.points[1:]] == [each.last for each in found.points[:-1]]


async def test_minutes_that_nobody_noted_have_no_point_and_what_was_refused_meanwhile_is_kept(
    database_url: str, history: QueueHistory
) -> None:
    await noted(database_url, 1, 31)
    await execute(database_url, BETWEEN, 1, 2)

    found = await history.of(Window.HOUR)

    assert len(found.points) == 5
    assert [each.times for each in found.points] == [None, 1, 27, 1, 1]
    assert found.points[2].first - found.points[1].last == timedelta(minutes=27)
    assert found.noted_since == found.points[0].first


async def test_counts_that_went_back_in_one_queue_are_unknown_and_no_negative_number(
    database_url: str, history: QueueHistory
) -> None:
    await noted(database_url, 2, 2, counts='\'{"erased": 5, "run_closed": 1}\'::jsonb')
    await noted(database_url, 1, 1, counts='\'{"erased": 3, "run_closed": 9}\'::jsonb')
    await noted(database_url, 0, 0, counts='\'{"erased": 4, "run_closed": 9}\'::jsonb')

    assert refused(await history.of(Window.HOUR)) == [None, None, {Reason.ERASED: 1}]


async def test_a_point_in_which_the_queue_changed_tells_no_refusals(
    database_url: str, history: QueueHistory
) -> None:
    await noted(database_url, 0, 400, queue="CASE WHEN n > 200 THEN 'old' ELSE 'new' END")

    points = (await history.of(Window.DAY)).points

    unknown = [each for each in points[1:] if each.times is None]
    assert len(unknown) == 1
    assert points[0].times is None
    change = await scalar(database_url, "SELECT min(minute) FROM queue_depths WHERE queue = 'new'")
    assert unknown[0].first <= change <= unknown[0].last


async def test_before_anything_was_noted_there_is_nothing(history: QueueHistory) -> None:
    found = await history.of(Window.WEEK)
    assert (found.noted_since, found.points) == (None, [])


async def test_the_service_reads_and_writes_nothing_of_it(database_url: str) -> None:
    connection = await asyncpg.connect(database_url, server_settings={"role": SERVICE_ROLE})
    try:
        for statement in (
            "DELETE FROM queue_depths",
            "UPDATE queue_depths SET parts = 0",
            ROW.format(parts=0, counts="'{}'", queue="NULL", first=0, last=0),
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


# --- over HTTP


@pytest.fixture
async def api(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Api]:
    async with running(settings_for(database_url, redis_url, keys_dir)) as api:
        yield api


async def test_operators_of_the_whole_store_ask_for_it(api: Api, database_url: str) -> None:
    await noted(database_url, 1, 90)
    operator = bearer(await api.key(Role.OPERATOR))

    hour = (await api.client.get("/v1/queue?window=1h", headers=operator)).json()
    day = (await api.client.get("/v1/queue", headers=operator)).json()

    last = hour["items"][-1]
    minute = datetime.fromisoformat(last["last"])
    assert last == {
        "first": last["last"], "last": last["last"], "parts": 1, "notes": 0, "bytes_class": 0, "oldest_s": 0.5,
        "since": (minute - timedelta(minutes=1)).isoformat().replace("+00:00", "Z"),
        "refused": {"capacity_exceeded": 1},
    }  # fmt: skip
    assert (hour["step_s"], day["step_s"]) == (60, 600)
    assert len(day["items"]) < len(hour["items"]) <= 61
    assert day["noted_since"] < hour["begins"] < hour["observed_at"]


async def test_others_do_not(api: Api) -> None:
    scope = await api.scope()
    for role in (Role.OPERATOR, Role.AUDITOR, Role.REVIEWER, Role.RUNTIME):
        answer = await api.client.get("/v1/queue", headers=bearer(await api.key(role, scope.scope_id)))
        assert (answer.status_code, problem(answer)["reason"]) == (403, "permission_denied")
    whole = bearer(await api.key(Role.OPERATOR))
    for query in ("window=2h", "window=", "window=1h&window=7d", "days=1"):
        answer = await api.client.get(f"/v1/queue?{query}", headers=whole)
        assert (answer.status_code, problem(answer)["reason"]) == (400, "malformed_request"), query
