"""Metadata that is kept no longer: what goes, what stays, and that no table was forgotten."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import asyncpg
import pytest

from policies.reasons import Reason
from store.commitments import Identity
from store.db import DUTIES_ROLE, SERVICE_ROLE, Database
from store.errors import RowRefused
from store.keyring import Keyring
from store.services import marks
from store.services.buckets import ensure_buckets
from store.services.forgetting import Forgetting
from store.services.holds import Holds, OnPart, OnRun, OnScope
from store.services.housekeeping import Months
from store.tables import forgetting, tombstones
from store.tables.forgetting import DueRun
from tests.integration.test_schema import listed_callers
from tests.support.duties import execute, new_parts, new_run, new_scope, scalar

CANARY: Final = "CANARY7f3a"
# How what callers wrote goes, for every table that may hold some; a new one must be put in here.
GOES: Final = {
    "accesses": "with its month",
    "attempts": "with its run",
    "closings": "with its run",
    "console_sessions": "a day after it ended",
    "exports": "with the duty that ends them",
    "facts": "with the duty that ends them, or else with its run",
    "gaps": "with its run",
    "parts": "with its run",
    "runs": "with its run",
    "sessions": "with its run",
    "source_sets": "once nobody uses it",
}
FILL = (
    "UPDATE runs SET labels = ARRAY['a=' || $1], default_set = 'set', subject = 'subject'",
    "UPDATE parts SET exchange = $1 || right(evidence::text, 6), attempt = $1, session = $1, source_set = 'set'",
    "INSERT INTO sessions (scope_id, run_uid, session) SELECT scope_id, run_uid, $1 FROM runs",
    "INSERT INTO attempts (scope_id, run_uid, exchange, attempt) SELECT scope_id, run_uid, $1, $1 FROM runs",
    (
        "WITH kept AS (INSERT INTO fact_runs (scope_id, run_uid, kept, ends_at)"
        " SELECT scope_id, run_uid, 1, now() FROM runs)"
        " INSERT INTO facts (scope_id, run_uid, fact, fact_uid, type, action, exchange, at, body) SELECT scope_id,"
        " run_uid, $1, gen_random_uuid(), 'stage', $1, $1, now(), convert_to($1, 'UTF8') FROM runs"
    ),
    (
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, exchange, attempt, kind, session, first_at,"
        " last_at) SELECT scope_id, run_uid, gen_random_uuid(), 'store', 'write_failed', $1, $1, 'logical-request',"
        " $1, now(), now() FROM runs"
    ),
    (
        "INSERT INTO closings (scope_id, run_uid, closed_at, opening, record)"
        " SELECT scope_id, run_uid, now(), sha256(''), convert_to($1, 'UTF8') FROM runs"
    ),
    (
        "INSERT INTO source_sets (scope_id, set_id, sources, versions, put_at)"
        " SELECT scope_id, 'set', ARRAY[$1], '{NULL}', now() - interval '2 hours' FROM scopes"
    ),
    (
        "INSERT INTO holds (scope_id, hold_id, reach, reason, answer, placed_by, released_at, ended_at)"
        " SELECT scope_id, gen_random_uuid(), 'scope', $1, 'placed', 'op', now() - interval '3 days',"
        " now() - interval '2 days' FROM scopes"
    ),
    (
        "INSERT INTO accesses (scope_id, at, access_id, key_id, role, evidence, purpose, outcome)"
        " SELECT scope_id, '2020-01-15', gen_random_uuid(), 'k', 'reviewer', gen_random_uuid(), $1, 'read' FROM scopes"
    ),
    (
        "WITH key AS (INSERT INTO api_keys (key_id, role, digests, created_by, expires_at)"
        " VALUES ('k', 'operator', '{x}', 'op', now()) RETURNING key_id)"
        " INSERT INTO console_sessions (digest, key_id, purpose, ends_at)"
        " SELECT '', key_id, $1, now() - interval '25 hours' FROM key"
    ),
)
KEPT_BY_ALL = (
    "parts", "runs", "attempts", "sessions", "holds", "erasures", "closings", "source_sets", "tombstones", "buckets",
    "facts", "fact_runs",
)  # fmt: skip
TEXTS = """
SELECT class.oid::regclass::text FROM pg_class AS class
WHERE class.relkind IN ('r', 'p') AND NOT class.relispartition AND class.relnamespace = 'public'::regnamespace
"""


@pytest.fixture
def duty(database: Database, keyring: Keyring) -> Forgetting:
    return Forgetting(database, keyring)


@pytest.fixture
async def scope(database: Database, keyring: Keyring, database_url: str) -> UUID:
    made = await new_scope(database_url)
    await execute(database_url, "UPDATE scopes SET metadata_retention_s = 86400")
    await ensure_buckets(database, keyring, span_s=86_400)
    return made


async def _over(url: str, scope: UUID, run: str = f"run-{CANARY}", parts: int = 3) -> tuple[UUID, list[UUID]]:
    """A run that was closed two days ago, whose bucket is gone."""
    now = datetime.now(UTC)
    uid = await new_run(url, scope, retain_until=now + timedelta(hours=1), run=run)
    evidence = await new_parts(url, scope, uid, parts, session="s-1") if parts else []
    await execute(
        url,
        "UPDATE runs SET state = 'closed', closed_at = now() - interval '2 days',"
        " retain_until = now() - interval '2 days' WHERE run_uid = $1",
        uid,
    )
    await execute(url, "DELETE FROM bodies WHERE evidence = ANY($1)", evidence)
    await execute(
        url,
        "UPDATE buckets SET state = 'destroyed' WHERE bucket_id IN (SELECT bucket_id FROM parts WHERE run_uid = $1)",
        uid,
    )
    return uid, evidence


async def _dump(url: str) -> dict[str, str]:
    """Everything that is in the database, as text."""
    connection = await asyncpg.connect(url)
    try:
        names = [row[0] for row in await connection.fetch(TEXTS)]
        return {
            name: "\n".join(
                row[0] + "\n" + row[1]
                for row in await connection.fetch(
                    f"SELECT t::text, encode(convert_to(t::text, 'UTF8'), 'escape') FROM {name} AS t"  # noqa: S608 - names of tables
                )
            )
            for name in names
        }
    finally:
        await connection.close()


def test_how_each_column_goes_that_may_hold_what_callers_wrote_is_said() -> None:
    assert {table for table, _ in listed_callers()} == set(GOES)


async def test_nothing_that_a_caller_wrote_is_left_and_every_identity_stays_taken(
    scope: UUID, duty: Forgetting, database: Database, keyring: Keyring, database_url: str
) -> None:
    run, evidence = await _over(database_url, scope)
    connection = await asyncpg.connect(database_url)
    await connection.execute("SELECT ensure_month('2020-01-15')")
    for statement in FILL:
        await connection.execute(statement, CANARY)
    await connection.close()
    identities = [
        Identity(scope, f"run-{CANARY}", f"{CANARY}{str(each)[-6:]}", CANARY, "logical-request")
        for each in evidence
    ]
    hidden = CANARY.encode().hex()
    before = await _dump(database_url)
    found = {table for table, text in before.items() if CANARY in text or hidden in text}
    assert found == set(GOES) - {"exports"} | {"holds"}

    counts = await duty.run()
    await Months(database, timedelta(minutes=30)).run()

    assert counts == {"runs": 1, "reasons": 1, "sets": 1}
    after = await _dump(database_url)
    assert {table for table, text in after.items() if CANARY in text or hidden in text} == set()
    assert await scalar(database_url, "SELECT count(*) FROM runs") == 0
    key = keyring.token_key("lookup")
    wanted = [(scope, marks.identity_mark(key, each)) for each in identities]
    wanted += [(scope, marks.evidence_mark(key, scope, each)) for each in (*evidence, run)]
    async with database.connection() as opened:
        assert await tombstones.found(opened, wanted) == dict.fromkeys(wanted, Reason.RETENTION_EXPIRED)
    assert await duty.run() == {"runs": 0, "reasons": 0, "sets": 0}


async def test_what_was_erased_stays_known_as_erased(
    scope: UUID, duty: Forgetting, database: Database, keyring: Keyring, database_url: str
) -> None:
    _, (erased, expired) = await _over(database_url, scope, parts=2)
    await execute(
        database_url,
        "UPDATE parts SET state = 'purging', purge_reason = 'erased' WHERE evidence = $1",
        erased,
    )
    assert (await duty.run())["runs"] == 0
    await execute(database_url, "UPDATE parts SET state = 'purged' WHERE evidence = $1", erased)
    assert (await duty.run())["runs"] == 1
    key = keyring.token_key("lookup")
    wanted = [(scope, marks.evidence_mark(key, scope, each)) for each in (erased, expired)]
    async with database.connection() as opened:
        found = await tombstones.found(opened, wanted)
    assert [found[mark] for mark in wanted] == [Reason.ERASED, Reason.RETENTION_EXPIRED]


@pytest.mark.parametrize(
    "kept",
    [
        "UPDATE runs SET closed_at = now() - interval '23 hours'",
        "UPDATE scopes SET metadata_retention_s = 3 * 86400",
        "UPDATE parts SET state = 'purging', purge_reason = 'erased' WHERE exchange LIKE 'x1-%'",
        (
            "INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, requested_by)"
            " SELECT scope_id, gen_random_uuid(), 'run', run_uid, 'op' FROM runs"
        ),
    ],
)
async def test_what_is_still_kept_is_refused_by_the_database_whoever_asks(
    kept: str, scope: UUID, duty: Forgetting, database: Database, database_url: str
) -> None:
    run, evidence = await _over(database_url, scope)
    await execute(database_url, kept)
    assert (await duty.run())["runs"] == 0
    due = DueRun(scope, run, "")
    with pytest.raises(RowRefused):
        async with database.transaction() as connection:
            await forgetting.forget_parts(connection, due, evidence)
    with pytest.raises(RowRefused):
        async with database.transaction() as connection:
            await forgetting.forget_run(connection, due)
    assert await scalar(database_url, "SELECT count(*) FROM parts") == 3


@pytest.mark.parametrize("reach", ["part", "run", "scope"])
async def test_what_is_held_is_not_forgotten(
    reach: str, scope: UUID, duty: Forgetting, database_url: str
) -> None:
    _, (evidence, *_) = await _over(database_url, scope)
    service = await Database.open(database_url, role=SERVICE_ROLE, size=1)
    try:
        on = {"part": OnPart(evidence), "run": OnRun(f"run-{CANARY}"), "scope": OnScope()}
        await Holds(service).place(scope, on[reach], "m", "op")  # type: ignore[arg-type] # one of them
    finally:
        await service.close()
    assert (await duty.run())["runs"] == 0
    await execute(database_url, "UPDATE holds SET released_at = now(), ended_at = now()")
    assert (await duty.run())["runs"] == 1


async def test_many_parts_go_a_few_at_a_time_and_a_crash_between_is_continued(
    scope: UUID, duty: Forgetting, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _over(database_url, scope, parts=5)
    monkeypatch.setattr("store.services.forgetting._PARTS", 2)
    real, calls = forgetting.forget_parts, 0

    async def crash(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ZeroDivisionError
        return await real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(forgetting, "forget_parts", crash)
    with pytest.raises(ZeroDivisionError):
        await duty.run()
    assert await scalar(database_url, "SELECT count(*) FROM parts") == 3
    assert (await duty.run())["runs"] == 1
    assert await scalar(database_url, "SELECT count(*) FROM parts") == 0


async def test_a_set_that_somebody_puts_or_used_lately_stays(
    scope: UUID, duty: Forgetting, database: Database, database_url: str
) -> None:
    put = (
        "INSERT INTO source_sets (scope_id, set_id, sources, versions, put_at)"
        " VALUES ($1, $2, '{doc}', '{NULL}', now() - make_interval(mins => $3))"
    )
    await execute(database_url, put, scope, b"old", 61)
    await execute(database_url, put, scope, b"lately", 59)
    await execute(database_url, put, scope, b"used", 61)
    uid = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(hours=1))
    await new_parts(database_url, scope, uid, 1, source_set=b"used")
    writer = await asyncpg.connect(database_url)
    try:
        async with writer.transaction():
            await writer.execute("UPDATE source_sets SET put_at = now() WHERE set_id = 'old'")
            assert (await duty.run())["sets"] == 0
    finally:
        await writer.close()
    assert (await duty.run())["sets"] == 0
    await execute(
        database_url, "UPDATE source_sets SET put_at = now() - interval '2 hours' WHERE set_id = 'old'"
    )
    assert (await duty.run())["sets"] == 1
    assert await scalar(database_url, "SELECT array_agg(set_id ORDER BY set_id) FROM source_sets") == [
        b"lately",
        b"used",
    ]


async def test_however_many_sets_there_are_some_are_looked_at_and_no_part_is_read_for_them(
    scope: UUID, duty: Forgetting, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.services.forgetting._SETS_AT_ONCE", 2)
    other = await new_scope(database_url)
    await ensure_buckets(database, duty.keyring, span_s=86_400)
    uid = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(hours=1))
    await new_parts(database_url, scope, uid, 300, source_set=b"0")
    for of in (scope, other):
        await execute(
            database_url,
            "INSERT INTO source_sets (scope_id, set_id, sources, versions, put_at)"
            " SELECT $1, convert_to(n::text, 'UTF8'), '{doc}', '{NULL}', now() - interval '2 hours'"
            " FROM generate_series(0, 2) AS n",
            of,
        )
    await execute(database_url, "ANALYZE parts")

    assert [(await duty.run())["sets"] for _ in range(5)] == [1, 2, 2, 0, 0]
    assert await scalar(database_url, "SELECT array_agg(set_id) FROM source_sets") == [b"0"]

    # A set that nobody uses is not looked for in all parts, though nearly all of them use another one.
    await execute(
        database_url,
        "INSERT INTO source_sets SELECT scope_id, 'x', sources, versions, put_at FROM source_sets",
    )
    read = "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables WHERE relname = 'parts'"
    async with database.transaction() as connection:
        # What the connection did before may be among it.
        before = await connection.fetchval(read)
        gone = await forgetting.forget_source_sets(connection, scope, b"", 10)
        after = await connection.fetchval(read)
    assert (gone, after) == ((1, 2, b"x"), before)


async def test_a_clock_that_jumps_ahead_makes_nobody_forget_everything_at_once(
    scope: UUID, duty: Forgetting, database_url: str
) -> None:
    assert (await duty.run())["runs"] == 0
    await _over(database_url, scope)
    # Seen from the duty, the clock was three days behind a moment ago.
    await execute(
        database_url,
        "UPDATE leases SET seen_at = now() - interval '3 days', paced_at = now() - interval '3 days'",
    )
    runs = []
    for _ in range(4):
        runs.append((await duty.run())["runs"])
        await execute(database_url, "UPDATE leases SET paced_at = paced_at - interval '1 minute'")
    assert runs == [0, 1, 0, 0]
    await execute(database_url, "UPDATE leases SET seen_at = now() + interval '1 hour'")
    assert await duty.run() == {"clock_back": 1}


@pytest.mark.parametrize("role", [SERVICE_ROLE, DUTIES_ROLE])
async def test_neither_role_deletes_rows_by_itself(role: str, database_url: str) -> None:
    connection = await asyncpg.connect(database_url, server_settings={"role": role})
    try:
        for table in KEPT_BY_ALL:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a test's own names
        if role == SERVICE_ROLE:
            for function in ("forget_run", "end_facts"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(f"SELECT {function}(gen_random_uuid(), gen_random_uuid())")
    finally:
        await connection.close()
