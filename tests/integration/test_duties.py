import asyncio
import os
import sys
from asyncio.subprocess import Process
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis.asyncio

from policies.reasons import Reason
from store.db import Database
from store.errors import Unavailable
from store.forms import Secret
from store.queue import Queue
from store.services import duties as service
from store.services.duties import INTERRUPTED, LEASE_LOST, OK, SKIPPED, perform
from store.services.housekeeping import Months
from store.services.intake_keys import AHEAD_HOURS, IntakeKeys
from store.services.standing import EVERY_S
from store.tables import spans
from tests.support.duties import execute, keyring_of, new_scope, scalar
from workers import duties as process

IDLE = timedelta(minutes=30)
LEASE = "SELECT last_outcome FROM leases WHERE duty = 'd'"


# --- leases


async def _three() -> dict[str, int]:
    return {"done": 3, "left": 0}


async def test_a_duty_says_how_it_ended(database: Database, database_url: str) -> None:
    outcome = await perform(database, "d", _three)

    assert (outcome.word, str(outcome)) == (OK, "ok done=3")
    assert await scalar(database_url, LEASE) == "ok done=3"
    assert await scalar(
        database_url,
        "SELECT holder IS NULL AND last_success = last_finished AND last_started <= last_finished FROM leases",
    )


async def test_a_failure_is_an_outcome_and_no_success(database: Database, database_url: str) -> None:
    async def away() -> dict[str, int]:
        raise Unavailable(Reason.QUEUE_UNAVAILABLE)

    async def broken() -> dict[str, int]:
        raise KeyError("nothing of this is kept")

    assert (await perform(database, "d", away)).word == "failed: queue_unavailable"
    assert (await perform(database, "d", broken)).word == "failed: KeyError"
    assert await scalar(database_url, LEASE) == "failed: KeyError"
    assert await scalar(database_url, "SELECT last_success IS NULL AND holder IS NULL FROM leases")


async def test_what_somebody_else_does_is_skipped_and_says_so(database: Database, database_url: str) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> dict[str, int]:
        begun.set()
        await go.wait()
        return {}

    first = asyncio.create_task(perform(database, "d", slow))
    await begun.wait()
    assert (await perform(database, "d", _three)).word == SKIPPED
    go.set()
    assert (await first).word == OK
    assert (await perform(database, "d", _three)).word == OK


async def test_a_killed_holder_is_followed_when_its_lease_ends(database: Database, database_url: str) -> None:
    await execute(
        database_url,
        "INSERT INTO leases (duty, holder, held_until) VALUES ('d', gen_random_uuid(), now() + interval '300 ms')",
    )
    assert (await perform(database, "d", _three)).word == SKIPPED
    async with asyncio.timeout(5):
        while not (await perform(database, "d", _three)).succeeded:  # noqa: ASYNC110 - the lease is in the database
            await asyncio.sleep(0.05)


async def test_a_lease_is_renewed_while_the_work_goes_on(database: Database, database_url: str) -> None:
    async def long() -> dict[str, int]:
        await asyncio.sleep(1.0)
        return {}

    work = asyncio.create_task(perform(database, "d", long, lease_s=0.4))
    await asyncio.sleep(0.7)
    assert (await perform(database, "d", _three)).word == SKIPPED
    assert (await work).word == OK


async def test_who_lost_the_lease_stops_and_leaves_the_other_ones_alone(
    database: Database, database_url: str
) -> None:
    stopped = asyncio.Event()

    async def long() -> dict[str, int]:
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()
        return {}

    work = asyncio.create_task(perform(database, "d", long, lease_s=0.3))
    await asyncio.sleep(0.1)
    await execute(
        database_url, "UPDATE leases SET holder = gen_random_uuid(), held_until = now() + interval '1 hour'"
    )
    assert (await work).word == LEASE_LOST
    assert stopped.is_set()
    assert await scalar(database_url, "SELECT holder IS NOT NULL AND last_finished IS NULL FROM leases")


async def test_who_is_stopped_gives_the_lease_back_at_once(database: Database, database_url: str) -> None:
    begun = asyncio.Event()

    async def long() -> dict[str, int]:
        begun.set()
        await asyncio.sleep(30)
        return {}

    work = asyncio.create_task(perform(database, "d", long))
    # A row alone may be there before its taker knows.
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await scalar(database_url, LEASE) == INTERRUPTED
    assert (await perform(database, "d", _three)).word == OK


async def test_while_postgres_is_away_a_duty_fails_and_nothing_is_raised() -> None:
    away = await Database.open("postgresql://nobody@127.0.0.1:1/none", role=None, size=1)
    assert (await perform(away, "d", _three)).word == "failed: store_unavailable"
    await away.close()


async def test_each_within_stops_when_nothing_is_left_or_time_is_over() -> None:
    steps = iter([3, 2, 0, 9])

    async def step() -> int:
        return next(steps)

    assert await service.each_within(60, step) == 5
    assert await service.each_within(0, step) == 0


# --- small duties


async def test_intake_keys_are_made_ahead_and_go_a_day_after_what_they_sealed(
    database: Database, queue: Queue, keys_dir: Path
) -> None:
    keyring = keyring_of(keys_dir)
    duty = IntakeKeys(database, keyring, queue)
    old = datetime.now(UTC) - timedelta(hours=30)
    keyring.create_intake_keys(old, 0)
    fresh = datetime.now(UTC) - timedelta(hours=20)
    keyring.create_intake_keys(fresh, 0)

    counts = await duty.run()

    assert (counts["made"], counts["destroyed"], counts["rewritten"]) == (AHEAD_HOURS + 1, 1, 1)
    starts = [start for start, _ in keyring.intake_keys()]
    assert starts[0] == fresh.replace(minute=0, second=0, microsecond=0)
    assert len(starts) == AHEAD_HOURS + 2
    assert await duty.run() == {"made": 0, "destroyed": 0, "rewritten": 0}


async def test_what_waits_for_long_keeps_the_key_that_sealed_it_and_no_other(
    database: Database, queue: Queue, keys_dir: Path, redis_url: str
) -> None:
    keyring = keyring_of(keys_dir)
    now = datetime.now(UTC)
    for hours in (40, 35, 30):
        keyring.create_intake_keys(now - timedelta(hours=hours), 0)
    oldest = keyring.intake_keys()[0][1]
    duty = IntakeKeys(database, keyring, queue)
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        at_ms = int((now - timedelta(hours=39, minutes=59)).timestamp() * 1000)
        sealed = {"v": "1", "t": "part", "b": b"\x01" + oldest + b"sealed"}
        await client.xadd("custody:{q0}:entries", sealed, id=f"{at_ms}-0")
        assert (await duty.run())["destroyed"] == 2
        assert keyring.intake_keys()[0][1] == oldest
        await client.delete("custody:{q0}:entries")
    assert (await duty.run())["destroyed"] == 1


async def test_where_very_much_waits_keys_stay_that_may_have_sealed_it(
    database: Database, queue: Queue, keys_dir: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.queue.upkeep._OLDEST", 1)
    keyring = keyring_of(keys_dir)
    now = datetime.now(UTC)
    for hours in (70, 40):
        keyring.create_intake_keys(now - timedelta(hours=hours), 0)
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        for hours in (39, 38):
            at_ms = int((now - timedelta(hours=hours)).timestamp() * 1000)
            await client.xadd("custody:{q0}:entries", {"v": "1", "t": "gap"}, id=f"{at_ms}-0")
    assert (await IntakeKeys(database, keyring, queue).run())["destroyed"] == 1
    assert len([start for start, _ in keyring.intake_keys() if start < now - timedelta(hours=2)]) == 1


async def test_months_are_made_ahead_and_kept_as_long_as_a_scope_wants(
    database: Database, database_url: str
) -> None:
    await new_scope(database_url)
    await execute(database_url, "SELECT ensure_month('2020-01-01'::date)")

    assert await Months(database, IDLE).run() == {"dropped": 1, "forgotten": 0, "thinned": 0, "sessions": 0}
    assert await Months(database, IDLE).run() == {"dropped": 0, "forgotten": 0, "thinned": 0, "sessions": 0}
    next_month = (datetime.now(UTC).replace(day=1) + timedelta(days=32)).strftime("accesses_%Y_%m")
    assert await scalar(database_url, "SELECT to_regclass($1)::text", next_month) == next_month


async def test_of_old_checkpoints_one_an_hour_stays_and_of_those_of_two_days_all(
    database: Database, database_url: str
) -> None:
    # One every ten minutes of four days, the last one a moment ago.
    await execute(
        database_url,
        "INSERT INTO log_checkpoints (size, note, signed_at)"
        " SELECT 1 + n, 'note', now() - (575.5 - n) * interval '10 minutes' FROM generate_series(0, 576) AS n",
    )
    await execute(database_url, "UPDATE log_state SET size = 577, published_size = 577, stop = NULL")
    kept = "SELECT array_agg(size ORDER BY size) FROM log_checkpoints"
    hourly = await scalar(
        database_url,
        "SELECT array_agg(size ORDER BY size) FROM (SELECT max(size) AS size FROM log_checkpoints"
        " GROUP BY date_trunc('hour', signed_at, 'UTC')) AS last WHERE size <= 288",
    )
    everything = await scalar(database_url, kept)

    await execute(database_url, "UPDATE log_state SET stop = 'forked', stopped_at = now()")
    assert (await Months(database, IDLE).run())["thinned"] == 0
    await execute(database_url, "UPDATE log_state SET stop = NULL, stopped_at = NULL")
    # What was not published is nobody's past yet.
    await execute(database_url, "UPDATE log_state SET published_size = 1")
    assert (await Months(database, IDLE).run())["thinned"] == 0
    await execute(database_url, "UPDATE log_state SET published_size = 577")

    assert (await Months(database, IDLE).run())["thinned"] == 288 - len(hourly)

    assert await scalar(database_url, kept) == [*hourly, *everything[288:]]
    assert (await Months(database, IDLE).run())["thinned"] == 0


@pytest.mark.parametrize("now", ["2031-01-29", "2031-01-31", "2031-12-31", "2032-02-29", "2031-06-01"])
async def test_the_next_month_is_made_on_every_day_of_this_one(
    now: str, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = datetime.fromisoformat(f"{now}T23:30:00+00:00")

    async def then(_: object) -> datetime:
        return today

    monkeypatch.setattr(spans, "database_now", then)
    await Months(database, IDLE).run()
    following = today.replace(year=today.year + today.month // 12, month=today.month % 12 + 1, day=1)
    for month in (today, following):
        name = month.strftime("accesses_%Y_%m")
        assert await scalar(database_url, "SELECT to_regclass($1)::text", name) == name


async def test_sessions_of_the_console_go_a_day_after_they_ended_or_rested_too_long(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await execute(
        database_url,
        "INSERT INTO api_keys (key_id, role, digests, created_by, expires_at)"
        " VALUES ('k', 'operator', '{x}', 'op', now())",
    )
    lives, hour = "now() + interval '1 hour'", "now() - interval '1 hour'"
    for digest, seen_at, ends_at in (
        ("lives", hour, lives),
        ("ended", hour, "now() - interval '23 hours 59 minutes'"),
        ("ended a day ago", hour, "now() - interval '24 hours 1 minute'"),
        ("rested", "now() - interval '24 hours 29 minutes'", lives),
        ("rested and a day", "now() - interval '24 hours 31 minutes'", lives),
        ("both", "now() - interval '3 days'", "now() - interval '2 days'"),
    ):
        row = f"(convert_to($1, 'UTF8'), 'k', 'somebody''s words', {seen_at}, {ends_at})"
        insert = "INSERT INTO console_sessions (digest, key_id, purpose, seen_at, ends_at) VALUES "
        await execute(database_url, insert + row, digest)
    monkeypatch.setattr("store.services.console_sessions._REMOVED_AT_ONCE", 2)

    assert (await Months(database, IDLE).run())["sessions"] == 3

    left = "SELECT array_agg(convert_from(digest, 'UTF8') ORDER BY digest) FROM console_sessions"
    assert await scalar(database_url, left) == ["ended", "lives", "rested"]
    assert (await Months(database, IDLE).run())["sessions"] == 0


# --- the process


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "unix://:p%40ss@/run/v%20s.sock?db=3",
            {"unix_socket_path": "/run/v s.sock", "password": "p@ss", "database": 3},
        ),
        (
            "redis://u:p@h:7000/2",
            {"host": "h", "port": 7000, "username": "u", "password": "p", "database": 2},
        ),
        ("rediss://h", {"host": "h", "port": 6379, "ssl": True, "database": 0, "ssl_check_hostname": True}),
    ],
)
def test_arq_is_told_where_redis_is(address: str, expected: dict[str, object]) -> None:
    settings = process.redis_settings(Secret(address))
    assert {name: getattr(settings, name) for name in expected} == expected


def test_importing_the_process_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Settings" not in vars(process)
    with pytest.raises(AttributeError):
        _ = process.Nonsense


async def test_the_process_does_every_duty_at_its_start_and_what_is_due_within_a_second(
    tmp_path: Path, keys_dir: Path, database_url: str, redis_url: str
) -> None:
    environment = {
        **os.environ, "CUSTODY_DATABASE_URL": database_url, "CUSTODY_REDIS_URL": redis_url,
        "CUSTODY_DATA_DIR": str(tmp_path), "CUSTODY_CANARY": "false",
        "PYTHONPATH": str(Path(process.__file__).parent.parent),
    }  # fmt: skip
    command = [sys.executable, "-m", "arq", "workers.duties.Settings"]
    running = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(45):
            await _until(running, database_url, WELL_DONE, set(EVERY_S) - {"canary"})
            await new_scope(database_url)
            await _until(running, database_url, "SELECT count(*) > 0 FROM buckets", expected=True)
            check = await asyncio.create_subprocess_exec(
                *command, "--check", env=environment, stderr=asyncio.subprocess.DEVNULL
            )
            assert await check.wait() == 0
        async with redis.asyncio.Redis.from_url(redis_url) as client:
            assert await client.keys("arq:result:*") == []
            # Each job is a map of five in msgpack; a pickle begins with another byte.
            jobs = [await client.get(key) for key in await client.keys("arq:job:*")]
            assert all(job is None or job[:1] == b"\x85" for job in jobs)
    finally:
        running.terminate()
        output, _ = await running.communicate()
    assert b'"event": "started"' in output
    assert running.returncode == 0


WELL_DONE = "SELECT coalesce(array_agg(duty), '{}') FROM leases WHERE last_outcome LIKE 'ok%'"


async def _until(running: Process, url: str, sql: str, expected: object) -> None:
    while True:
        found = await scalar(url, sql)
        if (set(found) if isinstance(found, list) else found) == expected:
            return
        assert running.returncode is None
        await asyncio.sleep(0.2)
