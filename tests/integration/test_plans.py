"""The hot queries use their index: shown on seeded rows, for every filter set that is offered and both orders."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from store.tables import load
from store.tables.pages import MOST_RUNS, OFFERED
from tests.support import factories
from tests.support.duties import execute
from tests.support.plans import Seeded, most_rows, planned
from tests.support.plans import scans as whole_reads
from tests.support.seeding import seed

PARTS = 20_000
PAGES, CONTENTS, RUNS, ACCESSES = load("pages"), load("contents"), load("run_pages"), load("accesses")
PURGING, BATCH, HELD = load("purging"), load("batch"), load("held_bodies")
CLOSINGS = load("closings")

LATE, EARLY, NIL = datetime(9999, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), UUID(int=0)
BEGIN = {"newest": (LATE, NIL, EARLY), "oldest": (EARLY, NIL, LATE)}
# Runs, buckets and sets of sources are few here: a planner rightly reads them whole.
BIG = ("parts", "attempts", "bodies", "gaps")

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def seeded(database_url: str, keys_dir: Path) -> AsyncIterator[Seeded]:
    async with factories.house(database_url, keys_dir) as house:
        await seed(database_url, house.scope, PARTS)
        async with planned(database_url, house.scope) as opened:
            yield opened


def scans(plan: str) -> list[str]:
    """Every whole read of a table that grows with the number of parts."""
    return whole_reads(plan, BIG)


async def test_every_offered_filter_set_finds_its_keys_by_the_index_that_it_names(seeded):
    runs = [row["run_uid"] for row in await seeded.connection.fetch("SELECT run_uid FROM runs LIMIT 8")]
    more = {"parts": (), "run_parts": ("run-7",), "runs_parts": (runs,)}
    for query, index in sorted({(each.query, each.index) for each in OFFERED}):
        for order, begin in BEGIN.items():
            plan = await seeded.plan(PAGES[f"{query}_{order}"], seeded.scope, *begin, 51, *more[query])
            assert re.search(rf"Index (Only )?Scan (Backward )?using {index} on parts", plan), plan
            assert not scans(plan), plan
            # Of one run or the whole scope, the index's order is the page's; of some runs, their first few are merged.
            assert ("Sort" in plan) == (query == "runs_parts"), plan
            assert most_rows(plan) <= (51 * len(runs) if query == "runs_parts" else 51), plan


async def test_a_page_in_the_middle_reads_no_more_than_one_at_the_start(seeded):
    middle = await seeded.connection.fetchrow(
        "SELECT stored_at, evidence FROM parts ORDER BY stored_at OFFSET 10000 LIMIT 1"
    )
    for order, (_, _, bound) in BEGIN.items():
        plan = await seeded.plan(PAGES[f"parts_{order}"], seeded.scope, *middle, bound, 51)
        assert most_rows(plan) <= 51, plan
        assert "Rows Removed by Filter" not in plan, plan


async def test_facts_are_looked_up_by_key_and_only_in_the_partitions_of_their_spans(seeded):
    keys = await seeded.connection.fetch(
        "SELECT evidence, span_start FROM parts ORDER BY stored_at DESC LIMIT 200"
    )
    evidence, span = [key["evidence"] for key in keys], keys[0]["span_start"]
    for some in (evidence, evidence[:1]):
        plan = await seeded.plan(PAGES["facts"], seeded.scope, some, span, span)
        assert "parts_pkey on parts" in plan, plan
        assert not scans(plan), plan
        assert "Subplans Removed" in plan, plan
        assert len(re.findall(r"Scan.* on bodies_\d+", plan)) == 1, plan


async def test_one_part_s_bytes_are_looked_up_in_one_partition(seeded):
    row = await seeded.connection.fetchrow("SELECT evidence, span_start FROM parts LIMIT 1")
    plan = await seeded.plan(CONTENTS["parts"], [seeded.scope], [row["evidence"]])
    assert "parts_pkey on parts" in plan, plan
    assert "bodies" not in plan, plan
    assert not scans(plan), plan
    plan = await seeded.plan(CONTENTS["bodies"], row["span_start"], [seeded.scope], [row["evidence"]])
    assert "Subplans Removed" in plan, plan
    assert len(re.findall(r"Index Scan using bodies_\d+_pkey", plan)) == 1, plan


async def test_one_part_is_found_by_evidence_and_by_identity(seeded):
    evidence = await seeded.connection.fetchval("SELECT evidence FROM parts LIMIT 1")
    plan = await seeded.plan(PAGES["key_of_evidence"], seeded.scope, evidence)
    assert "parts_pkey" in plan, plan
    plan = await seeded.plan(PAGES["key_of_identity"], seeded.scope, "run-7", "x1", "a1", "logical-request")
    assert "runs_once" in plan, plan
    assert re.search("parts_identity_once|parts_by_run", plan), plan
    assert not scans(plan), plan


async def test_runs_are_paged_by_their_index_and_labels_found_by_theirs(seeded):
    # Two hundred runs fit into a few pages, which a planner rightly reads whole: make the index the cheaper way.
    await seeded.connection.execute("SET enable_seqscan = off")
    for order, begin in BEGIN.items():
        plan = await seeded.plan(RUNS[f"runs_{order}"], seeded.scope, *begin, 51)
        assert "runs_by_declared" in plan, plan
        assert "Sort" not in plan, plan
        assert most_rows(plan) <= 51, plan
    plan = await seeded.plan(PAGES["runs_of_label"], seeded.scope, "rare=3", MOST_RUNS + 1)
    assert "runs_by_label_in_scope" in plan, plan


async def test_a_label_that_only_another_scope_uses_costs_nothing(seeded):
    other = await seeded.connection.fetchval(
        "INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)"
        " SELECT gen_random_uuid(), 'other', policy, metadata_retention_s, retention_max_s FROM scopes LIMIT 1"
        " RETURNING scope_id"
    )
    await seeded.connection.execute(
        "INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, owner_key,"
        " policy_version, labels)"
        " SELECT $1, gen_random_uuid(), 'r-' || i, 'normal', 'allow', true, '{}', now(), 'key', 1, '{team=theirs}'"
        " FROM generate_series(1, 5000) i",
        other,
    )
    await execute(seeded.url, "ANALYZE runs")
    plan = await seeded.plan(PAGES["runs_of_label"], seeded.scope, "team=theirs", MOST_RUNS + 1)
    assert most_rows(plan) == 0, plan
    assert "Rows Removed" not in plan, plan


async def test_attempts_are_found_by_reference(seeded):
    ref = await seeded.connection.fetchval("SELECT refs[1] FROM attempts LIMIT 1")
    plan = await seeded.plan(RUNS["attempts_by_ref"], seeded.scope, ref, EARLY, NIL, 51)
    assert "attempts_by_ref" in plan, plan
    assert not scans(plan), plan


async def test_a_run_s_own_view_reads_that_run_only(seeded):
    run_uid = await seeded.connection.fetchval("SELECT run_uid FROM runs WHERE run = 'run-7'")
    for name, more in (("numbered_parts", ()), ("parts_of_run", (1025,)), ("attempts_of_run", (257,))):
        plan = await seeded.plan(RUNS[name], seeded.scope, run_uid, *more)
        assert not scans(plan), plan
        assert most_rows(plan) <= 100, plan


async def test_a_writer_looks_once_for_marks_and_for_gaps_however_many_there_are(seeded):
    await execute(
        seeded.url,
        "INSERT INTO tombstones (scope_id, mark, reason) SELECT s.scope_id, sha256(i::text::bytea), 'erased'"
        " FROM scopes s, generate_series(1, 20000) i;"
        " INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, exchange, attempt, kind, first_at, last_at)"
        " SELECT r.scope_id, r.run_uid, gen_random_uuid(), 'store', 'write_failed', 'x' || i, 'a', 'logical-request',"
        " now(), now() FROM runs r, generate_series(1, 100) i;"
        " ANALYZE tombstones, gaps",
    )
    runs = [row["run_uid"] for row in await seeded.connection.fetch("SELECT run_uid FROM runs LIMIT 8")]
    for query, arguments in (("scope_demands", ([seeded.scope],)), ("gapped", ([seeded.scope] * 8, runs))):
        plan = await seeded.plan(BATCH[query], *arguments)
        assert not re.search("Seq Scan on (tombstones|gaps)", plan), plan
        assert most_rows(plan) <= len(arguments[-1]), plan


async def test_the_purge_looks_at_few_parts_of_the_first_runs_that_were_shortened(seeded):
    await execute(
        seeded.url,
        "UPDATE runs SET retain_until = now() - interval '30 days', narrowed_at = now(),"
        " destroy_from = CASE WHEN run LIKE '%7' THEN now() - interval '1 minute' END",
    )
    plan = await seeded.plan(PURGING["of_shortened_runs"], seeded.scope, 50, datetime.now(UTC))
    assert "runs_shortened_in_scope" in plan, plan
    assert not scans(plan), plan
    assert most_rows(plan) <= 100, plan


async def test_the_purge_asks_of_no_part_of_a_scope_that_is_held_as_a_whole(seeded):
    await execute(seeded.url, "UPDATE parts SET span_start = '9999-01-01 00:00:00+00'")
    free = most_rows(await seeded.plan(HELD["overdue"], seeded.scope, 20))
    await execute(
        seeded.url,
        "INSERT INTO holds (scope_id, hold_id, reach, answer, placed_by) VALUES ($1, $2, 'scope', 'placed', 'op')",
        seeded.scope,
        NIL,
    )
    held = await seeded.plan(HELD["overdue"], seeded.scope, 20)
    assert free == 20
    assert re.search(r"on parts p \(never executed\)", held), held
    # Which scopes have any is known by looking at one of each.
    await execute(
        seeded.url,
        "INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)"
        " SELECT gen_random_uuid(), 'many-' || n, '{}', 1, 1 FROM generate_series(1, 500) AS n",
    )
    await execute(seeded.url, "ANALYZE parts, scopes")
    scopes = await seeded.plan(PURGING["scopes_due"], datetime.now(UTC))
    assert not scans(scopes), scopes
    assert most_rows(scopes) <= 501, scopes


async def test_the_purge_finds_what_a_source_closed_without_what_is_gone(seeded):
    await execute(
        seeded.url, "UPDATE parts SET state = 'purging', purge_reason = 'erased' WHERE exchange <> 'x5'"
    )
    await execute(seeded.url, "ANALYZE parts")
    for query, more in (("of_source", ()), ("of_version", (1,))):
        plan = await seeded.plan(PURGING[query], seeded.scope, "doc-10", *more, 50, False)
        assert "parts_by_source" in plan, plan
        assert not scans(plan), plan
        assert most_rows(plan) == 50, plan


async def test_accesses_are_read_newest_month_first_and_by_part(seeded):
    await seeded.connection.execute(
        "INSERT INTO accesses (scope_id, at, access_id, key_id, role, evidence, outcome)"
        " SELECT $1, now() + i * interval '1 second', gen_random_uuid(), 'k', 'reviewer',"
        " md5('e' || i % 500)::uuid, 'read' FROM generate_series(0, 19999) i",
        seeded.scope,
    )  # fmt: skip
    # As autovacuum does it once there are this many.
    await execute(seeded.url, "ANALYZE accesses")
    evidence = await seeded.connection.fetchval("SELECT evidence FROM accesses LIMIT 1")
    for order, begin in BEGIN.items():
        plan = await seeded.plan(ACCESSES[order], seeded.scope, *begin, 51)
        assert not re.search(r"Seq Scan on accesses_\d+_\d+ .*rows=[1-9]", plan), plan
        assert most_rows(plan) <= 51, plan
        plan = await seeded.plan(ACCESSES[f"of_evidence_{order}"], seeded.scope, *begin, 51, evidence)
        assert "scope_id_evidence_at" in plan, plan


async def test_parts_that_came_after_a_closing_are_looked_for_run_by_run(seeded: Seeded) -> None:
    await execute(seeded.url, "UPDATE parts SET stored_at = stored_at - interval '2 days'")
    await execute(
        seeded.url,
        "UPDATE runs SET state = 'closed', closing_at = now(), closed_at = now() - interval '25 hours'"
        " WHERE state <> 'closed'",
    )
    await execute(
        seeded.url,
        "INSERT INTO closings (scope_id, run_uid, closed_at, opening, record)"
        " SELECT scope_id, run_uid, closed_at, sha256('o'), 'x' FROM runs",
    )
    await execute(
        seeded.url,
        "INSERT INTO gaps (scope_id, run_uid, gap_id, said_by, reason, session, sequences, first_at, last_at)"
        " SELECT scope_id, run_uid, gen_random_uuid(), 'count', 'unaccounted', 's', '{[1,2)}', closed_at, closed_at"
        " FROM runs",
    )
    await execute(seeded.url, "ANALYZE")
    runs = await seeded.connection.fetchval("SELECT count(*) FROM runs")
    for query, asked in (("due_again", (EARLY, NIL, NIL, 50)), ("accounted_after", (NIL, NIL, 50))):
        plan = await seeded.plan(CLOSINGS[query], *asked)
        assert re.search(r"Scan using parts_by_run on parts", plan), plan
        assert not whole_reads(plan, ["parts"]), plan
        assert most_rows(plan) <= runs, plan
