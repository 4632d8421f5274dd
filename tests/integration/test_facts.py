"""Facts over real sockets: posted beside parts, admitted as they are, and read through the lens."""

import json
from typing import Any

import httpx
import pytest

from policies.kinds import Role
from policies.limits import NOTE_BYTES, RUN_FACTS
from policies.reasons import Reason
from store.errors import Unavailable
from store.queue import Queue
from tests.support.api import problem
from tests.support.capture import Capturing
from tests.support.facts import classic, coverage, delivery, seen, stage, surface
from tests.support.journey import Journey

pytestmark = pytest.mark.asyncio(loop_scope="module")

LISTS = ("actions", "surface", "coverage", "delivery")


async def post(runtime: Capturing, *facts: Any, **headers: str) -> httpx.Response:
    return await runtime.api.client.post(
        f"/v1/runs/{runtime.run}/facts", json={"facts": list(facts)}, headers=runtime.headers(**headers)
    )


async def told(way: Journey, runtime: Capturing, *facts: Any) -> Capturing:
    answer = await post(runtime, *facts)
    assert answer.status_code == 202, answer.text
    assert {each["recorded"] for each in answer.json()["facts"]} == {True}
    await way.write()
    return runtime


async def lens(way: Journey, runtime: Capturing, path: str, role: Role = Role.REVIEWER, **asked: Any) -> Any:
    return await way.json(f"/v1/runs/{runtime.run}/{path}", runtime, role, **asked)


# --- posting


async def test_the_classic_answer(way: Journey) -> None:
    runtime = await told(way, await way.runtime(), *classic())

    (item,) = (await lens(way, runtime, "actions"))["items"]
    assert {name: item[name] for name in ("action_id", "tool", "call_id", "executions", "occurrences", "row")} == {
        "action_id": "a-1", "tool": "read_table", "call_id": "call_7", "executions": 1, "occurrences": 2,
        "row": "cut",
    }  # fmt: skip
    assert item["stages"] == {
        "admission": "admitted", "reservation": "settled", "execution": "succeeded", "projection": "projected",
        "persistence": "persisted",
    }  # fmt: skip

    view = await lens(way, runtime, "actions/a-1")
    assert {name: view[name] for name in item} == item
    assert (view["run_id"], view["facts_full"]) == (runtime.run, False)
    assert [(step["stage"], step["status"]) for step in view["steps"]] == [
        ("admission", "admitted"), ("reservation", "reserved"), ("execution", "started"), ("execution", "succeeded"),
        ("projection", "projected"), ("persistence", "persisted"), ("reservation", "settled"),
    ]  # fmt: skip
    rows = {"form": "partial", "unit": "rows", "start": 0, "stop": 5, "total": 120, "source_whole": False}
    assert view["views"] == [{"result_version": 1, "view": rows}]
    requests = [
        (
            each["request"],
            each["exchange_id"],
            each["attempt_id"],
            each["row"],
            each["occurrences"][0]["view"]["form"],
        )
        for each in view["requests"]
    ]
    assert requests == [
        (8, "x-8", "1", "reference_only", "reference"),
        (9, "x-9", "1", "cut", "partial"),
    ]
    assert view["requests"][1]["occurrences"][0]["view"] == rows


async def test_each_fact_is_answered_and_a_bad_one_takes_no_other_with_it(way: Journey) -> None:
    runtime = await way.runtime()
    good = stage("a-1", "execution", "started")
    answer = await post(runtime, {**good, "message": "hello"}, good, {**good, "fact": "f" * 1100}, [], good)
    assert answer.status_code == 202
    assert answer.json() == {
        "facts": [
            {"type": "fact", "recorded": recorded, "reason": reason}
            for recorded, reason in (
                (False, "encoding_failed"), (True, None), (False, "part_too_large"), (False, "encoding_failed"),
                (True, None),
            )
        ]
    }  # fmt: skip
    await way.write()
    assert [each["action_id"] for each in (await lens(way, runtime, "actions"))["items"]] == ["a-1"]
    assert len((await lens(way, runtime, "actions/a-1"))["steps"]) == 1


async def test_what_is_posted_twice_is_there_once_and_the_first_stays(way: Journey) -> None:
    runtime = await told(way, await way.runtime(), stage("a-1", "execution", "started"))
    again = {**stage("a-1", "execution", "started"), "tool": "another"}
    await told(way, runtime, again, stage("a-1", "execution", "started"))
    view = await lens(way, runtime, "actions/a-1")
    assert (view["tool"], len(view["steps"])) == ("read_table", 1)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 400),
        (b'{"facts": [], "facts": []}', 400),
        (b'{"facts": [' + b",".join([b"{}"] * 65) + b"]}", 400),
        (b'{"facts": []}', 202),
        (b'{"facts": []}' + b" " * 65 * NOTE_BYTES, 413),
    ],
    ids=lambda each: str(each)[:30],
)
async def test_a_call_is_bounded_and_of_one_form(way: Journey, body: bytes, status: int) -> None:
    runtime = await way.runtime()
    answer = await way.client.post(f"/v1/runs/{runtime.run}/facts", content=body, headers=runtime.headers())
    assert answer.status_code == status
    if status >= 400:
        assert problem(answer)["retryable"] is False


async def test_who_may_not_post_is_refused_before_the_body_is_read(way: Journey) -> None:
    runtime = await way.runtime()
    path = f"/v1/runs/{runtime.run}/facts"
    wrong = b'{"facts": "nothing of this is read"}'
    reviewer = await way.key(Role.REVIEWER, runtime.scope)
    for headers, status, reason in (
        ({}, 401, "unauthenticated"),
        (reviewer, 403, "permission_denied"),
        (runtime.key, 403, "ticket_invalid"),
        ({**runtime.headers(), "Custody-Ticket": "ct_nonsense"}, 403, "ticket_invalid"),
    ):
        answer = await way.client.post(path, content=wrong, headers=headers)
        assert (answer.status_code, problem(answer)["reason"]) == (status, reason)
        assert answer.headers["connection"] == "close"
    other = await way.runtime(of=await way.scope())
    answer = await way.client.post(path, content=wrong, headers=other.headers())
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [({"mode": "temporary"}, "temporary_mode"), ({"content": "opt_out"}, "content_opt_out")],
)
async def test_a_run_that_keeps_no_content_keeps_no_facts(
    way: Journey, wishes: dict[str, Any], reason: str
) -> None:
    runtime = await way.runtime()
    before = await told(way, runtime, stage("a-1", "execution", "started"))
    await before.declare(**wishes)
    for _ in range(2):
        answer = await post(before, stage("a-2", "execution", "started"))
        assert (answer.status_code, problem(answer)["reason"]) == (403, reason)
    # What was told before stays readable, as what was captured before does.
    await way.write()
    assert [each["action_id"] for each in (await lens(way, before, "actions"))["items"]] == ["a-1"]


async def test_a_closed_run_takes_no_more(way: Journey) -> None:
    runtime = await told(way, await way.runtime(), stage("a-1", "execution", "started"))
    closed = await way.client.post(
        f"/v1/runs/{runtime.run}/close", json={"sessions": {}}, headers=runtime.key
    )
    assert closed.status_code == 200
    assert (await post(runtime, stage("a-1", "execution", "succeeded"))).json()["facts"][0][
        "recorded"
    ] is True
    await way.house.execute(
        "UPDATE runs SET closing_at = now() - interval '1 hour' WHERE run = $1", runtime.run
    )
    await way.write()
    assert (await way.duties.perform("reconcile")).succeeded
    answer = await post(runtime, stage("a-2", "execution", "started"))
    assert (answer.status_code, problem(answer)["reason"]) == (403, "run_closed")


async def test_an_erased_run_takes_none_and_shows_none_from_that_moment(way: Journey) -> None:
    runtime = await told(way, await way.runtime(of=await way.scope()), *classic())
    operator = await way.key(Role.OPERATOR, runtime.scope)
    asked = await way.client.post("/v1/erasures", json={"run": runtime.run}, headers=operator)
    assert asked.status_code == 202
    for path in (*LISTS, "actions/a-1", "actions/never"):
        for role in (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR):
            answer = await way.get(f"/v1/runs/{runtime.run}/{path}", runtime, role)
            assert (answer.status_code, problem(answer)["reason"]) == (410, "erased")
    answer = await post(runtime, stage("a-2", "execution", "started"))
    assert (answer.status_code, problem(answer)["reason"]) == (409, "erased")
    assert (await way.duties.perform("purge")).counts["facts"] == 9
    assert (await way.get(f"/v1/runs/{runtime.run}/actions", runtime)).status_code == 410


async def test_when_the_retention_ends_only_a_hold_keeps_them_and_only_for_custodians(way: Journey) -> None:
    runtime = await told(way, await way.runtime(of=await way.scope()), *classic())
    path = f"/v1/runs/{runtime.run}/actions/a-1"
    await way.house.execute("UPDATE runs SET retain_until = now() WHERE run = $1", runtime.run)
    gone = await way.get(path, runtime, Role.CUSTODIAN)
    assert (gone.status_code, problem(gone)["reason"]) == (410, "retention_expired")
    operator = await way.key(Role.OPERATOR, runtime.scope)
    held = await way.client.post(
        "/v1/holds", json={"run": runtime.run, "reason": "matter 7"}, headers=operator
    )
    assert held.status_code in (201, 202), held.text
    assert (await way.duties.perform("purge")).counts.get("facts", 0) == 0
    refused = await way.get(path, runtime)
    assert (refused.status_code, problem(refused)["reason"]) == (403, "expired_held")
    assert (await way.get(path, runtime, Role.CUSTODIAN)).json()["row"] == "cut"


async def test_a_full_run_says_so_at_once_and_in_every_answer_of_the_lens(way: Journey) -> None:
    runtime = await way.runtime()
    await told(way, runtime, *(stage("a-1", "execution", "started", execution=n) for n in range(1, 4)))
    await way.house.execute(
        "UPDATE fact_runs SET kept = $2 WHERE run_uid = (SELECT run_uid FROM runs WHERE run = $1)",
        runtime.run,
        RUN_FACTS,
    )
    assert (await post(runtime, stage("a-9", "execution", "started"))).json()["facts"][0]["recorded"] is True
    await way.write()
    answer = await post(runtime, stage("a-9", "execution", "started"))
    assert answer.json()["facts"] == [{"type": "fact", "recorded": False, "reason": "capacity_exceeded"}]
    assert (await lens(way, runtime, "actions/a-1"))["facts_full"] is True
    for path in LISTS:
        assert (await way.get(f"/v1/runs/{runtime.run}/{path}", runtime)).headers[
            "custody-facts-full"
        ] == "true"


async def test_more_than_may_wait_is_refused_and_told_so(way: Journey) -> None:
    runtime = await way.runtime()
    answers = [
        each["reason"]
        for at in range(0, 192, 64)
        for each in (
            await post(runtime, *(stage(f"a-{n}", "execution", "started") for n in range(at, at + 64)))
        ).json()["facts"]
    ]
    assert answers == [None] * 64 + ["capacity_exceeded"] * 128


# --- reading


async def test_nothing_recorded_is_not_that_it_did_not_happen(way: Journey) -> None:
    runtime = await told(way, await way.runtime(), *classic())
    answer = await way.get(f"/v1/runs/{runtime.run}/actions/never", runtime)
    found = problem(answer)
    assert (answer.status_code, found["reason"], found["row"]) == (404, "not_found", "not_recorded")
    assert "does not say that it did not happen" in str(found["detail"])
    # Of a run that is not there, nothing is said at all; nor of another scope's.
    other = await way.runtime(of=await way.scope())
    for asker, run in ((runtime, "never"), (other, runtime.run)):
        for path in (*LISTS, "actions/a-1"):
            answer = await way.get(f"/v1/runs/{run}/{path}", asker)
            assert (answer.status_code, "row" in problem(answer)) == (404, False)


async def test_metadata_roles_read_the_lens_and_runtimes_do_not(way: Journey) -> None:
    runtime = await told(
        way, await way.runtime(), *classic(), surface("x-9"), coverage("f", 1), delivery("r", "met")
    )
    for path in (*LISTS, "actions/a-1"):
        for role in Role:
            answer = await way.get(f"/v1/runs/{runtime.run}/{path}", runtime, role)
            assert answer.status_code == (403 if role is Role.RUNTIME else 200), (path, role)
        assert (await way.client.get(f"/v1/runs/{runtime.run}/{path}")).status_code == 401


async def test_an_unbound_object_of_its_call_is_lineage_that_is_missing(way: Journey) -> None:
    of = {"call_id": "call_1"}
    runtime = await told(
        way,
        await way.runtime(),
        stage("a-1", "execution", "succeeded", execution=1, **of),
        stage("a-1", "projection", "projected", **of),
        stage("a-2", "execution", "succeeded", execution=1, call_id="call_2"),
        seen("x-1", None, link="unknown", **of),
        seen("x-2", None, link="replaced", request=2, call_id="call_9"),
    )
    rows = {each["action_id"]: each["row"] for each in (await lens(way, runtime, "actions"))["items"]}
    assert rows == {"a-1": "lineage_missing", "a-2": "not_recorded"}
    view = await lens(way, runtime, "actions/a-1")
    assert view["occurrences"] == 0
    ((found,),) = [each["occurrences"] for each in view["requests"]]
    assert (found["link"], view["requests"][0]["row"]) == ("unknown", "lineage_missing")


@pytest.mark.parametrize(
    ("facts", "row", "executions"),
    [
        ([stage("a", "admission", "refused", code="denied")], "refused_before_call", 0),
        ([stage("a", "execution", "timed_out", execution=2)], "execution_failed", 2),
        (
            [stage("a", "execution", "succeeded", execution=1), stage("a", "projection", "failed")],
            "projection_failed",
            1,
        ),
        ([stage("a", "replay", "replayed")], "not_recorded", None),
    ],
)
async def test_each_row_is_told(way: Journey, facts: list[Any], row: str, executions: int | None) -> None:
    runtime = await told(way, await way.runtime(), *facts)
    view = await lens(way, runtime, "actions/a")
    assert (view["row"], view["executions"]) == (row, executions)


@pytest.mark.parametrize("path", LISTS)
async def test_pages_are_turned_without_skipping_or_repeating(way: Journey, path: str) -> None:
    runtime = await way.runtime()
    made = {
        "actions": lambda n: stage(f"a-{n}", "execution", "started"),
        "surface": lambda n: surface(f"x-{n}"),
        "coverage": lambda n: coverage("file-1", n),
        "delivery": lambda n: delivery(f"item-{n}", "met"),
    }[path]
    await told(way, runtime, *map(made, range(7)))
    key = {"actions": "action_id"}.get(path, "fact_id")
    found, cursor = [], None
    while True:
        page = await lens(way, runtime, path, limit=3, **({} if cursor is None else {"cursor": cursor}))
        found += [each[key] for each in page["items"]]
        cursor = page["page"]["next"]
        if cursor is None:
            break
        # What comes meanwhile is at the end.
        await told(way, runtime, made(100 + len(found)))
    numbers = [*range(7), 103, 106]
    assert found == [(f"a-{n}" if path == "actions" else made(n)["fact"]) for n in numbers]


async def test_a_cursor_is_of_its_list_run_and_key(way: Journey) -> None:
    runtime = await told(way, await way.runtime(), *(surface(f"x-{n}") for n in range(3)))
    page = await lens(way, runtime, "surface", limit=1)
    cursor = page["page"]["next"]
    for path, asked in (
        (f"/v1/runs/{runtime.run}/coverage", {}),
        (f"/v1/runs/{runtime.run}/surface", {"exchange": "x-1"}),
        (f"/v1/runs/{(await way.runtime()).run}/surface", {}),
    ):
        answer = await way.get(path, runtime, params={"cursor": cursor, **asked})
        assert (answer.status_code, problem(answer)["reason"]) == (400, "cursor_invalid")
    answer = await way.get(
        f"/v1/runs/{runtime.run}/surface", runtime, Role.AUDITOR, params={"cursor": cursor}
    )
    assert answer.status_code == 400
    link = (await way.get(f"/v1/runs/{runtime.run}/surface", runtime, params={"limit": 1})).headers["link"]
    (following,) = (await way.get(link.partition(">")[0].removeprefix("<"), runtime)).json()["items"]
    assert following["exchange_id"] == "x-1"


async def test_lists_are_narrowed_by_what_they_offer_and_refuse_the_rest(way: Journey) -> None:
    runtime = await told(
        way, await way.runtime(), surface("x-1", check="early"), surface("x-1", "mismatch"), surface("x-2"),
        surface("x-3", "not_checked", check="early"),
        coverage("file-1", 1, action="a-1"), coverage("file-2", 1), delivery("r", "met", action="a-1"),
        delivery("s", "missing"),
    )  # fmt: skip
    found = await lens(way, runtime, "surface", exchange="x-1")
    assert [(each["check"], each["verdict"]) for each in found["items"]] == [
        ("early", "match"),
        ("final", "mismatch"),
    ]
    (unchecked,) = (await lens(way, runtime, "surface", exchange="x-3"))["items"]
    assert (unchecked["check"], unchecked["verdict"]) == ("early", "not_checked")
    for path, name in (("coverage", "file_id"), ("delivery", "item_id")):
        (item,) = (await lens(way, runtime, path, action="a-1"))["items"]
        assert item[name] == {"coverage": "file-1", "delivery": "r"}[path]
    for path in (
        "actions?action=a",
        "surface?action=a",
        "coverage?exchange=x",
        "actions/a-1?limit=1",
        "surface?exchange=..",
    ):
        answer = await way.get(f"/v1/runs/{runtime.run}/{path}", runtime)
        assert (answer.status_code, problem(answer)["reason"]) == (400, "malformed_request"), path


async def test_everything_of_a_fact_is_shown_and_what_nobody_told_is_null(way: Journey) -> None:
    runtime = await told(
        way, await way.runtime(),
        surface("x-1", "mismatch", attempt="1", more=2, differences=[{"change": "renamed", "tool": "a", "now": "b"}]),
        coverage(
            "file-1", 3998, ranges=[[0, 3998], [7998, 9000]], size=9000, one_version=False, deviations=["skipped"],
        ),
        delivery("report", "failed", kind="command", exit_code=-9, code="exit"),
    )  # fmt: skip
    shown = {
        path: (await lens(way, runtime, path))["items"][0] for path in ("surface", "coverage", "delivery")
    }
    for item in shown.values():
        assert item.pop("told_at") > item.pop("at")
    assert shown == {
        "surface": {
            "fact_id": "surface.x-1.final", "exchange_id": "x-1", "attempt_id": "1", "check": "final",
            "verdict": "mismatch", "tools": 3, "more": 2,
            "differences": [{"change": "renamed", "tool": "a", "now": "b", "at": None}],
        },
        "coverage": {
            "fact_id": "coverage.file-1.3998", "file_id": "file-1", "frontier": 3998, "whole": False,
            "ranges": [[0, 3998], [7998, 9000]], "more": 0, "size": 9000, "one_version": False, "action_id": None,
            "deviations": ["skipped"],
        },
        "delivery": {
            "fact_id": "delivery.report.failed", "item_id": "report", "kind": "command", "state": "failed",
            "code": "exit", "size": None, "exit_code": -9, "action_id": None,
        },
    }  # fmt: skip


async def test_while_the_queue_is_away_that_is_said_and_nothing_is_promised(
    way: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await way.runtime()
    assert (await post(runtime, stage("a-1", "execution", "started"))).status_code == 202

    async def away(*_: Any, **__: Any) -> None:
        raise Unavailable(Reason.QUEUE_UNAVAILABLE, cause="ConnectionError")

    monkeypatch.setattr(Queue, "append", away)
    answer = await post(runtime, stage("a-2", "execution", "started"), {})
    assert [each["reason"] for each in answer.json()["facts"]] == ["queue_unavailable", "encoding_failed"]


async def test_no_answer_and_no_header_quotes_what_a_bad_fact_said(way: Journey) -> None:
    runtime = await way.runtime()
    bad = {**stage("a-1", "execution", "started"), "output": "CANARY-55aa"}
    answer = await post(runtime, bad, {**bad, "tool": "CANARY-55aa" * 90}, "CANARY-55aa")
    assert answer.status_code == 202
    assert "CANARY" not in answer.text + str(answer.headers)
    whole = await way.client.post(
        f"/v1/runs/{runtime.run}/facts", content=json.dumps({"facts": bad}), headers=runtime.headers()
    )
    assert (whole.status_code, "CANARY" in whole.text) == (400, False)
