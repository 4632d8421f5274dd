"""What the lens and the duty ask uses its indexes: on seeded rows, under generic plans as in use."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from store.tables import load
from tests.support import factories
from tests.support.duties import execute
from tests.support.plans import Seeded, most_rows, planned, scans
from tests.support.seeding import seed

FACTS, PURGING = load("facts"), load("purging")
LATE, EARLY, NIL = datetime(9999, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), UUID(int=0)
A_RUN = 200
SEED = """
INSERT INTO facts (scope_id, run_uid, fact, fact_uid, type, action, exchange, at, body)
SELECT r.scope_id, r.run_uid, 'f-' || n, ('01000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
    (ARRAY['stage', 'occurrence', 'surface', 'coverage', 'delivery'])[1 + n % 5],
    CASE WHEN n % 5 = 0 OR n % 10 = 1 THEN 'a-' || n % 20 END, CASE WHEN n % 5 IN (1, 2) THEN 'x-' || n END, now(), '{}'
FROM runs r, generate_series(1, 200) AS n;
INSERT INTO fact_runs (scope_id, run_uid, kept, ends_at)
SELECT r.scope_id, r.run_uid, 200, now() + row_number() OVER () * interval '1 minute' FROM runs r;
ANALYZE facts, fact_runs;
"""

GAPS = """
INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, exchange, attempt, kind, first_at, last_at)
SELECT r.scope_id, r.run_uid, gen_random_uuid(), 'client', 'client_transport', 'g-' || n, 'a-1', 'logical-request',
    now(), now()
FROM runs r, generate_series(1, 200) AS n;
ANALYZE gaps;
"""


@pytest.fixture
async def seeded(database_url: str, keys_dir: Path) -> AsyncIterator[Seeded]:
    async with factories.house(database_url, keys_dir) as house:
        await seed(database_url, house.scope, 20_000)
        await execute(database_url, SEED)
        async with planned(database_url, house.scope) as connected:
            yield connected


async def run_of(seeded: Seeded) -> object:
    return await seeded.connection.fetchval("SELECT run_uid FROM runs WHERE run = 'run-7'")


async def reads(seeded: Seeded, query: str, index: str, most: int, *arguments: object) -> None:
    plan = await seeded.plan(FACTS[query], seeded.scope, *arguments)
    assert re.search(rf"(Scan (Backward )?using|Bitmap Index Scan on) {index}\b", plan), plan
    assert not scans(plan, ["facts"]), plan
    assert most_rows(plan) <= most, plan


async def test_whatever_the_lens_asks_reads_no_other_run(seeded: Seeded) -> None:
    run = await run_of(seeded)
    await reads(seeded, "actions", "facts_by_action", A_RUN, run, NIL, 51)
    await reads(seeded, "of_actions", "facts_by_action", A_RUN, run, ["a-0"])
    await reads(seeded, "unbound", "facts_by_type", A_RUN, run)
    await reads(seeded, "counts", r"facts_\w+", A_RUN, run, None)
    await reads(seeded, "counts", r"facts_\w+", A_RUN, run, "a-0")


async def test_a_page_of_facts_reads_no_more_than_it_shows(seeded: Seeded) -> None:
    run = await run_of(seeded)
    await reads(seeded, "of_type", "facts_by_type", 11, run, "surface", NIL, None, None, 11)


async def test_which_attempts_have_a_page_is_looked_up_one_by_one(seeded: Seeded) -> None:
    exchange, attempt = await seeded.connection.fetchrow(
        "SELECT exchange, attempt FROM parts WHERE run_uid = $1 LIMIT 1", run := await run_of(seeded)
    )
    asked = [exchange, exchange, "never"], [attempt, None, attempt]
    await execute(seeded.url, GAPS)
    plan = await seeded.plan(FACTS["met"], seeded.scope, run, *asked)
    for index in ("attempts_pkey", "parts_identity_once", "gaps_named_once"):
        keyed = r"Index Cond: \(.*exchange = w\.exchange.*attempt >= COALESCE.*attempt <= COALESCE"
        assert re.search(rf"using {index} on .*\n.*{keyed}", plan), plan
    assert most_rows(plan) <= len(asked[0]), plan
    rows = await seeded.connection.fetch(FACTS["met"], seeded.scope, run, *asked)
    assert [tuple(row) for row in rows] == [(exchange, attempt), (exchange, None)]


async def test_which_facts_are_over_is_found_without_looking_at_those_that_are_not(seeded: Seeded) -> None:
    plan = await seeded.plan(FACTS["over"], seeded.scope, datetime.now(UTC), EARLY, NIL, 50)
    assert "fact_runs_by_end" in plan, plan
    assert most_rows(plan) <= 1, plan
    plan = await seeded.plan(FACTS["over"], seeded.scope, LATE, EARLY, NIL, 50)
    assert most_rows(plan) <= 50, plan
    # Nor at those that were met before.
    ends_at, run = await seeded.connection.fetchrow(
        "SELECT ends_at, run_uid FROM fact_runs ORDER BY ends_at DESC, run_uid DESC OFFSET 4"
    )
    plan = await seeded.plan(FACTS["over"], seeded.scope, LATE, ends_at, run, 50)
    assert most_rows(plan) == 4, plan
    assert "Rows Removed by Filter" not in plan, plan
    # Two hundred runs fit into a few pages, which a planner rightly reads whole: make the index the cheaper way.
    await seeded.connection.execute("SET enable_seqscan = off")
    plan = await seeded.plan(PURGING["scopes_due"], EARLY)
    assert "fact_runs_by_end" in plan, plan


async def test_a_scope_that_is_held_as_a_whole_is_asked_about_none_of_its_runs(seeded: Seeded) -> None:
    await execute(
        seeded.url,
        "INSERT INTO holds (scope_id, hold_id, reach, answer, placed_by) VALUES ($1, $2, 'scope', 'placed', 'op')",
        seeded.scope,
        NIL,
    )
    plan = await seeded.plan(FACTS["over"], seeded.scope, LATE, EARLY, NIL, 50)
    assert re.search(r"on fact_runs f \(never executed\)", plan), plan


async def test_of_each_run_its_own_holds_are_looked_up_and_no_others(seeded: Seeded) -> None:
    await execute(
        seeded.url,
        "INSERT INTO holds (scope_id, hold_id, reach, run_uid, answer, placed_by)"
        " SELECT r.scope_id, gen_random_uuid(), 'run', r.run_uid, 'placed', 'op' FROM runs r WHERE r.run <> 'run-7'",
    )
    plan = await seeded.plan(FACTS["over"], seeded.scope, LATE, EARLY, NIL, 50)
    assert re.search(r"holds_live on holds h.*\n.*run_uid = f\.run_uid", plan), plan
    rows = await seeded.connection.fetch(FACTS["over"], seeded.scope, LATE, EARLY, NIL, 50)
    assert [row["run_uid"] for row in rows] == [await run_of(seeded)]
