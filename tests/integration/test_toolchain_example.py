"""The toolchain's example before the real service: what its host ran, its requests carried and its files hold."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from policies.kinds import Role
from tests.support.capture import OUTPUT, REQUEST, Capturing
from tests.support.journey import Journey
from tests.support.sources import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACTION = "harbour-1.2"
CLASSIC = [
    (2, "harbour-2", "reference_only", ["reference"]),
    (3, "harbour-3", "cut", ["partial"]),
]
PATHS = [str(ROOT), str(ROOT / "client/src"), str(ROOT / "toolchain/src")]


async def play(
    way: Journey, folder: Path, run: str, *more: str, killed: tuple[str, int] | None = None
) -> tuple[Capturing, int, str]:
    """Run the example with this service as its store, killed once in between if so, and write what it posted."""
    # The writer stands still until the example has ended, so all that it tells has to have room.
    scope = await way.scope(waiting={"run_notes": 4096})
    key = await way.key(Role.RUNTIME, scope)
    secret = folder.with_suffix(".key")
    secret.write_text(key["Authorization"].removeprefix("Bearer ") + "\n")
    told = ("--folder", str(folder), "--run", run, "--url", way.api.url, "--key-file", str(secret), *more)
    if killed is not None:
        code, _ = await process("toolchain.tests.killed_example", *map(str, killed), *told)
        assert code == -signal.SIGKILL
    code, printed = await process("toolchain.examples.research_batch", *told)
    await way.write()
    return Capturing(way.api, scope, key, run), code, printed


async def process(module: str, *arguments: str) -> tuple[int, str]:
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments,
        cwd=ROOT, env=dict(os.environ, PYTHONPATH=os.pathsep.join(PATHS)),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await started.communicate()
    assert started.returncode is not None
    return started.returncode, printed.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(standing: Journey, tmp_path_factory: pytest.TempPathFactory) -> tuple[Capturing, Path, str]:
    folder = tmp_path_factory.mktemp("example") / "played"
    seen, code, printed = await play(standing, folder, "research-1")
    assert code == 0, printed
    return seen, folder, printed


async def items(way: Journey, seen: Capturing, what: str, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await way.json(f"/v1/runs/{seen.run}/{what}", seen, limit=200, **params))[
        "items"
    ]
    return found


def told_of(action: dict[str, Any]) -> list[tuple[int, str, str, list[str]]]:
    """Which requests carried something of an action, where to look first, and in which forms."""
    return [
        (
            each["request"],
            each["exchange_id"],
            each["row"],
            [seen["view"]["form"] for seen in each["occurrences"]],
        )
        for each in action["requests"]
    ]


async def test_all_of_it_arrives(way: Journey, played: tuple[Capturing, Path, str]):
    seen, _, printed = played
    assert "22 parts, " in printed
    assert "lost: {}" in printed
    run = await way.json(f"/v1/runs/{seen.run}", seen)
    assert (run["counts"]["stored"], run["counts"]["not_captured"]) == (22, {})


async def test_the_classic_answer_of_what_a_host_really_ran(
    way: Journey, played: tuple[Capturing, Path, str]
):
    seen, _, printed = played
    assert (
        f"{ACTION} search: one external dispatch, succeeded; the view is the first five rows; request 2 carries"
        " only the reference, request 3 carries the first five rows; the source was not read whole;"
        " two occurrences, one execution"
    ) in printed
    action = await way.json(f"/v1/runs/{seen.run}/actions/{ACTION}", seen)
    assert (action["tool"], action["call_id"], action["executions"], action["occurrences"]) == (
        "search", "call_a3", 1, 2,
    )  # fmt: skip
    assert (action["stages"]["execution"], action["row"]) == ("succeeded", "cut")
    rows = {"form": "partial", "unit": "rows", "start": 0, "stop": 5, "total": 8, "source_whole": False}
    assert [each["view"] for each in action["views"]] == [rows]
    assert told_of(action) == CLASSIC
    assert action["requests"][1]["occurrences"][0]["view"] == rows


async def test_each_occurrence_points_into_a_request_that_was_really_captured(
    way: Journey, played: tuple[Capturing, Path, str]
):
    seen, folder, _ = played
    written = [json.loads(line) for line in (folder / "run.jsonl").read_bytes().splitlines()]
    receipts = {each["receipt"]["action"]: each["receipt"] for each in written if "receipt" in each}
    occurrences = 0
    for listed in await items(way, seen, "actions"):
        action = await way.json(f"/v1/runs/{seen.run}/actions/{listed['action_id']}", seen)
        for request in action["requests"]:
            body = json.loads(await way.content(seen, request["exchange_id"], request["attempt_id"], REQUEST))
            for each in request["occurrences"]:
                occurrences += 1
                carried = body["messages"][each["position"]]["content"]
                text = carried if isinstance(carried, str) else carried[-1]["text"]
                said = json.loads(text)
                if each["link"] == "unknown":
                    assert "error" in said
                elif each["view"]["form"] == "reference":
                    assert said["reference"] == action["action_id"]
                else:
                    assert said["result"] == receipts[action["action_id"]]["view"]
    assert occurrences > 20


async def test_an_answer_in_a_stream_is_captured_as_it_was_assembled(
    way: Journey, played: tuple[Capturing, Path, str]
):
    seen, _, _ = played
    output = json.loads(await way.content(seen, "harbour-2", "1", OUTPUT))
    calls = [each for each in output["choices"][0]["items"] if each["type"] == "tool_call"]
    assert [(each["id"], each["name"]) for each in calls] == [
        ("call_b1", "read_tool_result"), ("call_b2", "read_page"),
    ]  # fmt: skip
    assert (output["stream"]["streamed"], output["stream"]["state"]) == (True, "completed")
    (attempt,) = (await way.json("/v1/attempts", seen, ref=output["response_id"]))["items"]
    assert (attempt["exchange_id"], attempt["dispatch"], attempt["settlement"]) == (
        "harbour-2", "dispatched", "completed",
    )  # fmt: skip


async def test_surface_coverage_and_delivery_are_answered(way: Journey, played: tuple[Capturing, Path, str]):
    seen, _, _ = played
    checks = await items(way, seen, "surface")
    assert [(each["check"], each["verdict"], each["tools"]) for each in checks] == [
        ("early", "match", 5), ("final", "match", 5),
    ] * 11  # fmt: skip
    pages = await items(way, seen, "coverage")
    letters = [each for each in pages if each["action_id"].startswith("letters")]
    assert [(each["frontier"], each["ranges"], each["whole"]) for each in letters] == [
        (1398, [[0, 1398]], False),
        (1398, [[0, 1398], [1402, 2100]], False),
        (1398, [[0, 1398], [1402, 3197]], False),
        (3197, [[0, 3197]], True),
    ]
    assert letters[-1]["deviations"] == ["clamped", "self_computed", "skipped"]
    last = {each["item_id"]: (each["state"], each["code"]) for each in await items(way, seen, "delivery")}
    assert last == dict.fromkeys(
        ("harbour-section", "letters-section", "letters-whole", "report", "citations", "manifest"),
        ("met", None),
    )


async def test_a_refused_search_was_not_executed_and_its_refusal_is_no_result(
    way: Journey, played: tuple[Capturing, Path, str]
):
    seen, _, _ = played
    action = await way.json(f"/v1/runs/{seen.run}/actions/letters-1.1", seen)
    assert (action["executions"], action["row"], action["views"]) == (0, "refused_before_call", [])
    assert [(each["stage"], each["status"], each["code"]) for each in action["steps"]] == [
        ("admission", "refused", "search_budget_spent"),
        ("persistence", "persisted", None),
    ]
    assert {each["link"] for request in action["requests"] for each in request["occurrences"]} == {"unknown"}


async def test_a_tool_that_a_late_hook_adds_is_shown_as_not_dispatched(way: Journey, tmp_path: Path):
    seen, code, printed = await play(way, tmp_path / "late", "research-late", "--late-tool")
    assert (code, "pre_dispatch_rejected" in printed) == (1, True)
    checks = await items(way, seen, "surface")
    assert [(each["check"], each["verdict"]) for each in checks] == [
        ("early", "match"),
        ("final", "mismatch"),
    ]
    assert checks[1]["differences"] == [{"change": "added", "tool": "run_shell", "now": None, "at": None}]
    (attempt,) = (await way.json(f"/v1/runs/{seen.run}", seen))["timeline"]
    assert (attempt["exchange_id"], attempt["dispatch"], attempt["settlement"]) == (
        "harbour-1", "not_dispatched", "failed",
    )  # fmt: skip
    assert (await items(way, seen, "actions")) == []
    settled = [
        line["settled"]
        for line in map(json.loads, (tmp_path / "late" / "run.jsonl").read_bytes().splitlines())
        if "settled" in line
    ]
    assert [(each["settlement"], each["dispatch"]) for each in settled] == [
        ("pre_dispatch_rejected", "not_dispatched")
    ]


async def test_what_a_killed_run_had_sent_is_told_once(
    way: Journey, played: tuple[Capturing, Path, str], tmp_path: Path
):
    _, folder, _ = played
    seen, code, printed = await play(way, tmp_path / "killed", "research-1", killed=("receipt", 12))
    assert code == 0, printed
    action = await way.json(f"/v1/runs/{seen.run}/actions/{ACTION}", seen)
    assert (told_of(action), action["occurrences"], action["executions"]) == (CLASSIC, 2, 1)
    assert [each["status"] for each in action["steps"] if each["stage"] == "replay"] == ["replayed"]
    for name in ("report.md", "manifest.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (folder / name).read_bytes()


async def test_the_same_report_is_written_where_no_store_answers(
    way: Journey, played: tuple[Capturing, Path, str], tmp_path: Path
):
    _, folder, _ = played
    key = tmp_path / "none.key"
    key.write_text("ck_none")
    code, printed = await process(
        "toolchain.examples.research_batch",
        *("--folder", str(tmp_path / "away"), "--run", "research-1"),
        *("--url", way.api.url, "--key-file", str(key)),
    )
    assert code == 0
    assert " 0 parts, 0 facts" in printed
    for name in ("report.md", "manifest.json"):
        assert (tmp_path / "away" / name).read_bytes() == (folder / name).read_bytes()
