"""Pages over HTTP: every row once, cursors good for one question, filters that an index serves, availability now."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from policies.kinds import Role
from policies.reasons import Reason
from store.commitments import lookup_hash
from store.services.paging import Pager
from store.tables.pages import OFFERED
from tests.support.api import problem
from tests.support.factories import OUTPUT, Run
from tests.support.outages import NOWHERE
from tests.support.reading import Library, identity_path, library
from tests.support.seeding import seed
from tests.support.stack import until


@pytest.fixture
async def shelf(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Library]:
    async with library(database_url, redis_url, keys_dir, page_examined="200") as opened:
        yield opened


@pytest.fixture
async def reviewer(shelf: Library) -> dict[str, str]:
    return await shelf.key(Role.REVIEWER)


async def walk(
    shelf: Library, path: str, headers: dict[str, str], **params: Any
) -> list[list[dict[str, Any]]]:
    """Every page of a list, by its cursors, and by its links as well."""
    pages = [await shelf.json(path, headers, **params)]
    while pages[-1]["page"]["next"] is not None:
        assert len(pages) < 50, "a list must end"
        pages.append(await shelf.json(path, headers, **params, cursor=pages[-1]["page"]["next"]))
    return [page["items"] for page in pages]


def evidences(pages: list[list[dict[str, Any]]]) -> list[str]:
    return [item["evidence"] for page in pages for item in page]


async def fill(shelf: Library, parts: int, run: Run | None = None, **facts: Any) -> list[str]:
    run = run or await shelf.house.declare()
    entries = [shelf.house.part(run, b"%d" % n, exchange=f"x-{n}", **facts) for n in range(parts)]
    await shelf.persist(entries)
    rows = await shelf.house.rows(
        "SELECT evidence FROM parts WHERE run_uid = $1 ORDER BY stored_at, evidence", run.run_uid
    )
    return [str(row["evidence"]) for row in rows]


# --- each row once


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_seven_parts_of_one_instant_are_each_shown_once(shelf, reviewer, limit, order):
    stored = await fill(shelf, 7)
    await shelf.house.execute("UPDATE parts SET stored_at = '2026-01-01T00:00:00.123456Z'")
    pages = await walk(shelf, "/v1/parts", reviewer, limit=limit, order=order)
    expected = sorted(stored, reverse=order == "newest")
    assert evidences(pages) == expected
    assert [len(page) for page in pages] == [limit] * (7 // limit) + [7 % limit] * (7 % limit > 0)
    assert pages[0][0]["stored_at"].startswith("2026-01-01T00:00:00.123456")


async def test_what_is_stored_and_purged_between_pages_moves_nothing_else(shelf, reviewer):
    stored = await fill(shelf, 6)
    first = await shelf.json("/v1/parts", reviewer, limit=3, order="oldest")
    await shelf.house.execute(
        "UPDATE parts SET state = 'purging', purge_reason = 'erased' WHERE evidence = ANY($1)",
        [UUID(stored[0]), UUID(stored[4])],
    )
    later = await fill(shelf, 1)
    rest = await shelf.json("/v1/parts", reviewer, limit=200, order="oldest", cursor=first["page"]["next"])
    assert [item["evidence"] for item in first["items"] + rest["items"]] == stored + later
    gone = {item["evidence"]: item["availability"]["reason"] for item in rest["items"]}
    assert gone[stored[4]] == "erased"
    assert gone[stored[5]] is None


async def test_a_page_says_when_it_was_true_and_where_the_next_one_is(shelf, reviewer):
    await fill(shelf, 3)
    response = await shelf.get("/v1/parts?limit=2&kind=logical-request", reviewer)
    page = response.json()["page"]
    window = [datetime.fromisoformat(page["window"][edge]) for edge in ("from", "to")]
    observed = datetime.fromisoformat(page["observed_at"])
    assert window[0] <= observed <= window[1]
    assert abs(observed - datetime.now(UTC)) < timedelta(minutes=1)
    assert page["consistency"] == "per-page-live"
    link = re.fullmatch(r'<(/v1/parts\?[^>]+)>; rel="next"', response.headers["link"])
    assert link is not None
    last = await shelf.get(link[1], reviewer)
    assert (len(last.json()["items"]), last.json()["page"]["next"]) == (1, None)
    assert "link" not in last.headers
    empty = await shelf.json("/v1/parts", reviewer, to="2020-01-01T00:00:00Z")
    assert (empty["items"], empty["page"]["next"]) == ([], None)
    assert empty["page"]["window"]["from"] <= empty["page"]["window"]["to"]


# --- cursors


async def test_a_cursor_answers_only_the_question_that_it_was_given_for(shelf, reviewer):
    run = await shelf.house.declare()
    await fill(shelf, 4, run)
    page = await shelf.json("/v1/parts", reviewer, limit=2, kind="logical-request")
    cursor = page["page"]["next"]
    same = {"limit": 2, "kind": "logical-request", "cursor": cursor}
    assert (await shelf.get("/v1/parts", reviewer, params=same)).status_code == 200
    # How many rows are wanted is no part of the question.
    assert (await shelf.get("/v1/parts", reviewer, params={**same, "limit": 1})).status_code == 200
    cleared = await shelf.key(Role.REVIEWER, None, "legal")
    wrong: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("/v1/parts", reviewer, {**same, "order": "oldest"}),
        ("/v1/parts", reviewer, {**same, "kind": "observable-output"}),
        ("/v1/parts", reviewer, {**same, "run": run.run}),
        ("/v1/parts", reviewer, {**same, "from": "2020-01-01T00:00:00Z"}),
        ("/v1/parts", reviewer, {"cursor": cursor}),
        ("/v1/parts", await shelf.key(Role.REVIEWER), same),
        ("/v1/parts", cleared, same),
        ("/v1/runs", reviewer, {"cursor": cursor}),
        ("/v1/parts", reviewer, {**same, "cursor": cursor[:-1] + ("A" if cursor[-1] != "A" else "B")}),
        ("/v1/parts", reviewer, {**same, "cursor": "x"}),
    ]
    for path, headers, params in wrong:
        refused = await shelf.get(path, headers, params=params)
        assert (problem(refused)["reason"], refused.status_code) == ("cursor_invalid", 400), (path, params)


async def test_a_cursor_dies_after_a_day(shelf, reviewer, monkeypatch):
    await fill(shelf, 2)
    cursor = (await shelf.json("/v1/parts", reviewer, limit=1))["page"]["next"]
    turn = Pager.turn

    def tomorrow(self: Pager, *question: Any) -> Any:
        then = Pager(self._key, lambda: datetime.now(UTC) + timedelta(hours=24, seconds=1))
        return turn(then, *question)

    monkeypatch.setattr(Pager, "turn", tomorrow)
    refused = await shelf.get("/v1/parts", reviewer, params={"limit": 1, "cursor": cursor})
    assert problem(refused)["reason"] == "cursor_invalid"


# --- filters


async def test_each_offered_filter_set_finds_what_it_says(shelf, reviewer):
    run, other = await shelf.house.declare("run-a"), await shelf.house.declare("run-b")
    await shelf.house.execute(
        "UPDATE runs SET labels = '{team=blue,since=2020}' WHERE run_uid = $1", run.run_uid
    )
    mine = {
        (exchange, kind): await shelf.store(run, b"x", exchange=exchange, kind=kind)
        for exchange in ("x-1", "x-2") for kind in ("logical-request", OUTPUT)
    }  # fmt: skip
    theirs = await shelf.store(other, b"y", exchange="x-1")
    values = {"run": "run-a", "exchange": "x-1", "attempt": "attempt-1", "kind": OUTPUT, "label": "team=blue"}
    for offered in OFFERED:
        filters = {name: values[name] for name in offered.filters}
        found = set(evidences(await walk(shelf, "/v1/parts", reviewer, **filters, limit=2)))
        expected = {
            str(evidence) for (exchange, kind), evidence in mine.items()
            if filters.get("exchange", exchange) == exchange and filters.get("kind", kind) == kind
        }  # fmt: skip
        if not offered.filters:
            expected.add(str(theirs))
        assert found == expected, filters


async def test_times_bound_every_list_from_the_first_up_to_the_second(shelf, reviewer):
    stored = await fill(shelf, 4)
    await shelf.house.execute(
        "UPDATE parts p SET stored_at = timestamptz '2026-01-01 00:00:00Z' + s.n * interval '1 hour'"
        " FROM (SELECT evidence, row_number() OVER (ORDER BY evidence) AS n FROM parts) s WHERE s.evidence = p.evidence"
    )
    stored.sort()
    for order in ("newest", "oldest"):
        times = {"from": "2026-01-01T02:00:00Z", "to": "2026-01-01T05:00:00+01:00", "order": order}
        found = evidences(await walk(shelf, "/v1/parts", reviewer, **times, limit=1))
        assert sorted(found) == stored[1:3]
    for wrong in ("yesterday", "2026-01-01T00:00:00"):
        refused = await shelf.get("/v1/parts", reviewer, params={"from": wrong})
        assert problem(refused)["reason"] == "malformed_request"


@pytest.mark.parametrize(
    "params",
    [
        {"exchange": "x-1"}, {"attempt": "a"}, {"run": "r", "attempt": "a"}, {"run": "r", "label": "a=b"},
        {"media_type": "text/plain"}, {"limit": "0"}, {"limit": "201"}, {"limit": "x"}, {"order": "biggest"},
        {"kind": "other"}, {"availability": "maybe"}, {"reason": "no_such"}, {"reason": "capacity_exceeded"},
        {"run": "../etc"}, {"run": ["a", "b"]},
    ],
)  # fmt: skip
async def test_what_is_not_offered_is_refused(shelf, reviewer, params):
    refused = await shelf.get("/v1/parts", reviewer, params=params)
    found = problem(refused)
    assert (found["reason"], refused.status_code) == ("malformed_request", 400)


async def test_a_refusal_of_filters_names_those_that_there_are(shelf, reviewer):
    detail = problem(await shelf.get("/v1/parts", reviewer, params={"exchange": "x-1"}))["detail"]
    assert "exchange+run" in str(detail)
    assert "label" in str(
        problem(await shelf.get("/v1/parts", reviewer, params={"media_type": "x"}))["detail"]
    )


async def test_a_page_examines_a_bounded_number_of_rows_and_may_be_empty_with_a_next(shelf, reviewer):
    await seed(shelf.house.url, shelf.house.scope, 1000)
    rare = await shelf.house.value(
        "UPDATE parts SET state = 'purging', purge_reason = 'erased' WHERE evidence ="
        " (SELECT evidence FROM parts ORDER BY stored_at OFFSET 250 LIMIT 1) RETURNING evidence"
    )
    for filters in ({"reason": "erased"}, {"availability": "unavailable", "reason": "erased"}):
        pages = await walk(shelf, "/v1/parts", reviewer, **filters, limit=200)
        assert evidences(pages) == [str(rare)]
        assert [len(page) for page in pages] == [0, 0, 0, 1, 0]
    kinds = await walk(shelf, "/v1/parts", reviewer, kind=OUTPUT, limit=60)
    assert len(evidences(kinds)) == len(set(evidences(kinds))) == 500
    assert all(len(page) == 60 for page in kinds[:-1])
    readable = await walk(shelf, "/v1/parts", reviewer, availability="readable", limit=200)
    # Every tenth depends on a source that this scope does not know.
    assert len(evidences(readable)) == 1000 - 100 - (await rare_is_readable(shelf, rare))


async def rare_is_readable(shelf: Library, evidence: UUID) -> int:
    return int(
        await shelf.house.value("SELECT (source_set IS NULL)::int FROM parts WHERE evidence = $1", evidence)
    )


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_a_label_on_few_runs_and_one_on_many_find_the_same_way(shelf, reviewer, monkeypatch, order):
    await seed(shelf.house.url, shelf.house.scope, 1000)
    expected = await shelf.house.rows(
        "SELECT p.evidence FROM parts p JOIN runs r USING (scope_id, run_uid) WHERE 'team=1' = ANY(r.labels)"
        " ORDER BY p.stored_at, p.evidence"
    )
    wanted = [str(row["evidence"]) for row in expected]
    few = evidences(await walk(shelf, "/v1/parts", reviewer, label="team=1", limit=70, order=order))
    monkeypatch.setattr("store.tables.pages.MOST_RUNS", 3)
    many = evidences(await walk(shelf, "/v1/parts", reviewer, label="team=1", limit=70, order=order))
    assert few == many == (wanted if order == "oldest" else wanted[::-1])
    assert await walk(shelf, "/v1/parts", reviewer, label="team=none") == [[]]


# --- what a list shows


async def test_an_item_says_what_it_is_and_never_what_is_in_it_nor_what_it_depends_on(shelf, reviewer):
    await shelf.house.add_source("doc-CANARY", versions=1)
    run = await shelf.house.declare()
    evidence = await shelf.store(
        run, b"CANARY-7f3a", sources=[("doc-CANARY", 1)], dispatch="dispatched", settlement="completed"
    )
    response = await shelf.get("/v1/parts", reviewer)
    assert b"CANARY" not in response.content
    (item,) = response.json()["items"]
    times = {name: item.pop(name) for name in ("received_at", "stored_at")}
    assert times["received_at"] <= times["stored_at"]
    assert item == {
        "evidence": str(evidence), "run_id": run.run, "exchange_id": "exchange-1", "attempt_id": "attempt-1",
        "kind": "logical-request", "bytes": 11, "size_class": 256, "media_type": "application/json",
        "completeness": "complete", "vantage": "sdk", "captured_at": None, "dispatch": "dispatched",
        "settlement": "completed",
        "availability": {"readable": True, "reason": None}, "newer": False, "proof_state": "pending",
    }  # fmt: skip


async def test_availability_is_decided_now_and_for_this_viewer(shelf, reviewer):
    await shelf.house.add_source("doc-7")
    run = await shelf.house.declare()
    evidence = await shelf.store(run, b"12345", sources=[("doc-7", 1)], session="s", sequence=1)

    async def seen(headers: dict[str, str]) -> tuple[str | None, int | None]:
        (item,) = (await shelf.json("/v1/parts", headers))["items"]
        alone = await shelf.json(f"/v1/parts/{evidence}", headers)
        assert item["availability"] == alone["availability"]
        assert item["bytes"] == alone["bytes"]
        assert item["availability"]["readable"] == (item["availability"]["reason"] is None)
        return item["availability"]["reason"], item["bytes"]

    auditor, operator = await shelf.key(Role.AUDITOR), await shelf.key(Role.OPERATOR)
    assert await seen(reviewer) == (None, 5)
    assert await seen(auditor) == ("permission_denied", 5)
    assert await seen(operator) == ("permission_denied", 5)
    await shelf.house.execute("UPDATE sources SET revoked_at = now()")
    assert await seen(reviewer) == ("source_unavailable", 5)
    await shelf.house.execute("UPDATE sources SET revoked_at = NULL, audience = '{legal}'")
    assert await seen(reviewer) == ("permission_denied", 5)
    assert await seen(await shelf.key(Role.REVIEWER, None, "legal")) == (None, 5)
    await shelf.house.execute("UPDATE sources SET audience = '{}'")
    # From the instant of expiry nothing tells the exact size any more, whoever asks; the row keeps its class.
    await shelf.house.execute("UPDATE runs SET retain_until = now()")
    assert await seen(reviewer) == ("retention_expired", None)
    assert await seen(auditor) == ("permission_denied", None)


async def test_one_part_alone_shows_what_it_depends_on_to_those_who_hold_the_clearances(shelf, reviewer):
    await shelf.house.add_source("doc-7", versions=2)
    await shelf.house.add_source("doc-8", versions=1)
    run = await shelf.house.declare()
    evidence = await shelf.store(run, b"x", sources=[("doc-7", 1), ("doc-8", 1)], session="s", sequence=3)
    shown = await shelf.json(f"/v1/parts/{evidence}", reviewer)
    assert (shown["newer"], shown["session"], shown["sequence"]) == (True, "s", 3)
    assert sorted(shown["sources"], key=str) == [
        {"source": "doc-7", "version": 1, "newer": 2}, {"source": "doc-8", "version": 1, "newer": None},
    ]  # fmt: skip
    by_identity = await shelf.json(identity_path(run), reviewer)
    assert {**by_identity, "observed_at": shown["observed_at"]} == shown
    await shelf.house.execute("UPDATE sources SET audience = '{legal}' WHERE source = 'doc-8'")
    assert (await shelf.json(f"/v1/parts/{evidence}", reviewer))["sources"] is None
    assert "doc-" not in (await shelf.get("/v1/parts", reviewer)).text


async def test_a_runtime_asks_an_identity_for_its_receipt(shelf, reviewer):
    run = await shelf.house.declare()
    await shelf.store(run, b"x")
    runtime = await shelf.key(Role.RUNTIME)
    receipt = await shelf.json(identity_path(run), runtime)
    assert (receipt["capture"], receipt["run_id"]) == ("stored", run.run)
    assert problem(await shelf.get(identity_path(run, kind=OUTPUT), runtime))["reason"] == "not_found"
    for path in ("/v1/parts", "/v1/runs", f"/v1/runs/{run.run}/gaps", "/v1/attempts?ref=x"):
        assert problem(await shelf.get(path, runtime))["reason"] == "permission_denied"


async def test_scopes_do_not_see_each_other_in_lists(shelf, reviewer):
    run = await shelf.house.declare("shared-name")
    await shelf.store(run, b"mine")
    other = await shelf.house.add_scope()
    theirs = await shelf.house.declare("shared-name", scope=other)
    evidence = await shelf.store(theirs, b"theirs")
    foreign = await shelf.key(Role.REVIEWER, other)
    for params in ({}, {"run": "shared-name"}, {"run": "shared-name", "exchange": "exchange-1"}):
        assert evidences(await walk(shelf, "/v1/parts", foreign, **params)) == [str(evidence)]
    assert [len(page) for page in await walk(shelf, "/v1/runs", foreign)] == [1]


# --- runs, gaps, attempts


async def test_runs_are_listed_by_declaration_with_labels(shelf, reviewer):
    for n in range(5):
        run = await shelf.house.declare(f"run-{n}")
        await shelf.house.execute(
            "UPDATE runs SET declared_at = '2026-01-01', labels = $2 WHERE run_uid = $1",
            run.run_uid,
            [f"parity={n % 2}"],
        )
    everything = [
        item["run_id"] for page in await walk(shelf, "/v1/runs", reviewer, limit=2) for item in page
    ]
    assert sorted(everything) == [f"run-{n}" for n in range(5)]
    odd = [
        item for page in await walk(shelf, "/v1/runs", reviewer, limit=1, label="parity=1") for item in page
    ]
    assert sorted(item["run_id"] for item in odd) == ["run-1", "run-3"]
    assert odd[0]["labels"] == {"parity": "1"}
    assert problem(await shelf.get("/v1/runs?state=open", reviewer))["reason"] == "malformed_request"
    assert problem(await shelf.get("/v1/runs/nowhere", reviewer))["reason"] == "not_found"


async def test_a_run_counts_each_observation_once_by_its_strongest_outcome(shelf, reviewer):
    house, run = shelf.house, await shelf.house.declare()
    name = ("x-9", "a-1", "logical-request")
    await shelf.persist(
        [house.part(run, b"%d" % n, exchange=f"x-{n}", session="s", sequence=n) for n in (1, 2, 3)]
    )
    await shelf.persist(
        [
            house.gap(run, Reason.CLIENT_QUEUE_FULL, session="s", first=3, last=6),
            house.gap(run, Reason.CAPACITY_EXCEEDED, said_by="store", session="s", first=5),
            house.gap(run, Reason.PART_TOO_LARGE, said_by="store", identity=name),
            house.state(run, exchange="x-1", dispatch="dispatched"),
        ]
    )
    await house.execute(
        "INSERT INTO sessions (scope_id, run_uid, session, announced) VALUES ($1, $2, 's', 8)",
        run.scope,
        run.run_uid,
    )
    shown = await shelf.json(f"/v1/runs/{run.run}", reviewer)
    # 1-3 stored, 4 and 6 said by the client, 5 refused, 7-8 nobody told; and one identity without a number.
    assert shown["counts"] == {
        "stored": 3, "unaccounted": 2,
        "not_captured": {"capacity_exceeded": 1, "client_queue_full": 2, "part_too_large": 1},
    }  # fmt: skip
    assert shown["sessions"] == [
        {"session": "s", "observed": 8, "stored": 3, "refused": 1, "said": 2, "unaccounted": 2, "beyond": 0}
    ]
    assert shown["complete"] is None
    assert {
        (each["exchange_id"], each["dispatch"], len(each["parts"]), *(gap["reason"] for gap in each["gaps"]))
        for each in shown["timeline"]
    } == {
        ("x-1", "dispatched", 1), ("x-2", "unknown", 1), ("x-3", "unknown", 1), ("x-9", "unknown", 0, "part_too_large"),
    }  # fmt: skip
    assert shown["timeline_more"] is False
    await house.execute("UPDATE runs SET state = 'closed', closed_at = now()")
    assert (await shelf.json(f"/v1/runs/{run.run}", reviewer))["complete"] is False


async def test_gaps_are_listed_as_they_were_recorded_and_overdue_writes_are_provisional(shelf, reviewer):
    house, run = shelf.house, await shelf.house.declare()
    await shelf.persist(
        [
            house.gap(run, Reason.CLIENT_SHUTDOWN, session="s", first=2, last=4),
            house.gap(
                run, Reason.PART_TOO_LARGE, said_by="store", identity=("x-9", "a-1", "logical-request")
            ),
        ]
    )
    pages = await walk(shelf, f"/v1/runs/{run.run}/gaps", reviewer, limit=1)
    gaps = [gap for page in pages for gap in page]
    assert len(gaps) == len(pages) == 2
    ranges = next(gap for gap in gaps if gap["ranges"])
    assert (ranges["ranges"], ranges["reason"], ranges["said_by"]) == ([[2, 4]], "client_shutdown", "client")
    named = next(gap for gap in gaps if gap["exchange_id"])
    assert (named["reason"], named["kind"], named["provisional"]) == (
        "part_too_large",
        "logical-request",
        False,
    )
    response = await shelf.get(f"/v1/runs/{run.run}/gaps", reviewer)
    assert response.headers["custody-provisional"] == "known"
    assert problem(await shelf.get("/v1/runs/nowhere/gaps", reviewer))["reason"] == "not_found"


async def test_attempts_are_found_by_a_reference_of_their_scope(shelf, reviewer):
    house, run = shelf.house, await shelf.house.declare()
    key = house.keyring.token_key("lookup")
    mark = lookup_hash(key, "ref", run.scope, b"trace-7")
    await shelf.persist(
        [house.state(run, exchange=f"x-{n}", settlement="completed", refs=[mark]) for n in range(5)]
    )
    pages = await walk(shelf, "/v1/attempts", reviewer, ref="trace-7", limit=2)
    found = [item["exchange_id"] for page in pages for item in page]
    assert sorted(found) == [f"x-{n}" for n in range(5)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert pages[0][0]["settlement"] == "completed"
    assert await walk(shelf, "/v1/attempts", reviewer, ref="trace-8") == [[]]
    other = await shelf.key(Role.REVIEWER, await house.add_scope())
    assert await walk(shelf, "/v1/attempts", other, ref="trace-7") == [[]]
    assert problem(await shelf.get("/v1/attempts", reviewer))["reason"] == "malformed_request"


def test_every_filter_set_is_listed_once():
    assert len({each.filters for each in OFFERED}) == len(OFFERED)
    assert all(one.filters != other.filters for one, other in pairwise(OFFERED))


async def test_a_write_that_waits_too_long_is_a_provisional_gap_until_it_settles(
    database_url, redis_url, keys_dir
):
    async with library(database_url, redis_url, keys_dir, overdue_after="100ms") as shelf:
        shelf.house.keyring.create_intake_keys(datetime.now(UTC), 1)
        runtime, reviewer = await shelf.key(Role.RUNTIME), await shelf.key(Role.REVIEWER)
        client, path = shelf.api.client, "/v1/runs/run-1/exchanges/x-1/attempts/a-1/parts/logical-request"
        declared = await client.put("/v1/runs/run-1", headers=runtime, json={})
        ticket = {**runtime, "Custody-Ticket": declared.json()["ticket"], "Content-Type": "text/plain"}
        assert (await client.put(path, headers=ticket, content=b"waits")).status_code == 202

        async def overdue() -> list[dict[str, Any]]:
            page = await shelf.json("/v1/runs/run-1/gaps", reviewer)
            return [dict(gap) for gap in page["items"]]

        (gap,) = await until(overdue, "the write is overdue")
        assert (gap["reason"], gap["said_by"], gap["provisional"]) == ("write_timeout", None, True)
        assert (gap["exchange_id"], gap["attempt_id"], gap["kind"]) == ("x-1", "a-1", "logical-request")
        # It is no outcome: the run's counts do not know it, and by identity there is nothing yet.
        assert (await shelf.json("/v1/runs/run-1", reviewer))["counts"]["not_captured"] == {}
        assert problem(await shelf.get(path, reviewer))["reason"] == "not_found"


async def test_while_the_queue_is_away_gaps_are_told_and_what_waits_is_said_to_be_unknown(
    database_url, keys_dir
):
    async with library(database_url, NOWHERE, keys_dir) as shelf:
        run = await shelf.house.declare()
        await shelf.persist([shelf.house.gap(run, Reason.CLIENT_SHUTDOWN, session="s", first=2)])
        response = await shelf.get(f"/v1/runs/{run.run}/gaps", await shelf.key(Role.REVIEWER))
        assert response.headers["custody-provisional"] == "unknown"
        assert [gap["reason"] for gap in response.json()["items"]] == ["client_shutdown"]
