import base64
import hmac
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis.asyncio

from policies.limits import DEFAULT_RUN_LIMITS, DEFAULT_SCOPE_LIMITS, ShardLimits
from store import ids
from store.commitments import close_bytes
from store.db import Database
from store.keyring import Keyring
from store.queue import PartFrame, Queue, RunKey
from store.services import verify_counts
from store.services.buckets import ensure_buckets
from store.services.reconcile import Reconcile
from store.tables.runs import DueRun
from tests.support import factories
from tests.support.duties import (
    execute,
    leaves,
    new_parts,
    new_run,
    new_scope,
    scalar,
)
from tests.support.logs import heard
from tests.support.writers import drained, writing

DAY = 86_400
CLOSING = "UPDATE runs SET state = 'closing', closing_at = now() - interval '31 seconds'"
SILENT = "UPDATE runs SET declared_at = now() - interval '25 hours'"


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    opened = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    await opened.ensure_epoch(0)
    yield opened
    await opened.close()


@pytest.fixture
def reconcile(database: Database, queue: Queue) -> Reconcile:
    return Reconcile(database, queue, timedelta(seconds=30), timedelta(days=1))


@pytest.fixture
async def scope(database: Database, keyring: Keyring, database_url: str) -> UUID:
    made = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    return made


async def _closing(url: str, scope: UUID, *, since_s: float, announced: dict[str, int | None]) -> UUID:
    run = await new_run(
        url, scope, retain_until=datetime.now(UTC) + timedelta(days=1), state="closing", run="r-1"
    )
    await execute(
        url, "UPDATE runs SET closing_at = now() - make_interval(secs => $2) WHERE run_uid = $1", run, since_s
    )
    for session, last in announced.items():
        await execute(
            url,
            "INSERT INTO sessions (scope_id, run_uid, session, announced) VALUES ($1, $2, $3, $4)",
            scope,
            run,
            session,
            last,
        )
    return run


async def _said_missing(
    url: str, scope: UUID, run: UUID, session: str, ranges: str, said_by: str, reason: str
) -> None:
    await execute(
        url,
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, first_at, last_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7::text::int8multirange, now(), now())",
        scope,
        run,
        ids.new_gap_id(),
        said_by,
        reason,
        session,
        ranges,
    )


async def test_what_of_one_to_n_has_no_record_is_unaccounted(
    scope: UUID, reconcile: Reconcile, database_url: str
) -> None:
    run = await _closing(database_url, scope, since_s=31, announced={"s-1": 10, "s-2": 2})
    await new_parts(database_url, scope, run, 3, session="s-1")
    await _said_missing(database_url, scope, run, "s-1", "{[4,6)}", "store", "capacity_exceeded")
    await _said_missing(database_url, scope, run, "s-1", "{[6,7)}", "client", "client_queue_full")

    assert await reconcile.due()
    counts = await reconcile.run()

    assert counts["closed"] == 1
    assert not await reconcile.due()
    rows = json.loads(
        await scalar(
            database_url,
            "SELECT json_object_agg(session, sequences::text)::text FROM gaps WHERE said_by = 'count'"
            " AND reason = 'unaccounted'",
        )
    )
    assert rows == {"s-1": "{[7,11)}", "s-2": "{[1,3)}"}
    assert await scalar(database_url, "SELECT state || never_closed::text FROM runs") == "closedfalse"
    opening = await scalar(database_url, "SELECT opening FROM closings")
    record = close_bytes(
        scope,
        "r-1",
        sessions={"s-1": 10, "s-2": 2},
        stored=3,
        not_captured={"capacity_exceeded": 2, "client_queue_full": 1},
        unaccounted=6,
    )
    assert record == await scalar(database_url, "SELECT record FROM closings")
    (leaf,) = await leaves(database_url)
    assert (leaf["k"], leaf["r"]) == ("close", run.hex)
    assert leaf["m"] == _b64(hmac.digest(opening, record, "sha256"))


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


async def test_a_closing_that_is_not_over_stays(scope: UUID, reconcile: Reconcile, database_url: str) -> None:
    await _closing(database_url, scope, since_s=20, announced={"s-1": 1})

    assert not await reconcile.due()
    assert (await reconcile.run())["closed"] == 0
    assert await scalar(database_url, "SELECT state FROM runs") == "closing"


async def test_nothing_is_closed_while_something_of_it_may_wait(
    scope: UUID, reconcile: Reconcile, queue: Queue, database_url: str, redis_url: str
) -> None:
    run = await _closing(database_url, scope, since_s=31, announced={"s-1": 1})
    await _open(queue, scope, run)
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await _waits_an_hour(client, RunKey(scope, "r-1"))
        assert (await reconcile.run())["closed"] == 0
        assert await scalar(database_url, "SELECT state FROM runs") == "closing"

        # That of another run keeps only that from being closed.
        await client.delete(f"custody:{{q0}}:scope:{scope.hex}")
        await _waits_an_hour(client, RunKey(scope, "r-2"))
        assert (await reconcile.run())["closed"] == 1
    assert await queue.run_view(RunKey(scope, "r-1")) is None


@pytest.mark.parametrize("never", [False, True])
async def test_what_comes_between_the_look_at_the_queue_and_the_word_to_it_is_accounted_for(
    database_url: str, keys_dir: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch, *, never: bool
) -> None:
    look, said = Reconcile._idle, list[str]()
    async with factories.house(database_url, keys_dir) as house:
        run = await house.declare(keep=timedelta(days=3))
        part = house.part(run, b"x", session="s", sequence=1)
        await house.execute(SILENT if never else CLOSING)
        reconcile = Reconcile(house.duties, queue, timedelta(seconds=30), timedelta(days=1))

        async def comes_after(self: Reconcile, scope: UUID, due: Sequence[DueRun]) -> list[DueRun]:
            found = await look(self, scope, due)
            if found:
                await factories.queue_up(queue, run, [part])
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Reconcile, "_idle", comes_after)
            first = await reconcile.run()
        told = await queue.run_view(RunKey(run.scope, run.run))
        async with writing(house, queue):
            await drained(queue)
        await house.execute("UPDATE runs SET closing_at = now() - interval '31 seconds'")
        second = await reconcile.run()

        assert (first["closed"], first["never_closed"], second["closed"]) == (0, 0, 1)
        assert told is not None
        assert told.state == "run_closed"
        assert await house.value("SELECT never_closed FROM runs") is never
        assert json.loads(await house.value("SELECT record FROM closings"))["counts"]["stored"] == 1
        assert await verify_counts.check(house.duties, lambda what, *_: said.append(what)) == 1
    assert said == []


async def _waits_an_hour(client: Any, key: RunKey) -> None:
    """An entry of an hour ago, as an id of the stream says it, and as the scope's hash counts it."""
    at_ms = int((datetime.now(UTC) - timedelta(hours=1)).timestamp() * 1000)
    name = f"{key.scope.hex}:{key.run}"
    await client.xadd("custody:{q0}:entries", {"v": "1", "n": name, "t": "gap"}, id=f"{at_ms}-*")
    await client.hincrby(f"custody:{{q0}}:scope:{key.scope.hex}", f"r:{key.run}", 1)


async def test_runs_of_which_something_waits_keep_nobody_behind_them_from_being_closed(
    scope: UUID, reconcile: Reconcile, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.services.reconcile._RUNS", 2)
    keep = datetime.now(UTC) + timedelta(days=1)
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        for number in range(5):
            await new_run(database_url, scope, retain_until=keep, state="closing", run=f"r-{number}")
            if number < 4:
                await _waits_an_hour(client, RunKey(scope, f"r-{number}"))
    await execute(
        database_url,
        "UPDATE runs SET closing_at = now() - make_interval(secs => 60 - right(run, 1)::integer)",
    )

    assert (await reconcile.run())["closed"] == 1
    assert await scalar(database_url, "SELECT run FROM runs WHERE state = 'closed'") == "r-4"


async def test_a_run_without_a_sign_for_long_was_never_closed(
    scope: UUID, reconcile: Reconcile, database_url: str, redis_url: str
) -> None:
    run = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(days=1), run="r-1")
    await new_parts(database_url, scope, run, 2, session="s-1")
    await execute(database_url, "UPDATE runs SET declared_at = now() - interval '25 hours'")
    assert (await reconcile.run())["never_closed"] == 0  # its parts are a sign

    await execute(database_url, "UPDATE parts SET stored_at = now() - interval '25 hours'")
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await _waits_an_hour(client, RunKey(scope, "r-1"))
        assert (await reconcile.run())["never_closed"] == 0  # so is what waits
        await client.delete(f"custody:{{q0}}:scope:{scope.hex}")
    assert (await reconcile.run())["never_closed"] == 1
    assert await scalar(database_url, "SELECT state || never_closed::text FROM runs") == "closedtrue"
    assert await scalar(database_url, "SELECT count(*) FROM gaps") == 0


async def test_a_lost_shard_is_noticed_once_and_known_by_its_new_epoch(
    reconcile: Reconcile, queue: Queue, database_url: str, redis_url: str
) -> None:
    assert (await reconcile.run())["lost_shards"] == 0
    first = await scalar(database_url, "SELECT epoch FROM queue_shards")
    assert first == await queue.ensure_epoch(0)

    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.flushdb()
    with heard() as log:
        assert (await reconcile.run())["lost_shards"] == 1
        assert (await reconcile.run())["lost_shards"] == 0

    assert "queue_lost" in log.getvalue()
    assert await scalar(database_url, "SELECT epoch FROM queue_shards") not in (first, None)
    assert await scalar(database_url, "SELECT lost_at IS NOT NULL FROM queue_shards")


async def test_reservations_without_entries_are_given_back(
    scope: UUID, reconcile: Reconcile, queue: Queue, database_url: str, redis_url: str
) -> None:
    run = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(days=1), run="r-1")
    await _open(queue, scope, run)
    frame = PartFrame(
        RunKey(scope, "r-1"),
        "x",
        "a",
        "logical-request",
        ids.new_evidence_id(),
        b"h",
        b"sealed",
        5,
        bytes(8),
        bytes(8),
    )
    (answer,) = await queue.append([frame])
    assert answer.outcome == "queued"
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.delete("custody:{q0}:entries")

    assert (await reconcile.run())["recounted"] > 0
    (depth,) = await queue.depth()
    assert (depth.parts, depth.bytes, depth.notes) == (0, 0, 0)
    assert (await reconcile.run())["recounted"] == 0


async def _open(queue: Queue, scope: UUID, run_uid: UUID) -> None:
    await queue.open_run(
        RunKey(scope, "r-1"), run_uid=run_uid, state="open", policy_version=1,
        retain_until=datetime.now(UTC) + timedelta(days=1), temporary=False, run_limits=DEFAULT_RUN_LIMITS,
        scope_limits=DEFAULT_SCOPE_LIMITS,
    )  # fmt: skip


async def test_many_are_closed_at_once_and_a_fault_is_said_when_the_others_have_ended(
    scope: UUID, reconcile: Reconcile, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        keep = datetime.now(UTC) + timedelta(days=1)
        await new_run(database_url, scope, retain_until=keep, state="closing", run=f"r-{number}")
    await execute(
        database_url,
        "UPDATE runs SET closing_at = now() - make_interval(secs => 60 - right(run, 1)::integer)",
    )
    close = Reconcile._close

    async def one_fails(self: Reconcile, of: UUID, due: DueRun, *, never: bool) -> bool:
        if due.run == "r-0":
            raise ZeroDivisionError
        return await close(self, of, due, never=never)

    closed = "SELECT count(*) FROM runs WHERE state = 'closed'"
    with monkeypatch.context() as patch:
        patch.setattr(Reconcile, "_close", one_fails)
        with pytest.raises(ZeroDivisionError):
            await reconcile.run()
    assert await scalar(database_url, closed) == 3

    assert (await reconcile.run())["closed"] == 6
    assert await scalar(database_url, closed) == 9
    assert len(await leaves(database_url)) == 9


async def test_runs_that_nobody_asked_about_for_hours_are_forgotten_once_a_minute(
    scope: UUID, reconcile: Reconcile, queue: Queue, database_url: str, redis_url: str
) -> None:
    key = RunKey(scope, "r-1")
    run = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(days=1), run="r-1")
    name = f"custody:{{q0}}:run:{scope.hex}:r-1"
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        for forgotten in (1, 0):
            await _open(queue, scope, run)
            value = await client.execute_command("DUMP", name)
            await client.execute_command("RESTORE", name, 0, value, "REPLACE", "IDLETIME", 7 * 3600)
            assert (await reconcile.run())["idle"] == forgotten
    assert await queue.run_view(key) is not None
