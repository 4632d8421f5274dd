"""What is known of a closed run later is committed to as well: at most once a day, and once at the end."""

import base64
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from store import ids
from store.commitments import close_commitment
from store.db import Database
from store.keyring import Keyring
from store.services import accounting, verify_counts
from store.services.accounting import Accounts
from store.services.buckets import ensure_buckets
from store.tables import completeness, runs
from tests.support.duties import execute, leaves, new_parts, new_run, new_scope, scalar
from tests.support.log_queue import rows


@pytest.fixture
async def run(database_url: str, database: Database) -> tuple[UUID, UUID]:
    """A run that announced ten and was closed three days ago with nothing recorded."""
    scope = await new_scope(database_url)
    run = await new_run(database_url, scope, retain_until=datetime.now(UTC) + timedelta(days=9), run="r-1")
    await execute(
        database_url,
        "INSERT INTO sessions (scope_id, run_uid, session, announced) VALUES ($1, $2, 's', 10)", scope, run,
    )  # fmt: skip
    async with database.transaction() as connection:
        row = await runs.lock(connection, scope, "r-1")
        assert row is not None
        await accounting.close(connection, scope, row, never=False)
    await set_back(database_url, days=3)
    return scope, run


async def set_back(url: str, *, days: float) -> None:
    """As if everything that happened had happened so much earlier."""
    await execute(url, "UPDATE closings SET closed_at = closed_at - make_interval(secs => $1)", days * 86_400)
    await execute(
        url,
        "UPDATE gaps SET first_at = first_at - make_interval(secs => $1),"
        " last_at = last_at - make_interval(secs => $1)",
        days * 86_400,
    )


async def gap_comes(url: str, run: tuple[UUID, UUID], number: int) -> None:
    await execute(
        url,
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, first_at, last_at)"
        " VALUES ($1, $2, $3, 'client', 'client_queue_full', 's', int8multirange(int8range($4, $4, '[]')), now(),"
        " now())"
        " ON CONFLICT (scope_id, run_uid, session, said_by, reason) WHERE exchange IS NULL"
        " DO UPDATE SET sequences = gaps.sequences + EXCLUDED.sequences, last_at = now()",
        *run, ids.new_gap_id(), number,
    )  # fmt: skip


async def counts(url: str) -> list[tuple[int, int]]:
    """What each closing said was unaccounted, and said by the client, oldest first; each has its leaf."""
    kept = await rows(url, "SELECT run_uid, opening, record FROM closings ORDER BY closed_at")
    made = [base64.b64encode(close_commitment(row["opening"], row["record"])).decode() for row in kept]
    assert [(leaf["m"], leaf["r"]) for leaf in await leaves(url)] == [
        (m, row["run_uid"].hex) for m, row in zip(made, kept, strict=True)
    ]
    found = [json.loads(row["record"])["counts"] for row in kept]
    return [(each["unaccounted"], each["not_captured"].get("client_queue_full", 0)) for each in found]


async def test_a_gap_that_comes_after_the_end_is_committed_to(
    database_url: str, database: Database, run: tuple[UUID, UUID]
) -> None:
    assert await Accounts(database).run() == {"again": 0}
    await gap_comes(database_url, run, 4)
    assert await Accounts(database).run() == {"again": 1}
    assert await Accounts(database).run() == {"again": 0}
    assert await counts(database_url) == [(10, 0), (9, 1)]


async def test_a_part_that_was_counted_as_missing_and_came_late_is_committed_to(
    database_url: str, database: Database, keyring: Keyring, run: tuple[UUID, UUID]
) -> None:
    said = list[str]()
    await ensure_buckets(database, keyring, span_s=86_400)
    await new_parts(database_url, *run, 1, session="s")
    assert await verify_counts.check(database, lambda what, *_: said.append(what)) == 0

    assert await Accounts(database).run() == {"again": 1}

    assert await Accounts(database).run() == {"again": 0}
    assert await counts(database_url) == [(10, 0), (9, 0)]
    assert await verify_counts.check(database, lambda what, *_: said.append(what)) == 1
    assert said == []


async def test_at_most_once_a_day_and_once_at_the_end(
    database_url: str, database: Database, run: tuple[UUID, UUID]
) -> None:
    await gap_comes(database_url, run, 4)
    assert await Accounts(database).run() == {"again": 1}
    await gap_comes(database_url, run, 5)
    assert await Accounts(database).run() == {"again": 0}
    await execute(database_url, "UPDATE runs SET retain_until = now()")
    assert await Accounts(database).run() == {"again": 1}
    assert await Accounts(database).run() == {"again": 0}
    assert await counts(database_url) == [(10, 0), (9, 1), (8, 2)]


async def test_a_day_later_it_is_its_turn(
    database_url: str, database: Database, run: tuple[UUID, UUID]
) -> None:
    await gap_comes(database_url, run, 4)
    await Accounts(database).run()
    await gap_comes(database_url, run, 5)
    await set_back(database_url, days=1)
    # It succeeded a moment ago, and looks back far enough all the same.
    await execute(database_url, "INSERT INTO leases (duty, last_success) VALUES ($1, now())", accounting.DUTY)
    assert await Accounts(database).run() == {"again": 1}
    assert await counts(database_url) == [(10, 0), (9, 1), (8, 2)]


async def test_what_was_said_again_says_nothing_new(
    database_url: str, database: Database, run: tuple[UUID, UUID]
) -> None:
    await gap_comes(database_url, run, 4)
    await Accounts(database).run()
    await set_back(database_url, days=2)
    await gap_comes(database_url, run, 4)
    assert await Accounts(database).run() == {"again": 0}
    assert await counts(database_url) == [(10, 0), (9, 1)]


async def test_many_runs_are_gone_through(
    database_url: str, database: Database, run: tuple[UUID, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "_RUNS", 2)
    for number in range(5):
        other = await new_run(
            database_url, run[0], retain_until=datetime.now(UTC) + timedelta(days=9), run=f"o-{number}"
        )
        await execute(
            database_url,
            "UPDATE runs SET state = 'closed', closed_at = now() - interval '2 days' WHERE run_uid = $1",
            other,
        )
        await gap_comes(database_url, (run[0], other), 1)
    assert await Accounts(database).run() == {"again": 5}
    assert await scalar(database_url, "SELECT count(*) FROM closings") == 6


async def test_what_there_was_no_time_for_is_begun_with_by_the_next_run(
    database_url: str, database: Database, run: tuple[UUID, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "_RUNS", 1)
    monkeypatch.setattr(accounting, "_BUDGET_S", 0.0)
    for number in range(3):
        other = await new_run(
            database_url, run[0], retain_until=datetime.now(UTC) + timedelta(days=9), run=f"o-{number}"
        )
        await execute(
            database_url,
            "UPDATE runs SET state = 'closed', closed_at = now() - interval '2 days' WHERE run_uid = $1",
            other,
        )
        await gap_comes(database_url, (run[0], other), 1)
    for _ in range(3):
        assert await Accounts(database).run() == {"again": 1}
        # Days later: how far was looked back stays until all was looked at.
        await execute(
            database_url,
            "UPDATE leases SET last_success = now() + interval '3 days' WHERE duty = $1",
            accounting.DUTY,
        )
    assert await scalar(database_url, "SELECT count(DISTINCT run_uid) FROM closings") == 4
    assert await scalar(database_url, "SELECT place IS NOT NULL FROM leases")
    assert await Accounts(database).run() == {"again": 0}
    assert await scalar(database_url, "SELECT place IS NULL FROM leases")


async def test_of_runs_that_ended_no_part_is_read_for_completeness_unless_more_was_told(
    database_url: str, database: Database, keyring: Keyring
) -> None:
    scope = await new_scope(database_url)
    await ensure_buckets(database, keyring, span_s=86_400)
    keep = datetime.now(UTC) + timedelta(days=1)
    uids = [
        await new_run(database_url, scope, retain_until=keep, run=f"r-{number}", state="closing")
        for number in range(2)
    ]
    ranges = (
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, merged, first_at, last_at)"
        " VALUES ($1, $2, gen_random_uuid(), $3, $4, 's-1', $5::text::int8multirange, $6,"
        " now() - interval '1 hour', now() - interval '1 hour')"
    )
    for uid in uids:
        await new_parts(database_url, scope, uid, 4, session="s-1")
        # 4 was refused and stored later; 6 was said by both sides; two more lost their numbers; one had none.
        await execute(database_url, ranges, scope, uid, "store", "capacity_exceeded", "{[4,7)}", 2)
        await execute(database_url, ranges, scope, uid, "client", "client_transport", "{[6,8)}", 0)
        await execute(
            database_url,
            "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, exchange, attempt, kind, first_at, last_at)"
            " VALUES ($1, $2, gen_random_uuid(), 'store', 'write_failed', 'x', 'a', 'logical-request',"
            " now() - interval '1 hour', now() - interval '1 hour')",
            scope,
            uid,
        )
        await execute(
            database_url,
            "INSERT INTO sessions (scope_id, run_uid, session, announced) VALUES ($1, $2, 's-1', 9)",
            scope,
            uid,
        )
    open_yet = await _days(database, scope)
    async with database.transaction() as connection:
        for number in range(2):
            row = await runs.lock(connection, scope, f"r-{number}")
            assert row is not None
            await accounting.close(connection, scope, row, never=False)

    ended = await _days(database, scope)

    told = {"capacity_exceeded": 8, "client_transport": 4, "write_failed": 2}
    assert open_yet == ((8, 12, told), True)
    assert ended == ((8, 16, {**told, "unaccounted": 4}), False)
    # More comes to be known of one: it is counted anew until it is accounted for again.
    await gap_comes(database_url, (scope, uids[0]), 9)
    await execute(database_url, "UPDATE gaps SET session = 's-1' WHERE session = 's'")
    later = await _days(database, scope)
    assert later == ((8, 16, {**told, "unaccounted": 4, "client_queue_full": 1}), True)
    await execute(database_url, "UPDATE runs SET counts = NULL")
    assert (await _days(database, scope))[0] == later[0]


async def _days(database: Database, scope: UUID) -> tuple[tuple[int, int, dict[str, int]], bool]:
    """What is stored and missing, and whether any part was read to tell."""
    read = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables WHERE relname = 'parts'"
    async with database.transaction() as connection:
        # What the connection did before may be among it.
        before = await connection.fetchval(read)
        (day,) = await completeness.days(connection, scope, datetime.now(UTC) - timedelta(days=2))
        after = await connection.fetchval(read)
    return (day.stored, day.missing, day.by_reason), after > before
