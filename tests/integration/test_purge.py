import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
import redis.asyncio

from policies.limits import DEFAULT_RUN_LIMITS, DEFAULT_SCOPE_LIMITS, ShardLimits
from store import ids
from store.commitments import Identity
from store.db import SERVICE_ROLE, Database
from store.errors import NotFound, Unavailable
from store.keyring import Keyring
from store.queue import PartFrame, Queue, RunKey
from store.services import acknowledging, marks
from store.services.buckets import ensure_buckets, when_unlocked
from store.services.erasures import Erasures, Named, StoredPart, WholeRun
from store.services.purge import Purge
from store.tables import erasures as table
from store.tables import log_queue, purging, runs, tombstones
from tests.support.duties import (
    execute,
    leaves,
    new_parts,
    new_run,
    new_scope,
    scalar,
)
from tests.support.logs import heard
from tests.support.publication import publish_at_once

DAY = 86_400


@pytest.fixture(autouse=True)
async def published(database_url: str) -> None:
    """Nothing here waits for the proof log but what says so."""
    await publish_at_once(database_url)


@pytest.fixture
def purge(database: Database, keyring: Keyring, queue: Queue) -> Purge:
    return Purge(database, keyring, queue)


@pytest.fixture
async def erasures(database_url: str, keyring: Keyring, queue: Queue) -> AsyncIterator[Erasures]:
    database = await Database.open(database_url, role=SERVICE_ROLE, size=4)
    yield Erasures(database, keyring, queue)
    await database.close()


@pytest.fixture
async def scope(database: Database, keyring: Keyring, database_url: str) -> UUID:
    made = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=DAY)
    return made


async def _run(
    url: str, scope: UUID, *, ends: timedelta = timedelta(days=1), name: str | None = None
) -> UUID:
    return await new_run(url, scope, retain_until=datetime.now(UTC) + ends, run=name)


async def _states(url: str) -> dict[str, int]:
    text = await scalar(
        url,
        "SELECT json_object_agg(state, n)::text FROM (SELECT state, count(*) n FROM parts GROUP BY state) AS s",
    )
    return json.loads(text) if text else {}


# --- erasures


async def test_a_part_is_closed_at_once_and_destroyed_by_the_duty(
    scope: UUID, purge: Purge, erasures: Erasures, keyring: Keyring, database_url: str
) -> None:
    run = await _run(database_url, scope, name="r-1")
    evidence, other = await new_parts(database_url, scope, run, 2)

    asked = await erasures.ask(scope, StoredPart(evidence), "op")

    assert (asked.state, asked.target_kind, asked.run, asked.evidence) == ("purging", "part", "r-1", evidence)
    assert await _states(database_url) == {"purging": 1, "stored": 1}
    (leaf,) = await leaves(database_url)
    assert (leaf["k"], leaf["p"], leaf["w"], leaf["of"]) == ("purge", evidence.hex, "erased", None)
    key = keyring.token_key("lookup")
    assert (
        await scalar(
            database_url,
            "SELECT reason FROM tombstones WHERE mark = $1",
            marks.evidence_mark(key, scope, evidence),
        )
        == "erased"
    )
    exchange = await scalar(database_url, "SELECT exchange FROM parts WHERE evidence = $1", evidence)
    identity = Identity(scope, "r-1", exchange, "a", "logical-request")
    assert (
        await scalar(
            database_url, "SELECT reason FROM tombstones WHERE mark = $1", marks.identity_mark(key, identity)
        )
        == "erased"
    )

    assert await purge.due()
    counts = await purge.run()

    assert (counts["bodies"], counts["purged"]) == (1, 1)
    assert await _states(database_url) == {"purged": 1, "stored": 1}
    assert await scalar(database_url, "SELECT array_agg(evidence) FROM bodies") == [other]
    done = await erasures.one(scope, asked.erasure_id)
    assert done.state == "purged"
    assert done.purged_at is not None
    assert not await purge.due()
    assert await scalar(database_url, "SELECT array_agg(action) FROM operator_actions") == ["erasure_asked"]


async def test_twice_is_the_same_erasure_and_unknown_is_not_found(
    scope: UUID, purge: Purge, erasures: Erasures, database_url: str
) -> None:
    run = await _run(database_url, scope, name="r-1")
    (evidence,) = await new_parts(database_url, scope, run)
    first = await erasures.ask(scope, StoredPart(evidence), "op")

    assert (await erasures.ask(scope, StoredPart(evidence), "op")).erasure_id == first.erasure_id
    await purge.run()
    again = await erasures.ask(scope, StoredPart(evidence), "op")
    assert (again.erasure_id, again.state) == (first.erasure_id, "purged")
    assert len(await leaves(database_url)) == 1

    other = await new_scope(database_url)
    for asked in (StoredPart(uuid4()), WholeRun("nope"), Named("r-1", "x", "a", "logical-request")):
        with pytest.raises(NotFound):
            await erasures.ask(scope, asked, "op")
    with pytest.raises(NotFound):
        await erasures.ask(other, StoredPart(evidence), "op")
    with pytest.raises(NotFound):
        await erasures.one(other, first.erasure_id)


async def test_two_who_ask_at_once_get_the_same_erasure(
    scope: UUID, erasures: Erasures, database_url: str
) -> None:
    run = await _run(database_url, scope, name="r-1")
    await new_parts(database_url, scope, run, 3)

    asked = await asyncio.gather(*(erasures.ask(scope, WholeRun("r-1"), "op") for _ in range(4)))

    assert len({each.erasure_id for each in asked}) == 1


async def test_a_run_is_erased_whole_and_for_every_guard(
    scope: UUID, purge: Purge, erasures: Erasures, queue: Queue, database_url: str
) -> None:
    run = await _run(database_url, scope, name="r-1")
    await new_parts(database_url, scope, run, 5)
    await _open(queue, scope, "r-1", run)

    asked = await erasures.ask(scope, WholeRun("r-1"), "op")

    assert asked.state == "accepted"
    assert await scalar(database_url, "SELECT erased FROM runs WHERE run_uid = $1", run)
    view = await queue.run_view(RunKey(scope, "r-1"))
    assert view is not None
    assert view.state == "erased"
    await purge.run()
    assert await _states(database_url) == {"purged": 5}
    assert await scalar(database_url, "SELECT count(*) FROM bodies") == 0
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"


async def test_no_sum_tells_how_long_an_erased_part_was(
    scope: UUID, purge: Purge, erasures: Erasures, queue: Queue, redis_url: str, database_url: str
) -> None:
    run = await _run(database_url, scope, name="r-1")
    evidence, _ = await new_parts(database_url, scope, run, 2)
    await _open(queue, scope, "r-1", run)
    key = f"custody:{{q0}}:run:{scope.hex}:r-1"
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        assert await client.exists(key)
        await erasures.ask(scope, StoredPart(evidence), "op")
        await purge.run()
        assert not await client.exists(key)


async def test_what_still_waits_gets_its_mark_first_and_is_answered_once_it_is_settled(
    scope: UUID,
    purge: Purge,
    erasures: Erasures,
    queue: Queue,
    keyring: Keyring,
    database_url: str,
    redis_url: str,
) -> None:
    run = await _run(database_url, scope, name="r-1")
    await _open(queue, scope, "r-1", run)
    evidence = await _append(queue, scope, "r-1", "x")

    asked = await erasures.ask(scope, Named("r-1", "x", "a", "logical-request"), "op")

    assert (asked.evidence, asked.state) == (evidence, "purging")
    mark = marks.identity_mark(
        keyring.token_key("lookup"), Identity(scope, "r-1", "x", "a", "logical-request")
    )
    assert await scalar(database_url, "SELECT count(*) FROM tombstones WHERE mark = $1", mark) == 1
    await purge.run()
    assert (await erasures.one(scope, asked.erasure_id)).state == "purging"

    await _drain(redis_url)
    await purge.run()
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"


async def test_what_waits_of_another_run_keeps_no_erasure_from_being_answered(
    scope: UUID, purge: Purge, erasures: Erasures, queue: Queue, database_url: str
) -> None:
    run, stuck = (
        await _run(database_url, scope, name="r-1"),
        await _run(database_url, scope, name="r-stuck"),
    )
    (evidence,) = await new_parts(database_url, scope, run)
    await _open(queue, scope, "r-stuck", stuck)
    await _append(queue, scope, "r-stuck", "x")

    part = await erasures.ask(scope, StoredPart(evidence), "op")
    whole = await erasures.ask(scope, WholeRun("r-stuck"), "op")
    await purge.run()

    assert (await erasures.one(scope, part.erasure_id)).state == "purged"
    assert (await erasures.one(scope, whole.erasure_id)).waits_for == "queue"


async def test_while_redis_is_away_nothing_is_answered_as_purged(
    scope: UUID, database: Database, keyring: Keyring, erasures: Erasures, database_url: str
) -> None:
    run = await _run(database_url, scope, name="r-1")
    (evidence,) = await new_parts(database_url, scope, run)
    asked = await erasures.ask(scope, StoredPart(evidence), "op")
    away = Queue("redis://127.0.0.1:1", shards=1, shard_limits=ShardLimits())
    try:
        with pytest.raises(Unavailable):
            await Purge(database, keyring, away).run()
    finally:
        await away.close()

    assert await _states(database_url) == {"purging": 1}
    assert await scalar(database_url, "SELECT count(*) FROM bodies") == 0
    assert (await erasures.one(scope, asked.erasure_id)).state == "purging"


async def test_the_list_of_erasures_goes_from_the_newest_on(
    scope: UUID, erasures: Erasures, database_url: str
) -> None:
    run = await _run(database_url, scope, name="r-1")
    parts = await new_parts(database_url, scope, run, 5)
    asked = [(await erasures.ask(scope, StoredPart(each), "op")).erasure_id for each in parts]

    first = await erasures.page(scope, None, 2)
    second = await erasures.page(scope, first.next_id, 2)
    third = await erasures.page(scope, second.next_id, 2)

    assert [row.erasure_id for page in (first, second, third) for row in page.rows] == asked[::-1]
    assert third.next_id is None


# --- what is due by itself


async def test_a_shortened_run_goes_part_by_part_and_an_ordinary_one_waits_for_its_bucket(
    scope: UUID, purge: Purge, database_url: str
) -> None:
    now = datetime.now(UTC)
    ordinary = await new_run(database_url, scope, retain_until=now - timedelta(seconds=1))
    await new_parts(database_url, scope, ordinary, 2, instant=now)
    shortened = await _run(database_url, scope, ends=timedelta(days=2), name="shortened")
    await new_parts(database_url, scope, shortened, 3)
    await _shorten(purge.database, scope, "shortened", now - timedelta(seconds=1))

    counts = await purge.run()

    assert counts["expired"] == 3
    assert await _states(database_url) == {"purged": 3, "stored": 2}
    assert {leaf["w"] for leaf in await leaves(database_url)} == {"retention_expired"}
    assert (
        await scalar(database_url, "SELECT count(*) FROM tombstones WHERE reason = 'retention_expired'") == 6
    )


async def test_a_shortened_run_is_looked_at_until_nothing_of_it_can_come(
    scope: UUID, purge: Purge, database_url: str
) -> None:
    ends = {
        "long-ago": timedelta(minutes=-11),
        "just-now": timedelta(minutes=-9),
        "later": timedelta(hours=1),
    }
    for name, end in ends.items():
        await new_parts(
            database_url, scope, await _run(database_url, scope, ends=timedelta(days=2), name=name)
        )
        await _shorten(purge.database, scope, name, datetime.now(UTC) + end)

    await purge.run()

    looked_at = "SELECT array_agg(run ORDER BY run) FROM runs WHERE destroy_from IS NOT NULL"
    assert await _states(database_url) == {"purged": 2, "stored": 1}
    assert await scalar(database_url, looked_at) == ["just-now", "later"]


async def _shorten(database: Database, scope: UUID, run: str, until: datetime) -> None:
    async with database.transaction() as connection:
        row = await runs.lock(connection, scope, run)
        assert row is not None
        shorter = replace(row, standing=replace(row.standing, retain_until=until))
        await runs.narrow(connection, scope, shorter, narrowed=True)


async def _source(url: str, scope: UUID, name: str, versions: int = 1) -> bytes:
    await execute(
        url,
        "INSERT INTO sources (scope_id, source, source_uid, latest) VALUES ($1, $2, $3, $4)",
        scope,
        name,
        uuid4(),
        versions,
    )
    for version in range(1, versions + 1):
        await execute(
            url,
            "INSERT INTO source_versions (scope_id, source, version) VALUES ($1, $2, $3)",
            scope,
            name,
            version,
        )
    return name.encode()


async def _bound(url: str, scope: UUID, name: str, version: int | None) -> bytes:
    mark = f"{name};{version}".encode()
    await execute(
        url,
        "INSERT INTO source_sets (scope_id, set_id, sources, versions) VALUES ($1, $2, $3, $4)",
        scope,
        mark,
        [name],
        [version],
    )
    return mark


async def test_what_a_revocation_closed_goes_after_its_time_and_not_before(
    database: Database, keyring: Keyring, purge: Purge, database_url: str
) -> None:
    scope = await new_scope(database_url, policy={"destroy_after": "1h"})
    never = await new_scope(database_url, policy={"destroy_after": "never"})
    await ensure_buckets(database, keyring, span_s=DAY)
    for each in (scope, never):
        await _source(database_url, each, "doc", 2)
        run = await _run(database_url, each)
        for version in (1, 2, None):
            mark = await _bound(database_url, each, "doc", version)
            await new_parts(database_url, each, run, 1, source_set=mark)
        await new_parts(database_url, each, run, 1)
    await execute(database_url, "UPDATE sources SET revoked_at = now() - interval '59 minutes'")
    assert (await purge.run())["revoked"] == 0

    await execute(database_url, "UPDATE sources SET revoked_at = now() - interval '61 minutes'")
    assert (await purge.run())["revoked"] == 3

    assert await scalar(
        database_url, "SELECT array_agg(DISTINCT purge_reason) FROM parts WHERE state = 'purged'"
    ) == ["source_unavailable"]
    assert (
        await scalar(
            database_url, "SELECT count(*) FROM parts WHERE scope_id = $1 AND state = 'stored'", never
        )
        == 4
    )
    destroyed = "SELECT destroyed FROM sources WHERE scope_id = $1"
    assert await scalar(database_url, destroyed, scope)
    assert not await scalar(database_url, destroyed, never)


async def test_a_revocation_leaves_alone_what_went_with_its_bucket(
    database: Database, keyring: Keyring, purge: Purge, database_url: str
) -> None:
    scope = await new_scope(database_url, policy={"destroy_after": "1h"})
    await ensure_buckets(database, keyring, span_s=DAY)
    await _source(database_url, scope, "doc", 1)
    mark = await _bound(database_url, scope, "doc", 1)
    for days in (1, 2):
        run = await _run(database_url, scope, ends=timedelta(days=days))
        await new_parts(database_url, scope, run, 1, source_set=mark)
    await execute(
        database_url,
        "UPDATE buckets SET state = 'expired' WHERE span_start = (SELECT min(span_start) FROM parts)",
    )
    await execute(database_url, "UPDATE sources SET revoked_at = now() - interval '2 hours'")

    assert (await purge.run())["revoked"] == 1
    assert await _states(database_url) == {"purged": 1, "stored": 1}
    assert await scalar(database_url, "SELECT destroyed FROM sources")


async def test_a_withdrawn_version_takes_what_is_bound_to_it_alone(
    database: Database, keyring: Keyring, purge: Purge, database_url: str
) -> None:
    scope = await new_scope(database_url, policy={"destroy_after": "1h"})
    await ensure_buckets(database, keyring, span_s=DAY)
    await _source(database_url, scope, "doc", 2)
    run = await _run(database_url, scope)
    for version in (1, 2, None):
        mark = await _bound(database_url, scope, "doc", version)
        await new_parts(database_url, scope, run, 1, source_set=mark)
    await execute(
        database_url, "UPDATE source_versions SET withdrawn_at = now() - interval '2 hours' WHERE version = 1"
    )

    assert (await purge.run())["revoked"] == 1
    assert (await purge.run())["revoked"] == 0
    assert {leaf["w"] for leaf in await leaves(database_url)} == {"dependency_changed"}
    assert await scalar(database_url, "SELECT destroyed FROM source_versions WHERE version = 1")


async def test_a_source_that_is_restored_just_in_time_keeps_its_parts(
    database: Database, keyring: Keyring, purge: Purge, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = await new_scope(database_url, policy={"destroy_after": "1h"})
    await ensure_buckets(database, keyring, span_s=DAY)
    await _source(database_url, scope, "doc")
    run = await _run(database_url, scope)
    await new_parts(database_url, scope, run, 2, source_set=await _bound(database_url, scope, "doc", 1))
    await execute(database_url, "UPDATE sources SET revoked_at = now() - interval '2 hours'")
    select = purging.of_source

    async def restored_meanwhile(connection, closed, limit, *, held=False):
        found = await select(connection, closed, limit, held=held)
        await execute(database_url, "UPDATE sources SET revoked_at = NULL")
        return found

    monkeypatch.setattr(purging, "of_source", restored_meanwhile)
    assert (await purge.run())["revoked"] == 0
    assert await _states(database_url) == {"stored": 2}


async def test_a_clock_that_jumps_ahead_lets_a_span_s_worth_a_minute_go_and_erasures_at_once(
    scope: UUID, purge: Purge, erasures: Erasures, database_url: str
) -> None:
    run = await _run(database_url, scope, ends=timedelta(days=2), name="r-1")
    _, erased = await new_parts(database_url, scope, run, 2)
    await execute(
        database_url,
        "UPDATE runs SET retain_until = now() - interval '1 hour', destroy_from = now() - interval '1 hour'",
    )
    # Seen from the duty, the clock was three days behind a moment ago.
    await execute(
        database_url,
        "INSERT INTO leases (duty, seen_at, paced_at)"
        " SELECT 'purge', now() - interval '3 days', now() - interval '3 days'",
    )
    await erasures.ask(scope, StoredPart(erased), "op")
    gone = []
    with heard() as log:
        for _ in range(4):
            gone.append((await purge.run())["expired"])
            # Within the minute no more goes.
            assert (await purge.run())["expired"] == 0
            await execute(database_url, "UPDATE leases SET paced_at = paced_at - interval '1 minute'")
    assert gone == [0, 0, 1, 0]
    assert "clock_ahead" in log.getvalue()
    assert await _states(database_url) == {"purged": 2}
    await execute(database_url, "UPDATE leases SET seen_at = now() + interval '1 hour'")
    assert (await purge.run())["clock_back"] == 1


# --- crashes and company


STEPS = [
    "mark", "leave", "copy", "delete_bodies", "reclaim_space", "rewrite_file", "set_destroyed_parts", "set_cleared",
    "done", "settle",
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
async def test_a_crash_at_any_step_leaves_it_refused_and_is_continued(
    step: str,
    scope: UUID,
    purge: Purge,
    erasures: Erasures,
    queue: Queue,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await _run(database_url, scope, name="r-1")
    await new_parts(database_url, scope, run, 3)
    asked = await erasures.ask(scope, WholeRun("r-1"), "op")

    async def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    places = {
        "leave": tombstones,
        "copy": log_queue,
        "reclaim_space": acknowledging,
        "rewrite_file": queue,
        "set_cleared": table,
        "settle": table,
    }
    with monkeypatch.context() as patch:
        patch.setattr(places.get(step, purging), step, crash)
        with pytest.raises(ZeroDivisionError):
            await purge.run()
    assert await scalar(database_url, "SELECT erased FROM runs")
    assert (await erasures.one(scope, asked.erasure_id)).state == "purging"
    in_t1 = step in ("mark", "leave", "copy")
    assert len(await leaves(database_url)) == (0 if in_t1 else 3)

    await Purge(purge.database, purge.keyring, queue).run()

    assert await _states(database_url) == {"purged": 3}
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"
    assert len(await leaves(database_url)) == 3
    assert await scalar(database_url, "SELECT count(*) FROM bodies") == 0


async def test_several_purgers_share_the_work(
    database: Database, keyring: Keyring, queue: Queue, scope: UUID, erasures: Erasures, database_url: str
) -> None:
    for number in range(6):
        run = await _run(database_url, scope, name=f"r-{number}")
        await new_parts(database_url, scope, run, 50)
        await erasures.ask(scope, WholeRun(f"r-{number}"), "op")

    counts = await asyncio.gather(*(Purge(database, keyring, queue).run() for _ in range(3)))
    await Purge(database, keyring, queue).run()

    assert sum(each["erased"] for each in counts) == 300
    assert await _states(database_url) == {"purged": 300}
    assert len(await leaves(database_url)) == 300


async def test_deleted_bytes_are_in_no_file_of_the_partition(
    scope: UUID, purge: Purge, erasures: Erasures, database_url: str
) -> None:
    evidence, other = await new_parts(database_url, scope, await _run(database_url, scope), 2)
    await erasures.ask(scope, StoredPart(evidence), "op")
    await purge.run()

    file = await _file(database_url)
    assert evidence.bytes[-4:] * 15 not in file
    assert other.bytes[-4:] * 15 in file


async def test_while_deleted_bytes_are_in_a_file_nothing_is_answered_as_purged(
    scope: UUID, purge: Purge, erasures: Erasures, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (evidence,) = await new_parts(database_url, scope, await _run(database_url, scope))
    asked = await erasures.ask(scope, StoredPart(evidence), "op")
    monkeypatch.setattr(when_unlocked.__module__ + "._LOCK_TRIES", 2)
    backup = await asyncpg.connect(database_url)
    async with backup.transaction():
        await backup.execute("LOCK TABLE bodies IN ACCESS SHARE MODE")
        await purge.run()
        assert await _states(database_url) == {"purging": 1}
        assert (await erasures.one(scope, asked.erasure_id)).state == "purging"
    await backup.close()

    await purge.run()
    assert await _states(database_url) == {"purged": 1}
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"
    assert evidence.bytes[-4:] * 15 not in await _file(database_url)


async def test_what_another_purger_deleted_and_left_is_in_no_file_either(
    scope: UUID, purge: Purge, erasures: Erasures, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (evidence,) = await new_parts(database_url, scope, await _run(database_url, scope))
    follower = Purge(purge.database, purge.keyring, purge.queue)
    await follower.run()
    await erasures.ask(scope, StoredPart(evidence), "op")

    async def crash(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(acknowledging, "reclaim_space", crash)
        with pytest.raises(ZeroDivisionError):
            await purge.run()

    await follower.run()
    assert await _states(database_url) == {"purged": 1}
    assert evidence.bytes[-4:] * 15 not in await _file(database_url)


async def _file(url: str) -> bytes:
    """The bytes of the partition of bodies, as they are on the disk."""
    await execute(url, "CHECKPOINT")
    file = await scalar(
        url,
        "SELECT pg_relation_filepath(('spans.bodies_' || extract(epoch FROM span_start)::bigint)::regclass)"
        " FROM parts LIMIT 1",
    )
    content: bytes = await scalar(url, "SELECT pg_read_binary_file($1)", file)
    return content


async def _open(queue: Queue, scope: UUID, run: str, run_uid: UUID) -> None:
    await queue.open_run(
        RunKey(scope, run),
        run_uid=run_uid,
        state="open",
        policy_version=1,
        retain_until=datetime.now(UTC) + timedelta(days=1),
        temporary=False,
        run_limits=DEFAULT_RUN_LIMITS,
        scope_limits=DEFAULT_SCOPE_LIMITS,
    )


async def _append(queue: Queue, scope: UUID, run: str, exchange: str) -> UUID:
    evidence = ids.new_evidence_id()
    frame = PartFrame(
        RunKey(scope, run), exchange, "a", "logical-request", evidence, b"h", b"sealed", 5, bytes(8), bytes(8)
    )
    (answer,) = await queue.append([frame])
    assert answer.outcome == "queued"
    return evidence


async def _drain(redis_url: str) -> None:
    """Take out everything that waits, as if a writer had refused it."""
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        await client.delete("custody:{q0}:entries")


async def test_scopes_take_turns_and_the_next_run_begins_where_the_last_one_came_to(
    scope: UUID,
    purge: Purge,
    erasures: Erasures,
    keyring: Keyring,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scopes = sorted([scope, await new_scope(database_url), await new_scope(database_url)])
    await ensure_buckets(purge.database, keyring, span_s=DAY)
    for each in scopes:
        await new_parts(database_url, each, await _run(database_url, each, name="r-1"), 3)
        await erasures.ask(each, WholeRun("r-1"), "op")
    # One turn of one scope is all that there is time for, and a batch is one part.
    monkeypatch.setattr("store.services.purge._BUDGET_S", 0.0)
    monkeypatch.setattr("store.services.purge._TARGETS", 1)

    gone = []
    for _ in range(4):
        counts = await purge.run()
        assert (counts["erased"], counts["bodies"], counts["purged"]) == (1, 1, 1)
        gone.append(
            [
                await scalar(
                    database_url,
                    "SELECT count(*) FROM parts WHERE scope_id = $1 AND state = 'purged'",
                    each,
                )
                for each in scopes
            ]
        )

    assert gone == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]]


async def test_much_that_is_to_be_destroyed_keeps_nothing_from_being_answered(
    scope: UUID, purge: Purge, erasures: Erasures, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (evidence,) = await new_parts(database_url, scope, await _run(database_url, scope, name="r-1"))
    await new_parts(database_url, scope, await _run(database_url, scope, name="r-much"), 50)
    asked = await erasures.ask(scope, StoredPart(evidence), "op")
    await erasures.ask(scope, WholeRun("r-much"), "op")
    monkeypatch.setattr("store.services.purge._BUDGET_S", 0.0)
    monkeypatch.setattr("store.services.purge._TARGETS", 5)

    await purge.run()

    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"
    assert await _states(database_url) == {"purged": 6, "stored": 45}


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_run_of_very_many_parts_is_erased_and_answered_by_a_planner_that_knows_of_none(
    scope: UUID, purge: Purge, erasures: Erasures, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.services.purge._BUDGET_S", 20.0)
    run = await _run(database_url, scope, name="r-1")
    for _ in range(3):
        await new_parts(database_url, scope, run, 10_000)
    await execute(database_url, "ANALYZE")
    asked = await erasures.ask(scope, WholeRun("r-1"), "op")

    purged, rounds = 0, 0
    while purged < 30_000 and rounds < 10:
        more = (await purge.run())["purged"]
        # Whatever is left, each run answers for some.
        assert more
        purged, rounds = purged + more, rounds + 1

    assert await _states(database_url) == {"purged": 30_000}
    assert (await erasures.one(scope, asked.erasure_id)).state == "purged"
