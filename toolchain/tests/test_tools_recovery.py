"""A process is killed and resumed: what has a receipt is not done again, and what has none is said to be unknown."""

import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from custody_toolchain.facts import Stage, Status
from custody_toolchain.tools import Owner, Refuse, audit
from toolchain.tests.owned import ROWS, TURN, Runtime, action
from toolchain.tests.resumed import Files


def start(folder, *options):
    command = [sys.executable, "-m", "toolchain.tests.resumed", str(folder), *options]
    return subprocess.run(command, check=False, timeout=50).returncode


def logs(folder, name):
    return Counter(Files(folder, "").read(name))


def answers(folder):
    return msgspec.json.decode((folder / "report.json").read_bytes())


@pytest.mark.parametrize("where", ["receipt-1", "receipt-2", "receipt-3"])
def test_killed_after_a_receipt_and_resumed_nothing_is_done_again(tmp_path, where):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir()
    killed.mkdir()
    assert start(straight) == 0
    assert start(killed, where) == -signal.SIGKILL
    assert not (killed / "report.json").exists()
    assert start(killed) == 0
    for name in ("executed", "before", "after"):
        assert logs(killed, name) == Counter(["a1", "a2", "a3"]), name
    assert (killed / "report.json").read_bytes() == (straight / "report.json").read_bytes()
    assert logs(killed, "closed") == logs(killed, "reserved") == logs(straight, "reserved")
    assert start(killed) == 0
    assert logs(killed, "executed") == Counter(["a1", "a2", "a3"])


@pytest.mark.parametrize(("where", "executions"), [("mark-2", 1), ("tool-2", 2)])
def test_killed_before_a_receipt_a_repeatable_tool_is_executed_again_and_both_count(
    tmp_path, where, executions
):
    assert start(tmp_path, where) == -signal.SIGKILL
    assert start(tmp_path) == 0
    assert logs(tmp_path, "executed")["a2"] == executions
    receipt = Files(tmp_path, "").load("run-1", "a2")
    assert receipt is not None
    # Also where it was only about to be started: nobody can tell afterwards.
    assert receipt.executions == 2
    assert receipt.result_ref is not None
    assert receipt.result_ref.version == 2
    assert logs(tmp_path, "closed") == logs(tmp_path, "reserved")
    assert set(logs(tmp_path, "closed").values()) == {1}


def test_killed_before_a_receipt_any_other_tool_is_refused_because_nobody_knows(tmp_path):
    assert start(tmp_path, "tool-2", "once") == -signal.SIGKILL
    assert start(tmp_path, "", "once") == 0
    assert logs(tmp_path, "executed") == Counter(["a1", "a2", "a3"])
    told = answers(tmp_path)
    assert told[1]["refusal"]["code"] == "outcome_unknown"
    assert [answer["refusal"] is None for answer in told] == [True, False, True]
    assert logs(tmp_path, "closed") == logs(tmp_path, "reserved")


def test_a_receipt_of_an_older_schema_is_for_audit_only(tmp_path):
    assert start(tmp_path) == 0
    assert start(tmp_path, "", "newer") == 0
    assert [answer["refusal"]["code"] for answer in answers(tmp_path)] == ["schema_version"] * 3
    assert logs(tmp_path, "executed") == Counter(["a1", "a2", "a3"])
    receipt = Files(tmp_path, "").load("run-1", "a1")
    assert receipt is not None
    assert receipt.schema_version == 1
    assert audit(receipt)["held"]["lines"] == ["one", "two", "three"]


# In one process


def replayed(runtime, **said):
    host = runtime.host(**said)
    host.run(TURN, action())
    runtime.calls.clear()
    runtime.facts.clear()
    return host


def test_a_replay_asks_for_the_receipt_and_does_nothing_else():
    runtime = Runtime()
    hooked: list[Any] = []
    host = replayed(runtime, before=[hooked.append], after=[hooked.append], on_failure=[hooked.append])
    outcome = host.run(TURN, action())
    assert runtime.calls == ["load", "is_open"]
    assert len(hooked) == 2
    assert outcome.replayed
    assert outcome.raw is None
    assert outcome.receipt.executions == 1
    assert runtime.stages() == [("replay", "replayed")]
    assert outcome.answer.view == {"rows": ROWS}


def test_each_replay_is_a_fact_of_its_own():
    runtime = Runtime()
    host = replayed(runtime)
    host.run(TURN, action())
    host.run(TURN, action())
    assert len({fact.fact for fact in runtime.facts}) == 2


def test_a_failure_is_replayed_as_the_failure_that_it_was():
    runtime = Runtime()
    runtime.fail["execute"] = ValueError()
    host = replayed(runtime)
    runtime.fail.clear()
    outcome = host.run(TURN, action())
    assert outcome.replayed
    assert not outcome.answer.ok
    assert len(runtime.executed) == 1


@pytest.mark.parametrize(
    "other", [{"arguments": {"ticker": "INIT"}}, {"call_id": "call-9"}, {"tool": "quotas"}], ids=str
)
def test_one_id_for_two_actions_is_a_conflict(other):
    runtime = Runtime()
    host = replayed(runtime)
    outcome = host.run(TURN, action(**other))
    assert outcome.answer.refusal.code == "identity_conflict"
    assert outcome.answer.view is None
    assert runtime.stages() == [("replay", "refused")]


def test_the_same_id_in_another_run_is_another_action():
    runtime = Runtime()
    host = replayed(runtime)
    assert not host.run(replace_run(TURN), action()).replayed
    assert len(runtime.executed) == 2


def replace_run(turn):
    return msgspec.structs.replace(turn, run="run-2")


def test_an_action_made_for_an_older_schema_is_never_executed():
    runtime = Runtime()
    outcome = runtime.host().run(TURN, action(schema_version=1))
    assert outcome.answer.refusal.code == "schema_version"
    assert runtime.executed == []
    assert runtime.host().run(TURN, action("a2", schema_version=2)).answer.ok


def test_the_owner_may_keep_an_old_result_from_being_given_again():
    runtime = Runtime()
    mine = runtime.owner()
    owner = Owner(
        mine.admit, mine.authorise, mine.receipts, mine.reservations, lambda *_: Refuse("source_revoked")
    )
    outcome = replayed(runtime, owner=owner).run(TURN, action())
    assert outcome.answer.refusal.code == "source_revoked"
    assert outcome.answer.refusal.stage is Stage.REPLAY
    assert not outcome.replayed
    assert len(runtime.executed) == 1


def test_executed_anew_is_a_new_version_and_a_new_reservation():
    runtime = Runtime()
    host = replayed(runtime)
    outcome = host.run(TURN, action(), anew=True)
    assert outcome.receipt.executions == 2
    assert outcome.answer.result.version == 2
    assert [call.execution for call in runtime.executed] == [1, 2]
    assert runtime.authorised == [1, 2]
    assert runtime.balanced
    assert len({reservation for _, reservation in runtime.book}) == 2


def test_a_refusal_to_execute_anew_leaves_the_receipt_as_it_was():
    runtime = Runtime()
    host = replayed(runtime)
    runtime.answers["admit"] = Refuse("no_more")
    assert not host.run(TURN, action(), anew=True).answer.ok
    assert host.run(TURN, action()).answer.view == {"rows": ROWS}


def test_a_receipt_of_another_action_is_not_taken_for_this_one():
    runtime = Runtime()
    host = replayed(runtime)
    runtime.kept["run-1", "a2"] = runtime.kept["run-1", "a1"]
    outcome = host.run(TURN, action("a2"))
    assert outcome.answer.refusal.code == "not_that_receipt"


def test_a_receipt_that_holds_no_json_is_not_taken_and_nothing_is_executed_for_it():
    runtime = Runtime()
    host = replayed(runtime)
    runtime.kept["run-1", "a1"] = msgspec.structs.replace(runtime.kept["run-1", "a1"], view={"rows": {1, 2}})
    before = len(runtime.executed)
    outcome = host.run(TURN, action())
    assert outcome.answer.refusal.code == "not_that_receipt"
    assert len(runtime.executed) == before


def test_a_receipt_is_the_same_after_its_json():
    runtime = Runtime()
    replayed(runtime)
    receipt = runtime.kept["run-1", "a1"]
    again = msgspec.json.decode(msgspec.json.encode(receipt), type=type(receipt))
    assert again == receipt
    assert again.answer() == receipt.answer()


def test_an_open_reservation_of_a_killed_process_is_settled_once():
    runtime = Runtime()
    replayed(runtime)
    runtime.book = [turn for turn in runtime.book if turn[0] == "made"]
    receipt = runtime.kept["run-1", "a1"]
    fresh = runtime.host()
    assert fresh.run(TURN, action()).replayed
    assert fresh.run(TURN, action()).replayed
    assert runtime.balanced
    assert runtime.settlements[-1].status is Status.SUCCEEDED
    assert receipt == runtime.kept["run-1", "a1"]


def test_a_tool_that_is_gone_has_no_replay():
    runtime = Runtime()
    replayed(runtime)
    gone = runtime.host(replace(runtime.tool(), name="other"))
    assert gone.run(TURN, action()).answer.refusal.code == "schema_version"
