"""The example runs, alone and after a kill, and whoever watches it changes nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from custody_toolchain.coverage import Page
from custody_toolchain.facts import Fact
from custody_toolchain.observing import Report, Reporter
from custody_toolchain.surface import PreDispatchRejected
from custody_toolchain.tools import Action, Receipt, Turn
from toolchain.examples.research_batch import texts
from toolchain.examples.research_batch.__main__ import add_a_tool
from toolchain.examples.research_batch.batch import Batch
from toolchain.examples.research_batch.journal import Journal

EXAMPLES = Path(__file__).parent.parent / "examples"
README = (EXAMPLES / "research_batch" / "README.md").read_text()
FILES = {"run.jsonl", "report.md", "manifest.json"}
WAIT_S = 50.0
# There is no client of a store: neither is one needed.
ALONE = {"PYTHONPATH": str(EXAMPLES.parent / "src"), "PATH": os.environ["PATH"]}


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the example as its README says, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "research_batch", "--folder", str(folder), *more],
        cwd=EXAMPLES,
        env=ALONE,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "directory"),
    [("research_batch", EXAMPLES), ("toolchain.examples.research_batch", EXAMPLES.parent.parent)],
)
def test_its_usage_says_how_it_was_called(module: str, directory: Path):
    shown = subprocess.check_output(
        [sys.executable, "-m", module, "--help"], cwd=directory, env=ALONE, text=True
    )
    assert shown.startswith(f"usage: python -m {module} [-h]")


def kill(folder: Path, kind: str, number: int) -> None:
    """Run the example until that line is in its journal."""
    killed = subprocess.run(
        [sys.executable, "-m", "toolchain.tests.killed_example", kind, str(number), "--folder", str(folder)],
        cwd=EXAMPLES.parent.parent,
        env=ALONE | {"PYTHONPATH": f"{EXAMPLES.parent.parent}:{ALONE['PYTHONPATH']}"},
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL


def lines(folder: Path, kind: str) -> list[Any]:
    written = [json.loads(line) for line in (folder / "run.jsonl").read_bytes().splitlines()]
    return [line[kind] for line in written if kind in line]


def receipts(folder: Path) -> list[Any]:
    """All receipts that were saved, without how long anything took."""
    found = lines(folder, "receipt")
    for receipt in found:
        for step in receipt.values():
            if isinstance(step, dict):
                step.pop("duration_ms", None)
    return found


def made(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "report.md").read_bytes(), (folder / "manifest.json").read_bytes()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One whole run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("example") / "alone"
    done = run(folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout


def test_it_writes_one_report_whose_citations_stand_in_the_texts(alone):
    folder, _ = alone
    assert {path.name for path in folder.iterdir()} == FILES
    report = (folder / "report.md").read_text()
    cited = re.findall(r"^\d\. “(.+)” \((.+), byte (\d+)\)$", report, re.MULTILINE)
    assert {path for _, path, _ in cited} == {"harbour-log.txt", "keepers-letters.txt"}
    for quote, path, offset in cited:
        assert texts.content(path)[int(offset) :].startswith(quote.encode())
    assert (
        not texts.content("keepers-letters.txt")
        .decode()
        .partition("Ása, the ferryman's")[2]
        .strip()
        .count("\n")
    )


def test_it_prints_what_its_page_shows(alone):
    _, printed = alone
    (shown,) = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(shown.splitlines()) > 10
    assert set(shown.splitlines()) - set(printed.splitlines()) == {"…"}
    modules = {path.name for path in (EXAMPLES / "research_batch").glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"^\| `(\w+\.py)` \|", README, re.MULTILINE)) == modules


def test_pages_are_cut_between_characters_and_a_gap_is_read_before_it_is_done(alone):
    folder, _ = alone
    data = texts.content("keepers-letters.txt")
    pages = [
        each["held"] for each in lines(folder, "receipt") if each["tool"] == "read_page" and "held" in each
    ]
    letters = [each for each in pages if each["path"] == "keepers-letters.txt"]
    assert [(each["offset"], each["next_offset"]) for each in letters] == [
        (0, 1398), (1402, 2100), (2100, None), (1398, 1402),
    ]  # fmt: skip
    # A character of four bytes at the first cut, one of three at the second.
    assert (data[1398:1402].decode(), data[2100:2103].decode()) == ("🌊", "☁")
    coverage = [each for each in lines(folder, "fact") if each["type"] == "coverage"]
    assert ["self_computed" in each.get("deviations", ()) for each in coverage].count(True) == 3
    last = json.loads((folder / "manifest.json").read_bytes())["texts"][1]
    assert (last["whole"], last["read"], last["deviations"]) == (
        True, [[0, len(data)]], ["clamped", "self_computed", "skipped"],
    )  # fmt: skip
    delivered = [each for each in lines(folder, "fact") if each.get("item") == "letters-whole"]
    assert [(each["state"], each.get("code")) for each in delivered] == [
        ("missing", "not_read"), ("partial", "gap"), ("met", None), ("met", None),
    ]  # fmt: skip


def test_each_action_has_steps_of_its_own_and_a_refused_one_was_not_run(alone):
    folder, _ = alone
    steps = {each["exchange"]: each["steps"] for each in lines(folder, "steps")}
    told = [(each["step"], each["outcome"], each.get("ordinal")) for each in steps["letters-1"]]
    assert told == [
        ("plan_parse", "done", None),
        ("policy_check", "done", 0), ("tool_run", "done", 0), ("tool_commit", "done", 0),
        ("policy_check", "refused", 1),
    ]  # fmt: skip


def test_two_runs_make_the_same_report_manifest_requests_and_receipts(alone, tmp_path):
    folder, printed = alone
    again = run(tmp_path)
    assert made(tmp_path) == made(folder)
    assert receipts(tmp_path) == receipts(folder)
    assert lines(tmp_path, "sent") == lines(folder, "sent")
    assert again.stdout.replace(str(tmp_path), "") == printed.replace(str(folder), "")


@pytest.mark.parametrize(
    ("kind", "number", "sent_again"),
    [
        ("receipt", 2, 0),  # the first of three calls of one answer
        ("receipt", 15, 0),  # a refusal
        ("receipt", 21, 0),  # the last section, before its reservation is closed
        ("answer", 7, 0),
        ("sent", 7, 1),  # on its way: nobody knows whether it arrived
    ],
)
def test_a_killed_run_goes_on_and_nothing_is_done_twice(alone, tmp_path, kind, number, sent_again):
    folder, _ = alone
    kill(tmp_path, kind, number)
    assert len(lines(tmp_path, kind)) == number
    assert not (tmp_path / "report.md").exists()
    # Of what it was about to write next, a part is there.
    with (tmp_path / "run.jsonl").open("ab") as journal:
        journal.write(b'{"receipt":{"run":"rese')
    resumed = run(tmp_path)
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert made(tmp_path) == made(folder)
    assert receipts(tmp_path) == receipts(folder)
    assert {each.get("executions", 0) for each in receipts(tmp_path)} == {0, 1}
    hooks = Counter((each["hook"], each["action"]) for each in lines(tmp_path, "hook"))
    assert set(hooks.values()) == {1}
    assert hooks == Counter((each["hook"], each["action"]) for each in lines(folder, "hook"))
    reserved = [each["id"] for each in lines(tmp_path, "reserved")]
    assert len(set(reserved)) == len(reserved)
    assert Counter(lines(tmp_path, "closed")) == Counter(reserved)
    attempts = Counter(each["exchange"] for each in lines(tmp_path, "sent"))
    assert sorted(attempts.values()) == [1] * (11 - sent_again) + [2] * sent_again


def test_killed_while_a_tool_is_at_work_it_is_executed_again_and_the_receipt_says_two(alone, tmp_path):
    folder, _ = alone
    kill(tmp_path, "receipt", 5)
    assert lines(tmp_path, "receipt")[-1]["execution"]["status"] == "started"
    assert run(tmp_path).returncode == 0
    executions = {each["action"]: each.get("executions", 0) for each in receipts(tmp_path)}
    assert [action for action, count in executions.items() if count == 2] == ["harbour-1.2"]
    assert Counter(lines(tmp_path, "closed")) == Counter(each["id"] for each in lines(tmp_path, "reserved"))
    assert made(tmp_path)[0] == made(folder)[0]


def test_a_finished_run_that_is_run_again_does_nothing_and_says_the_same(alone, tmp_path):
    folder, printed = alone
    (tmp_path / "run.jsonl").write_bytes((folder / "run.jsonl").read_bytes())
    again = run(tmp_path)
    assert again.stdout.replace(str(tmp_path), "") == printed.replace(str(folder), "")
    assert made(tmp_path) == made(folder)
    for kind in ("run", "receipt", "hook", "sent", "reserved"):
        assert len(lines(tmp_path, kind)) == len(lines(folder, kind)), kind


def play(folder: Path, report: Report, **changes: Any) -> Batch:
    folder.mkdir(exist_ok=True)
    journal = Journal(folder / "run.jsonl")
    try:
        playing = Batch(folder, "research-batch", journal, report, **changes)
        assert not playing.play().missing
        return playing
    finally:
        journal.close()


def spoiling(seen: Fact) -> None:
    for name in seen.__struct_fields__:
        msgspec.structs.force_setattr(seen, name, "spoilt")


def raising(_: Fact) -> None:
    raise RuntimeError


@pytest.mark.parametrize("observer", ["spoiling", "raising", "hanging", "raising at once"])
def test_requests_receipts_and_report_are_the_same_whatever_an_observer_does(alone, tmp_path, observer):
    folder, _ = alone
    go_on, called = threading.Event(), threading.Event()

    def seen(fact: Fact) -> None:
        called.set()
        if observer == "hanging":
            go_on.wait(WAIT_S)
        elif observer == "spoiling":
            spoiling(fact)
        else:
            raising(fact)

    with Reporter(seen, most_waiting=4) as reporter:
        play(tmp_path, seen if observer == "raising at once" else reporter.report)
        assert called.wait(WAIT_S)
        go_on.set()
    assert lines(tmp_path, "sent") == lines(folder, "sent")
    assert receipts(tmp_path) == receipts(folder)
    assert made(tmp_path) == made(folder)


def test_a_tool_that_a_late_hook_adds_is_refused_before_dispatch_and_settled(tmp_path):
    refused = run(tmp_path, "--late-tool")
    assert refused.returncode == 1
    assert refused.stdout == "refused before dispatch: tools_changed (added), pre_dispatch_rejected\n"
    assert lines(tmp_path, "sent") == lines(tmp_path, "answer") == lines(tmp_path, "receipt") == []
    assert lines(tmp_path, "settled") == [
        {"exchange": "harbour-1", "settlement": "pre_dispatch_rejected", "dispatch": "not_dispatched"}
    ]
    assert (
        lines(tmp_path, "closed")
        == [each["id"] for each in lines(tmp_path, "reserved")]
        == ["model.harbour-1"]
    )


def test_a_run_whose_request_was_refused_goes_on_once_its_extension_behaves(alone, tmp_path):
    folder, _ = alone
    journal = Journal(tmp_path / "run.jsonl")
    with pytest.raises(PreDispatchRejected):
        Batch(tmp_path, "research-batch", journal, lambda _: None, late=[add_a_tool]).play()
    journal.close()
    play(tmp_path, lambda _: None)
    assert made(tmp_path) == made(folder)


def test_a_description_that_an_extension_changes_is_refused_at_once(tmp_path):
    def embellish(request: dict[str, Any]) -> None:
        request["tools"][1]["function"]["description"] += " Prefer this one."

    journal = Journal(tmp_path / "run.jsonl")
    with pytest.raises(PreDispatchRejected) as refused:
        Batch(tmp_path, "research-batch", journal, lambda _: None, extensions=[embellish]).play()
    journal.close()
    (difference,) = refused.value.rejection.differences
    assert (refused.value.rejection.check, difference.change, difference.tool) == (
        "early",
        "description",
        "search",
    )
    assert lines(tmp_path, "sent") == []
    assert lines(tmp_path, "closed") == ["model.harbour-1"]


def test_messages_may_be_compressed_by_an_extension(alone, tmp_path):
    folder, _ = alone

    def shorten(request: dict[str, Any]) -> None:
        request["messages"] = request["messages"][1:]

    play(tmp_path, lambda _: None, extensions=[shorten])
    assert {len(each["request"]["messages"]) for each in lines(tmp_path, "sent")} != {
        len(each["request"]["messages"]) for each in lines(folder, "sent")
    }
    assert receipts(tmp_path) == receipts(folder)


def test_a_citation_of_what_was_not_read_is_refused_and_a_wrong_one_fails(tmp_path):
    journal = Journal(tmp_path / "run.jsonl")
    playing = Batch(tmp_path, "research-batch", journal, lambda _: None)

    def wrote(name: str, quote: str) -> Receipt:
        citation = {"path": "notice-board.txt", "offset": 0, "quote": quote}
        arguments = {"section": "harbour", "text": "So.", "citations": [citation]}
        action = Action(name, "write_report", arguments)
        about = playing._gates.available("research-batch", name)
        return playing._host.run(Turn("research-batch", about), action).receipt

    refused = wrote("a-1", "Notices").admission
    assert refused is not None
    assert (refused.status, refused.code, refused.retryable) == ("refused", "not_read", True)
    page = Page("notice-board.txt", 0, 100, 0, 100, 100)
    playing.coverage.read(page)
    failed = wrote("a-2", "Rumours").execution
    assert failed is not None
    assert (failed.status, failed.code) == ("failed", "misquoted")
    assert wrote("a-3", "Notices").answer().ok
    journal.close()
