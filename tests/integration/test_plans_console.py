"""What the console's pages ask reads what it shows and little more: shown on a store with many of everything."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import pytest_asyncio

from store.tables import load
from tests.support import factories
from tests.support.databases import clone_of
from tests.support.duties import execute
from tests.support.plans import Seeded, most_rows, planned, scans
from tests.support.seeding import PARTS_A_RUN, seed

PARTS = 20_000
PAGE = 51
LISTS, MAPS, PAGES, EXPORTS = load("run_lists"), load("run_maps"), load("run_pages"), load("exports")
SESSIONS, KEYS, SOURCES = load("console_sessions"), load("api_keys"), load("sources")
HOLDS, ERASURES, ACTIONS, SCOPES = load("holds"), load("erasures"), load("operator_actions"), load("scopes")

LATE, EARLY, NIL = datetime(9999, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), UUID(int=0)
BEGIN = {"newest": (LATE, NIL, EARLY), "oldest": (EARLY, NIL, LATE)}
BIG = (
    "runs", "parts", "attempts", "bodies", "gaps", "exports", "console_sessions", "api_keys", "sources",
    "source_versions", "holds", "erasures",
)  # fmt: skip

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

# Beside the runs with parts: runs of this scope and of another, gaps in all, and much of whatever lists show.
_MORE = """
INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)
SELECT md5('scope' || i)::uuid, 'other-' || i, '{}', 34560000, 86400 FROM generate_series(0, 499) AS i;
INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key, policy_version,
    declared_at)
SELECT CASE WHEN i % 2 = 0 THEN s.scope_id ELSE md5('scope0')::uuid END, md5('more' || i)::uuid, 'more-' || i, 'normal',
    'allow', true, '{}', now() + interval '1 day', 'key', 1, now() - i * interval '1 minute'
FROM scopes s, generate_series(0, 19999) AS i WHERE s.name LIKE 's-%';
INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, exchange, attempt, kind, first_at, last_at)
SELECT r.scope_id, r.run_uid, gen_random_uuid(), 'client', 'client_transport', 'x' || i, 'a1', 'logical-request',
    now() - interval '30 days', now() - interval '30 days'
FROM runs r, generate_series(0, 4) AS i;
UPDATE runs SET state = 'closed', closed_at = now(), counts = '{"stored": 100}', counted_at = now();
INSERT INTO sources (scope_id, source, source_uid, latest)
SELECT CASE WHEN i % 2 = 0 THEN s.scope_id ELSE md5('scope0')::uuid END, 'source-' || i, gen_random_uuid(), 3
FROM scopes s, generate_series(0, 9999) AS i WHERE s.name LIKE 's-%';
INSERT INTO source_versions (scope_id, source, version)
SELECT f.scope_id, f.source, v FROM sources f, generate_series(1, 3) AS v;
INSERT INTO source_versions (scope_id, source, version)
SELECT f.scope_id, f.source, v FROM sources f, generate_series(4, 3000) AS v WHERE f.source = 'source-0';
INSERT INTO holds (scope_id, hold_id, reach, run_uid, reason, answer, placed_by)
SELECT r.scope_id, gen_random_uuid(), 'run', r.run_uid, 'case', 'placed', 'key' FROM runs r WHERE r.run LIKE 'more-%';
INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, requested_by)
SELECT r.scope_id, gen_random_uuid(), 'run', r.run_uid, 'key' FROM runs r WHERE r.run LIKE 'more-%';
INSERT INTO operator_actions (scope_id, at, action_id, key_id, action, target)
SELECT s.scope_id, now() - i * interval '1 s', gen_random_uuid(), 'key', 'key_created', 'key'
FROM scopes s, generate_series(0, 9999) AS i WHERE s.name IN ('other-0', 'other-1') OR s.name LIKE 's-%';
INSERT INTO api_keys (key_id, scope_id, role, digests, created_by, expires_at, created_at, confirmed_at)
SELECT 'key-' || i, md5('scope' || i % 500)::uuid, 'reviewer', ARRAY[sha256('x')], 'key', now() + interval '1 day',
    now() - i * interval '1 s', CASE WHEN i % 400 > 0 THEN now() END
FROM generate_series(0, 19999) AS i;
INSERT INTO console_sessions (digest, key_id, ends_at)
SELECT sha256(convert_to('session' || i, 'UTF8')), 'key-' || i % 2000, now() + interval '1 hour'
FROM generate_series(0, 9999) AS i;
INSERT INTO exports (scope_id, export_id, requested_by, evidence, runs, anchors, tree_size, requested_at)
SELECT s.scope_id, gen_random_uuid(), 'key-' || i % 400, '{}', '{}', '{}', 1, now() - i * interval '3 s'
FROM scopes s, generate_series(0, 19999) AS i WHERE s.name LIKE 's-%';
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeded(
    postgres_url: str, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Seeded]:
    keys = tmp_path_factory.mktemp("plans") / "keys"
    keys.mkdir(mode=0o700)
    async with clone_of(postgres_url, template_database) as url, factories.house(url, keys) as house:
        await seed(url, house.scope, PARTS)
        await execute(url, _MORE)
        await execute(url, "VACUUM ANALYZE")
        async with planned(url, house.scope) as opened:
            yield opened


async def run_of(seeded: Seeded) -> UUID:
    found: UUID = await seeded.connection.fetchval("SELECT run_uid FROM runs WHERE run = 'run-7'")
    return found


async def test_a_page_of_runs_reads_that_page_by_their_index_and_looks_into_each_once(seeded: Seeded):
    for order, begin in BEGIN.items():
        for inside in (False, True):
            plan = await seeded.plan(LISTS[f"listed_{order}"], seeded.scope, *begin, PAGE, inside)
            assert "runs_by_declared" in plan, plan
            assert not re.search(r"^(Limit\n)?\s*(->)?\s*Sort", plan), plan
            assert not scans(plan, BIG), plan
            # What is inside: one part says that there are some; of gaps there are five a run here.
            assert most_rows(plan) <= PAGE * 5, plan


async def test_a_page_of_runs_in_the_middle_reads_no_more_than_the_first(seeded: Seeded):
    middle = await seeded.connection.fetchrow(
        "SELECT declared_at, run_uid FROM runs WHERE scope_id = $1 ORDER BY declared_at OFFSET 5000 LIMIT 1",
        seeded.scope,
    )
    for order, (_, _, bound) in BEGIN.items():
        plan = await seeded.plan(LISTS[f"listed_{order}"], seeded.scope, *middle, bound, PAGE, False)
        assert most_rows(plan) <= PAGE, plan
        assert "Rows Removed by Filter" not in plan, plan


async def test_counts_of_listed_runs_are_taken_from_their_rows(seeded: Seeded):
    rows = await seeded.connection.fetch(
        "SELECT run_uid FROM runs WHERE scope_id = $1 LIMIT 50", seeded.scope
    )
    plan = await seeded.plan(LISTS["counted"], seeded.scope, [row["run_uid"] for row in rows])
    assert "runs_pkey" in plan, plan
    assert not scans(plan, BIG), plan
    assert most_rows(plan) <= len(rows) * 5, plan


async def test_suggestions_are_found_by_what_they_begin_with(seeded: Seeded):
    for text in ("more-1", "run-", "nothing"):
        plan = await seeded.plan(LISTS["beginning_with"], seeded.scope, text, 8)
        assert "runs_once" in plan, plan
        assert "Sort" not in plan, plan
        assert most_rows(plan) <= 8, plan


async def test_the_page_of_a_run_reads_that_run_only(seeded: Seeded):
    run = await run_of(seeded)
    cut = (datetime.now(UTC) - timedelta(days=1), timedelta(seconds=10), 60)
    asked = {
        "head": (),
        "page_oldest": (EARLY, NIL, PAGE),
        "page_newest": (LATE, NIL, PAGE),
        "groups": cut,
        "missed_groups": cut,
    }
    for name, more in asked.items():
        plan = await seeded.plan(MAPS[name], seeded.scope, run, *more)
        assert not scans(plan, BIG), (name, plan)
        # Its parts, its attempts, its gaps.
        assert most_rows(plan) <= PARTS_A_RUN * 1.5 + 5, (name, plan)
    for name in ("numbered_parts", "range_gaps", "counted_gaps"):
        plan = await seeded.plan(PAGES[name], seeded.scope, run)
        assert not scans(plan, BIG), (name, plan)
        assert most_rows(plan) <= PARTS_A_RUN, (name, plan)


async def test_the_page_of_an_exchange_reads_that_exchange_only(seeded: Seeded):
    run = await run_of(seeded)
    for name, begin in (("of_exchange_oldest", (EARLY, NIL)), ("of_exchange_newest", (LATE, NIL))):
        plan = await seeded.plan(MAPS[name], seeded.scope, run, *begin, PAGE, "x7")
        assert "attempts_pkey" in plan, plan
        assert "parts_identity_once" in plan, plan
        assert not scans(plan, BIG), plan
        assert most_rows(plan) <= 3, plan
    for attempt in ("a1", None):
        plan = await seeded.plan(PAGES["attempt_of_exchange"], seeded.scope, "run-7", "x7", attempt)
        assert "attempts_pkey" in plan, plan
        assert "parts_identity_once" in plan, plan
        assert not scans(plan, BIG), plan
        assert most_rows(plan) <= 3, plan


async def test_attempts_of_a_page_are_filled_in_by_their_names(seeded: Seeded):
    run = await run_of(seeded)
    exchanges = [f"x{number}" for number in range(40)]
    for name, index in (("told", "attempts_pkey"), ("part_keys", "parts_"), ("missed", "gaps_")):
        plan = await seeded.plan(MAPS[name], seeded.scope, run, exchanges, ["a1"] * 40)
        assert re.search(rf"using {index}", plan), plan
        assert not scans(plan, BIG), plan
        assert most_rows(plan) <= PARTS_A_RUN, plan


async def test_exports_of_a_key_are_found_among_those_of_everybody(seeded: Seeded):
    for key, most in (("key-7", 50), ("nobody", 0)):
        plan = await seeded.plan(EXPORTS["of_key"], seeded.scope, key, 86_400.0, 50, 10.0)
        assert "exports_by_key" in plan, plan
        assert most_rows(plan) <= most, plan
        assert "Rows Removed by Filter" not in plan, plan
    export = await seeded.connection.fetchval("SELECT export_id FROM exports LIMIT 1")
    for name, more in (("standing", [10.0]), ("get", [])):
        plan = await seeded.plan(EXPORTS[name], seeded.scope, export, "key-7", 86_400.0, *more)
        assert "exports_pkey" in plan, plan


async def test_a_session_is_found_by_its_digest_and_those_of_a_key_by_the_key(seeded: Seeded):
    digest = await seeded.connection.fetchval("SELECT digest FROM console_sessions LIMIT 1")
    plan = await seeded.plan(SESSIONS["live"], digest, 3600.0)
    assert "console_sessions_pkey" in plan, plan
    plan = await seeded.plan(SESSIONS["count_of_key"], "key-7", 3600.0)
    assert "console_sessions_by_key" in plan, plan
    assert most_rows(plan) <= 5, plan
    for name, asked in (("touch", digest), ("remove", digest), ("remove_of_key", "key-7")):
        transaction = seeded.connection.transaction()
        await transaction.start()
        plan = await seeded.plan(SESSIONS[name], asked)
        await transaction.rollback()
        assert not scans(plan, BIG), plan


async def test_lists_of_the_desk_read_their_page(seeded: Seeded):
    sources = await seeded.plan(SOURCES["page"], seeded.scope, "", PAGE)
    versions = await seeded.plan(SOURCES["versions_newest"], seeded.scope, "source-0", 2**31 - 1, PAGE)
    for plan, index in ((sources, "sources_pkey"), (versions, "source_versions_pkey")):
        assert index in plan, plan
        assert "Sort" not in plan, plan
        assert most_rows(plan) <= PAGE, plan
    for statements, index in ((HOLDS, "holds_pkey"), (ERASURES, "erasures_pkey")):
        plan = await seeded.plan(statements["latest"], seeded.scope, UUID(int=2**128 - 1), PAGE)
        assert index in plan, plan
        assert "Sort" not in plan, plan
        assert not scans(plan, BIG), plan
        assert most_rows(plan) <= PAGE, plan
    for order, begin in BEGIN.items():
        plan = await seeded.plan(ACTIONS[order], seeded.scope, *begin, PAGE)
        assert not re.search(r"Seq Scan on operator_actions_\d+_\d+ .*rows=[1-9]", plan), plan
        assert most_rows(plan) <= PAGE, plan
    scope = await seeded.connection.fetchval("SELECT scope_id FROM scopes WHERE name = 'other-7'")
    plan = await seeded.plan(KEYS["page_of_scope"], scope, None, PAGE)
    assert "api_keys_by_scope" in plan, plan
    assert not scans(plan, BIG), plan
    assert most_rows(plan) <= PAGE, plan


async def test_keys_that_wait_are_found_among_all_that_there_are(seeded: Seeded):
    for scope in (
        None,
        await seeded.connection.fetchval("SELECT scope_id FROM scopes WHERE name = 'other-7'"),
    ):
        plan = await seeded.plan(KEYS["waiting"], scope, 16)
        assert "api_keys_waiting" in plan, plan
        assert most_rows(plan) <= 50, plan
