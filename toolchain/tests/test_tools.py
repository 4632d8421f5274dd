"""One entry: what is not admitted is not executed, what failed is no success, and each stage says so for itself."""

import asyncio
import json
import signal
import threading
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from custody_toolchain.facts import Form, Stage, StageFact, Status, Unit, View, encode
from custody_toolchain.ids import ResultRef
from custody_toolchain.tools import (
    Block,
    Failure,
    Held,
    Normalise,
    Owner,
    Project,
    Receipt,
    Refuse,
    ToolFailed,
    Turn,
    Withhold,
    WithinItself,
    WouldWaitForEver,
    by_call_id,
)
from toolchain.tests.owned import ROWS, SCHEMA, TURN, Runtime, action

SECRET = "SECRET-token-7f3a"


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def runtime(request):
    return Runtime(later=request.param)


def taken(runtime, host, *given, **said):
    """Run through the entry that suits the runtime's functions."""
    if runtime.later:
        return asyncio.run(host.arun(*given, **said))
    return host.run(*given, **said)


def first_five(held):
    return Project({"rows": held["rows"][:5]})


def test_the_stages_come_in_their_order(runtime):
    def before(proposed):
        runtime.calls.append("before")

    def after(projected):
        runtime.calls.append("after")

    outcome = taken(runtime, runtime.host(before=[before], after=[after]), TURN, action())
    assert runtime.calls == [
        "load", "admit", "before", "authorise", "reserve", "save", "execute", "after", "save", "settle",
    ]  # fmt: skip
    assert runtime.stages() == [
        ("admission", "admitted"),
        ("reservation", "reserved"),
        ("execution", "started"),
        ("execution", "succeeded"),
        ("projection", "projected"),
        ("persistence", "persisted"),
        ("reservation", "settled"),
    ]
    assert outcome.answer.ok
    assert outcome.persisted
    assert outcome.answer.result == ResultRef("run-1", "a1", 1)
    assert [receipt.finished for receipt in runtime.saved] == [False, True]
    assert runtime.settlements[0].status is Status.SUCCEEDED


def test_every_fact_of_a_host_is_a_fact(runtime):
    taken(runtime, runtime.host(runtime.tool(project=first_five)), TURN, action(call_id="c" * 300))
    taken(runtime, runtime.host(), TURN, action("a2", tool=SECRET * 20))
    assert len(runtime.facts) > 7
    for fact in runtime.facts:
        assert SECRET.encode() not in encode(fact)


@pytest.mark.parametrize("gate", ["admit", "authorise", "reserve"])
def test_a_gates_no_goes_to_the_model_and_nothing_is_executed(runtime, gate):
    runtime.answers[gate] = Refuse("over_budget", "Ask for less.")
    outcome = taken(runtime, runtime.host(), TURN, action())
    assert runtime.executed == []
    assert not outcome.answer.ok
    assert outcome.answer.refusal.code == "over_budget"
    assert outcome.answer.refusal.stage is (Stage.RESERVATION if gate == "reserve" else Stage.ADMISSION)
    assert msgspec.json.decode(outcome.answer.text())["error"]["message"] == "Ask for less."
    assert outcome.receipt.execution is None
    assert outcome.receipt.executions == 0
    assert runtime.balanced
    assert runtime.kept["run-1", "a1"] == outcome.receipt


@pytest.mark.parametrize("gate", ["admit", "authorise", "reserve"])
@pytest.mark.parametrize("odd", [True, None, "allow"], ids=repr)
def test_what_is_no_clear_yes_of_a_gate_is_a_no(runtime, gate, odd):
    runtime.answers[gate] = odd
    if odd is None:
        runtime.answers[gate] = 0
    outcome = taken(runtime, runtime.host(), TURN, action())
    assert runtime.executed == []
    assert not outcome.answer.ok


@pytest.mark.parametrize("gate", ["admit", "authorise", "reserve"])
def test_a_gate_that_raises_is_an_outage_that_may_be_tried_again(runtime, gate):
    runtime.fail[gate] = ConnectionError(SECRET)
    host = runtime.host()
    outcome = taken(runtime, host, TURN, action())
    assert runtime.executed == []
    assert outcome.answer.refusal.code.endswith("_failed")
    assert runtime.balanced
    assert runtime.kept == {}
    runtime.fail.clear()
    assert taken(runtime, host, TURN, action()).answer.ok
    assert runtime.balanced
    assert SECRET not in outcome.answer.text()


def test_an_owner_may_let_the_same_action_be_tried_again(runtime):
    runtime.answers["reserve"] = Refuse("busy", retryable=True)
    host = runtime.host()
    assert not taken(runtime, host, TURN, action()).answer.ok
    del runtime.answers["reserve"]
    assert taken(runtime, host, TURN, action()).answer.ok


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (ToolFailed("no_such_day", "There is no such day."), Status.FAILED, "no_such_day"),
        (ToolFailed(f"the token {SECRET} is wrong"), Status.FAILED, "other"),
        (ValueError(SECRET), Status.FAILED, "tool_raised"),
        (TimeoutError(SECRET), Status.TIMED_OUT, "timed_out"),
        (StopIteration(SECRET), Status.FAILED, "tool_raised"),
    ],
    ids=["own word", "a sentence for a word", "anything", "time", "StopIteration"],
)
def test_a_tools_error_is_a_failed_execution_and_no_secret(raised, status, code):
    runtime = Runtime()
    runtime.fail["execute"] = raised
    told: list[Any] = []
    outcome = runtime.host(on_failure=[told.append]).run(TURN, action())
    assert outcome.receipt.execution.status is status
    assert outcome.receipt.execution.code == code
    assert outcome.receipt.projection is None
    assert not outcome.receipt.has_held
    assert not outcome.answer.ok
    assert raised in {outcome.cause, outcome.cause.__cause__}
    assert [(failure.stage, failure.status) for failure in told] == [(Stage.EXECUTION, status)]
    assert runtime.balanced
    shown = outcome.answer.text() + msgspec.json.encode(outcome.receipt).decode()
    assert SECRET not in shown


def test_a_slow_tool_is_ended_at_its_time_and_only_then_settled():
    runtime = Runtime(later=True)
    ended = []

    async def slow(call):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(list(runtime.book))

    tool = replace(runtime.tool(timeout_s=0.01), execute=slow)
    outcome = asyncio.run(runtime.host(tool).arun(TURN, action()))
    assert outcome.receipt.execution.status is Status.TIMED_OUT
    assert outcome.answer.refusal.retryable
    assert [[what for what, _ in book] for book in ended] == [["made"]]
    assert runtime.balanced


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({}, [("/ticker", "required")]),
        ({"ticker": "ACME", "days": 0}, [("/days", "minimum")]),
        ({"ticker": "ACME", "day": 1}, [("/day", "additionalProperties")]),
        ({"ticker": 7}, [("/ticker", "type")]),
        ("ticker=ACME", [("", "type")]),
        (None, [("", "type")]),
    ],
    ids=str,
)
def test_arguments_are_validated_before_anything_is_reserved(runtime, arguments, faults):
    outcome = taken(runtime, runtime.host(), TURN, action(arguments=arguments))
    assert [(fault.at, fault.rule) for fault in outcome.answer.refusal.faults] == faults
    assert outcome.answer.refusal.code == "invalid_arguments"
    assert {"reserve", "execute"}.isdisjoint(runtime.calls)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": "n" * 129}, {"version": -1}], ids=str)
def test_a_tool_whose_name_or_version_no_fact_could_carry_is_refused(wrong):
    with pytest.raises(ValueError, match=r"name|versions"):
        Runtime().tool(**wrong)


def test_no_repr_shows_content(runtime):
    runtime.output = {"rows": [SECRET]}
    runtime.fail["settle"] = ValueError(SECRET)
    tool = runtime.tool(schema={**SCHEMA, "additionalProperties": True})
    seen: list[Any] = []
    host = runtime.host(tool, before=[seen.append], after=[seen.append])
    one = action(arguments={"ticker": "ACME", "note": SECRET})
    outcome = taken(runtime, host, TURN, one)
    assert outcome.answer.ok
    for thing in (one, *seen, *runtime.executed, outcome, outcome.receipt, outcome.answer):
        assert SECRET not in repr(thing)
        assert "a1" in repr(thing)


def test_an_unknown_tool_is_refused_and_its_name_is_in_no_fact(runtime):
    outcome = taken(runtime, runtime.host(), TURN, action(tool="quotas"))
    assert outcome.answer.refusal.code == "unknown_tool"
    assert [fact.tool for fact in runtime.facts] == ["unknown"] * 2
    assert runtime.executed == []


async def gives_up(*_):
    """Wait for a request that was shared, say, and that somebody else has cancelled."""
    shared = asyncio.create_task(asyncio.sleep(60))
    shared.cancel()
    await shared


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("execute", "tool_raised"),
        ("hold", "hold_failed"),
        ("before", "hook_failed"),
        ("after", "hook_failed"),
        ("admit", "admission_failed"),
        ("load", "receipts_unavailable"),
    ],
)
def test_what_somebody_else_cancelled_is_a_failure_and_no_cancellation_of_the_action(where, code):
    runtime = Runtime(later=True)
    owner = runtime.owner()
    if where == "admit":
        owner = replace(owner, admit=gives_up)
    if where == "load":
        owner.receipts.load = gives_up  # type: ignore[method-assign] # the test's own
    tool = runtime.tool()
    if where == "execute":
        tool = replace(tool, execute=gives_up)
    if where == "hold":
        tool = replace(tool, hold=gives_up)
    hooks = {where: [gives_up]} if where in {"before", "after"} else {}
    host = runtime.host(tool, owner=owner, on_failure=[gives_up], **hooks)
    outcome = asyncio.run(host.arun(TURN, action()))
    assert outcome.answer.refusal.code == code
    assert host.counts.failure_hooks_failed == 1
    assert runtime.balanced


# Before-hooks


def alias(arguments):
    return {**arguments, "ticker": {"Acme Inc.": "ACME"}.get(arguments["ticker"], arguments["ticker"])}


def test_a_declared_rule_normalises_and_both_arguments_are_kept(runtime):
    tool = runtime.tool(rules={"tickers": alias})
    host = runtime.host(tool, before=[lambda _: Normalise("tickers")])
    outcome = taken(runtime, host, TURN, action(arguments={"ticker": "Acme Inc."}))
    assert outcome.receipt.original_arguments == {"ticker": "Acme Inc."}
    assert outcome.receipt.effective_arguments == {"ticker": "ACME"}
    assert outcome.receipt.arguments_changed
    assert runtime.executed[0].arguments == {"ticker": "ACME"}
    told = [fact for fact in runtime.facts if fact.stage is Stage.ADMISSION]
    assert [fact.arguments_changed for fact in told] == [True]


def test_only_a_declared_rule_normalises(runtime):
    outcome = taken(runtime, runtime.host(before=[lambda _: Normalise("tickers")]), TURN, action())
    assert outcome.answer.refusal.code == "hook_failed"
    assert runtime.executed == []


def test_a_hook_that_hands_in_arguments_of_its_own_is_refused(runtime):
    outcome = taken(runtime, runtime.host(before=[lambda _: {"ticker": "INIT"}]), TURN, action())
    assert outcome.answer.refusal.code == "hook_failed"
    assert runtime.executed == []


def test_changed_arguments_are_validated_and_authorised_again(runtime):
    seen = []

    def authorise(turn, call):
        seen.append(dict(call.arguments))
        return Refuse("not_init") if call.arguments["ticker"] == "INIT" else runtime.answers["allow"]

    rules = {"to_init": lambda it: {**it, "ticker": "INIT"}, "to_bad": lambda it: {**it, "days": 99}}
    mine = runtime.owner()
    owner = Owner(mine.admit, authorise, mine.receipts, mine.reservations)
    tool = runtime.tool(rules=rules)
    refused = taken(
        runtime, runtime.host(tool, owner=owner, before=[lambda _: Normalise("to_init")]), TURN, action()
    )
    assert refused.answer.refusal.code == "not_init"
    assert seen == [{"ticker": "INIT"}]
    invalid = taken(
        runtime, runtime.host(tool, owner=owner, before=[lambda _: Normalise("to_bad")]), TURN, action("a2")
    )
    assert [fault.rule for fault in invalid.answer.refusal.faults] == ["maximum"]
    assert runtime.executed == []


def test_hooks_and_gates_see_copies_that_nobody_can_change(runtime):
    seen = []

    def before(proposed):
        seen.append(proposed.arguments)
        with pytest.raises(TypeError):
            proposed.arguments["ticker"] = "INIT"
        with pytest.raises(TypeError):
            proposed.original_arguments["ticker"] = "INIT"

    def after(projected):
        with pytest.raises(TypeError):
            projected.held["rows"][0]["quote"] = 0
        with pytest.raises(AttributeError):
            projected.view["rows"].append({})

    given = {"ticker": "ACME"}
    outcome = taken(runtime, runtime.host(before=[before], after=[after]), TURN, action(arguments=given))
    assert outcome.answer.ok
    assert isinstance(seen[0], MappingProxyType)
    assert outcome.answer.view == {"rows": ROWS}


def test_a_tool_that_changes_its_arguments_changes_no_record(runtime):
    tool = runtime.tool()
    inner = tool.execute

    def execute(call):
        call.arguments["ticker"] = "INIT"
        return inner(call)

    tool = replace(tool, execute=execute)
    outcome = taken(runtime, runtime.host(tool), TURN, action())
    assert outcome.receipt.effective_arguments == {"ticker": "ACME"}
    assert runtime.kept["run-1", "a1"].effective_arguments == {"ticker": "ACME"}


def test_who_changes_an_outcome_changes_no_receipt(runtime):
    host = runtime.host()
    outcome = taken(runtime, host, TURN, action())
    outcome.receipt.held["rows"].clear()
    outcome.answer.view["rows"].clear()
    assert taken(runtime, host, TURN, action()).answer.view == {"rows": ROWS}


def test_a_before_hook_blocks(runtime):
    host = runtime.host(before=[lambda _: Block("not_now", "Later.", retryable=True)])
    outcome = taken(runtime, host, TURN, action())
    assert (outcome.answer.refusal.code, outcome.answer.refusal.retryable) == ("not_now", True)
    assert runtime.calls == ["load", "admit"]


def test_a_before_hook_that_raises_keeps_the_tool_from_being_called(runtime):
    def raising(_):
        raise ValueError(SECRET)

    told: list[Any] = []
    outcome = taken(runtime, runtime.host(before=[raising], on_failure=[told.append]), TURN, action())
    assert outcome.answer.refusal.code == "hook_failed"
    assert outcome.answer.refusal.stage is Stage.ADMISSION
    assert [failure.stage for failure in told] == [Stage.ADMISSION]
    assert runtime.executed == []
    assert SECRET not in outcome.answer.text()


def test_a_hook_that_hangs_is_given_up_at_its_time():
    runtime = Runtime(later=True)

    async def hang(_):
        await asyncio.Event().wait()

    before = runtime.host(before=[hang], hook_timeout_s=0.01)
    after = runtime.host(after=[hang], hook_timeout_s=0.01)
    assert asyncio.run(before.arun(TURN, action())).answer.refusal.code == "hook_failed"
    outcome = asyncio.run(after.arun(TURN, action("a2")))
    assert outcome.receipt.execution.status is Status.SUCCEEDED
    assert outcome.receipt.projection.status is Status.FAILED
    assert runtime.balanced


# Projection


def test_raw_output_held_result_and_view_are_three_things(runtime):
    runtime.output = b'{"rows": [[1, 10], [2, 20], [3, 30]]}'
    tool = runtime.tool(
        hold=lambda raw: Held(msgspec.json.decode(raw), source_whole=False),
        project=lambda held: Project({"rows": held["rows"][:2]}),
    )
    outcome = taken(runtime, runtime.host(tool), TURN, action())
    assert outcome.raw == runtime.output
    assert outcome.receipt.held == {"rows": [[1, 10], [2, 20], [3, 30]]}
    assert outcome.answer.view == {"rows": [[1, 10], [2, 20]]}
    assert outcome.receipt.form == View(Form.PARTIAL, Unit.ROWS, 0, 2, 3, source_whole=False)
    told = next(fact for fact in runtime.facts if fact.stage is Stage.PROJECTION)
    assert told.view == outcome.receipt.form
    assert told.result_version == 1


@pytest.mark.parametrize("by", ["tool", "hook"])
def test_no_quote_is_never_made_into_zero(runtime, by):
    def zero(seen):
        rows = seen["rows"] if by == "tool" else seen.held["rows"]
        return Project({"rows": [{**row, "quote": row["quote"] or 0} for row in rows]})

    told: list[Any] = []
    tool = runtime.tool(project=zero) if by == "tool" else runtime.tool()
    host = runtime.host(tool, after=[zero] if by == "hook" else [], on_failure=[told.append])
    outcome = taken(runtime, host, TURN, action())
    assert outcome.receipt.execution.status is Status.SUCCEEDED
    assert outcome.receipt.projection.status is Status.FAILED
    assert outcome.receipt.projection.code == "view_altered"
    assert outcome.receipt.held == {"rows": ROWS}
    assert not outcome.answer.ok
    assert [failure.stage for failure in told] == [Stage.PROJECTION]


def test_remarks_stay_apart_from_facts(runtime):
    remark = "no quote on day 3"
    host = runtime.host(after=[lambda seen: Project(seen.view, remarks=(remark,))])
    outcome = taken(runtime, host, TURN, action())
    assert outcome.receipt.remarks == (remark,)
    assert outcome.answer.view == {"rows": ROWS}
    assert msgspec.json.decode(outcome.answer.text()) == {"result": {"rows": ROWS}, "remarks": [remark]}
    assert outcome.receipt.form.form is Form.FULL


def test_no_hook_shows_again_what_another_left_out(runtime):
    host = runtime.host(runtime.tool(project=first_five), after=[lambda seen: Project(seen.held)])
    outcome = taken(runtime, host, TURN, action())
    assert outcome.receipt.projection.code == "view_altered"
    hidden = runtime.host(after=[lambda _: Withhold(), lambda seen: Project(seen.held)])
    assert taken(runtime, hidden, TURN, action("a2")).receipt.projection.code == "view_altered"


def test_a_withheld_result_is_a_reference(runtime):
    host = runtime.host(after=[lambda _: Withhold()])
    outcome = taken(runtime, host, TURN, action())
    assert outcome.answer.ok
    assert outcome.answer.form is Form.REFERENCE
    assert msgspec.json.decode(outcome.answer.text()) == {
        "reference": {"run": "run-1", "action": "a1", "version": 1}
    }
    assert outcome.receipt.held == {"rows": ROWS}


def test_of_a_text_bytes_are_shown_and_said(runtime):
    runtime.output = "é" * 10
    host = runtime.host(after=[lambda seen: Project(seen.held[:3], cut={"": (0, 6)})])
    outcome = taken(runtime, host, TURN, action())
    assert outcome.answer.view == "ééé"
    assert outcome.receipt.form == View(Form.PARTIAL, Unit.BYTES, 0, 6, 20)


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        ({"hold": lambda _: 1 / 0}, "hold_failed"),
        ({"hold": lambda _: {1: 2}}, "not_json"),
        ({"hold": lambda _: float("nan")}, "not_json"),
        ({"hold": lambda _: {"name": "pear\udce9"}}, "not_json"),
        ({"hold": lambda _: {"pear\udce9": 1}}, "not_json"),
        ({"project": lambda _: 1 / 0}, "project_failed"),
        ({"project": lambda _: "no projection"}, "project_failed"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_projection_that_fails_leaves_the_execution_a_success(runtime, broken, code):
    outcome = taken(runtime, runtime.host(runtime.tool(**broken)), TURN, action())
    assert outcome.receipt.execution.status is Status.SUCCEEDED
    assert (outcome.receipt.projection.status, outcome.receipt.projection.code) == (Status.FAILED, code)
    assert outcome.answer.refusal.stage is Stage.PROJECTION
    assert outcome.persisted
    assert runtime.settlements[0].status is Status.SUCCEEDED


# Pairing


def test_parallel_calls_of_one_tool_pair_by_call_id_alone(runtime):
    host = runtime.host()
    outcomes = [taken(runtime, host, TURN, action(name)) for name in ("a3", "a1", "a2")]
    paired = by_call_id(outcomes, ["call-a1", "call-a2", "call-a3"])
    assert [answer.action for answer in paired] == ["a1", "a2", "a3"]
    for call_ids in (["call-a1"], ["call-a1", "call-a2", "call-a4"], ["call-a1"] * 3):
        with pytest.raises(ValueError, match="pair"):
            by_call_id(outcomes, call_ids)
    with pytest.raises(ValueError, match="same call id"):
        by_call_id([*outcomes, outcomes[0]], ["call-a1", "call-a2", "call-a3"])


# Whatever breaks: reservations


class Gone(BaseException):
    pass


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt(), asyncio.CancelledError(), SystemExit(1), Gone()], ids=repr
)
@pytest.mark.parametrize("where", ["load", "admit", "authorise", "reserve", "save", "execute", "settle"])
def test_an_interrupt_goes_on_and_leaves_no_reservation_open(raised, where):
    runtime = Runtime()
    runtime.fail[where] = raised
    host = runtime.host()
    with pytest.raises(type(raised)):
        host.run(TURN, action())
    assert runtime.balanced
    runtime.fail.clear()
    again = host.run(TURN, action())
    assert runtime.balanced
    assert len(runtime.executed) == 1
    assert again.answer.ok == (where != "execute")
    if where == "execute":
        assert again.receipt.execution.status is Status.CANCELLED
        assert again.replayed


@pytest.mark.parametrize("where", ["execute", "hold", "save", "settle", "failure"])
def test_a_cancelled_task_settles_once_and_its_receipt_says_so(where):
    runtime = Runtime(later=True)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def stop(*_):
        reached.set()
        await go_on.wait()
        return {"rows": ROWS}

    async def main():
        tool = runtime.tool(hold=stop if where == "hold" else None)
        owner = runtime.owner()
        if where == "execute":
            tool = replace(tool, execute=stop)
        hooks = []
        if where == "failure":
            runtime.fail["execute"] = ValueError()
            hooks = [stop]
        if where in {"save", "settle"}:
            piece = owner.receipts if where == "save" else owner.reservations
            real = getattr(piece, where)

            async def slow(given):
                if where == "settle" or given.finished:
                    await stop()
                return await real(given)

            setattr(piece, where, slow)
        host = runtime.host(tool, owner=owner, on_failure=hooks)
        task = asyncio.create_task(host.arun(TURN, action()))
        await reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        if where in {"save", "settle"}:
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done(), "what was begun is brought to its end"
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert runtime.balanced
    receipt: Any = runtime.kept["run-1", "a1"]
    wanted = {"execute": Status.CANCELLED, "failure": Status.FAILED}.get(where, Status.SUCCEEDED)
    assert receipt.execution.status is wanted
    if where == "hold":
        assert (receipt.projection.status, receipt.projection.code) == (Status.FAILED, "cancelled")


def test_a_coroutine_that_is_closed_tidies_up_as_far_as_it_can():
    runtime = Runtime()

    async def never(_):
        await asyncio.get_running_loop().create_future()

    async def main():
        tool = runtime.tool()
        tool = replace(tool, execute=never)
        entry = runtime.host(tool).arun(TURN, action())
        entry.send(None)
        entry.close()

    asyncio.run(main())
    assert runtime.balanced
    receipt: Any = runtime.kept["run-1", "a1"]
    assert receipt.execution.status is Status.CANCELLED


def test_a_settlement_that_raises_is_said_and_not_tried_twice(runtime):
    runtime.fail["settle"] = ConnectionError(SECRET)
    told: list[Any] = []
    outcome = taken(runtime, runtime.host(on_failure=[told.append]), TURN, action())
    assert outcome.answer.ok
    assert runtime.calls.count("settle") == 1
    assert [(failure.stage, failure.code) for failure in told] == [(Stage.RESERVATION, "settlement_failed")]


def test_without_a_receipt_store_that_answers_nothing_is_executed(runtime):
    runtime.fail["load"] = ConnectionError()
    host = runtime.host()
    outcome = taken(runtime, host, TURN, action())
    assert outcome.answer.refusal.code == "receipts_unavailable"
    assert outcome.answer.refusal.retryable
    runtime.fail = {"save": ConnectionError()}
    outcome = taken(runtime, host, TURN, action())
    assert outcome.answer.refusal.stage is Stage.PERSISTENCE
    assert runtime.executed == []
    assert runtime.balanced


def test_a_result_whose_receipt_cannot_be_saved_is_given_and_not_executed_again(runtime):
    tool = runtime.tool()
    inner = tool.execute

    def execute(call):
        runtime.fail["save"] = ConnectionError()
        return inner(call)

    tool = replace(tool, execute=execute)
    host = runtime.host(tool)
    outcome = taken(runtime, host, TURN, action())
    assert outcome.answer.ok
    assert not outcome.persisted
    assert ("persistence", "failed") in runtime.stages()
    assert not taken(runtime, host, TURN, action()).persisted
    runtime.fail.clear()
    again = taken(runtime, host, TURN, action())
    assert again.replayed
    assert again.persisted
    assert again.answer == outcome.answer
    assert len(runtime.executed) == 1
    assert runtime.kept["run-1", "a1"] == outcome.receipt


@pytest.mark.parametrize("mark", ["there", "gone"])
def test_receipts_that_cannot_be_saved_are_bounded_and_beyond_that_nothing_is_executed_again(mark):
    runtime = Runtime()

    def execute(call):
        runtime.fail["save"] = ConnectionError()
        runtime.executed.append(call)
        return 1

    host = runtime.host(replace(runtime.tool(), execute=execute))
    host._fittings.unsaved.most = 1
    for name in ("a1", "a2"):
        runtime.fail.clear()
        host.run(TURN, action(name))
    runtime.fail.clear()
    if mark == "gone":
        del runtime.kept["run-1", "a1"]
    for _ in range(2):
        again = host.run(TURN, action("a1"))
        assert (again.answer.refusal.stage, again.answer.refusal.code) == (Stage.REPLAY, "outcome_unknown")
    assert len(runtime.executed) == 2
    assert host.run(TURN, action("a2")).replayed
    assert runtime.balanced


def broken_at_its_second_save(runtime):
    """Return a host that keeps no receipt which cannot be saved, and whose first result cannot be."""
    inner, broken = runtime.tool().execute, [ConnectionError()]

    def execute(call):
        if broken:
            runtime.fail["save"] = broken.pop()
        return inner(call)

    host = runtime.host(replace(runtime.tool(), execute=execute))
    host._fittings.unsaved.most = 0
    return host


def test_an_action_whose_receipt_was_let_go_may_be_executed_anew_and_is_known_again():
    runtime = Runtime()
    host = broken_at_its_second_save(runtime)
    host.run(TURN, action())
    runtime.fail.clear()
    assert host.run(TURN, action()).answer.refusal.code == "outcome_unknown"
    again = host.run(TURN, action(), anew=True)
    assert again.receipt.executions == len(runtime.executed) == 2
    assert host.run(TURN, action()).answer == again.answer
    assert runtime.balanced


def test_an_action_whose_receipt_was_let_go_is_replayed_where_it_was_saved_all_the_same():
    runtime = Runtime()
    runtime.saves_and_raises = True
    host = broken_at_its_second_save(runtime)
    outcome = host.run(TURN, action())
    assert not outcome.persisted
    runtime.fail.clear()
    assert host.run(TURN, action()).answer == outcome.answer
    assert len(runtime.executed) == 1


def test_an_action_that_never_started_may_be_asked_for_again_also_if_its_receipt_was_let_go():
    runtime = Runtime()
    host = runtime.host()
    host._fittings.unsaved.most = 0
    runtime.fail["save"] = ConnectionError()
    assert host.run(TURN, action()).answer.refusal.code == "receipts_unavailable"
    runtime.fail.clear()
    assert host.run(TURN, action()).answer.ok
    assert len(runtime.executed) == 1


# Observers and failure hooks


def test_a_report_or_a_failure_hook_that_raises_changes_nothing(runtime):
    def raising(_):
        raise ValueError(SECRET)

    runtime.fail["execute"] = ValueError()
    told: list[Any] = []
    host = runtime.host(report=raising, on_failure=[raising, told.append])
    outcome = taken(runtime, host, TURN, action())
    assert outcome.receipt.execution.code == "tool_raised"
    assert len(told) == 1
    assert host.counts.failure_hooks_failed == 1
    assert host.counts.reports_failed == 6
    assert runtime.balanced


def test_a_turn_may_have_a_report_of_its_own(runtime):
    own: list[Any] = []
    taken(runtime, runtime.host(), Turn("run-1", report=own.append), action())
    assert runtime.facts == []
    assert {type(fact) for fact in own} == {StageFact}


# One at a time


def test_threads_that_run_one_action_at_once_execute_it_once():
    runtime = Runtime()
    inside, go_on = threading.Event(), threading.Event()
    tool = runtime.tool()
    inner = tool.execute

    def execute(call):
        inside.set()
        assert go_on.wait(10)
        return inner(call)

    tool = replace(tool, execute=execute)
    host = runtime.host(tool)
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(host.run(TURN, action()))) for _ in range(8)]
    threads[0].start()
    assert inside.wait(10)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(runtime.executed) == 1
    assert [outcome.replayed for outcome in outcomes].count(False) == 1
    assert len({outcome.answer.text() for outcome in outcomes}) == 1
    assert runtime.balanced


def test_tasks_that_run_one_action_at_once_execute_it_once_even_if_the_first_is_cancelled():
    runtime = Runtime(later=True)

    async def main():
        host = runtime.host()
        tasks = [asyncio.create_task(host.arun(TURN, action())) for _ in range(8)]
        for _ in range(3):
            await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[5].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(main())
    done = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert len(done) == 6
    assert len(runtime.executed) == 1
    assert runtime.balanced


def test_a_task_that_stops_waiting_ends_nothing_for_the_others():
    runtime = Runtime(later=True)
    go_on = asyncio.Event()

    async def execute(call):
        await go_on.wait()
        runtime.executed.append(call)
        return 1

    async def main():
        host = runtime.host(replace(runtime.tool(), execute=execute))
        tasks = [asyncio.create_task(host.arun(TURN, action())) for _ in range(4)]
        for _ in range(20):
            await asyncio.sleep(0)
        tasks[2].cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert isinstance(outcomes.pop(2), asyncio.CancelledError)
    assert [outcome.replayed for outcome in outcomes] == [False, True, True]
    assert len(runtime.executed) == 1


@pytest.fixture
def ends_soon():
    """End a wait of this thread that has no end: an alarm's exception gets through where a timeout cannot."""

    def ring(*_):
        raise TimeoutError("it waits for ever")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("ends_soon")
def test_a_run_on_the_event_loop_that_has_the_action_under_way_is_refused_instead_of_waiting_for_ever():
    runtime = Runtime(later=True)

    async def main():
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def execute(call):
            inside.set()
            await go_on.wait()
            runtime.executed.append(call)
            return 1

        host = runtime.host(replace(runtime.tool(), execute=execute))
        first = asyncio.create_task(host.arun(TURN, action()))
        await inside.wait()
        before = list(runtime.calls)
        with pytest.raises(WouldWaitForEver, match="awaited"):
            host.run(TURN, action())
        assert runtime.calls == before
        elsewhere = asyncio.create_task(asyncio.to_thread(host.run, TURN, action()))
        second = asyncio.create_task(host.arun(TURN, action()))
        await asyncio.sleep(0.05)
        go_on.set()
        return await asyncio.gather(first, second), await asyncio.gather(elsewhere, return_exceptions=True)

    (first, second), (elsewhere,) = asyncio.run(main())
    assert first.answer.ok
    assert second.replayed
    # It waited, as a thread may, and met the runtime's asynchronous functions only then.
    assert elsewhere.answer.refusal.code == "receipts_unavailable"
    assert len(runtime.executed) == 1
    assert runtime.balanced


@pytest.mark.usefixtures("ends_soon")
def test_a_run_on_an_event_loop_waits_for_the_thread_that_has_the_action_under_way():
    runtime = Runtime()
    inside, go_on = threading.Event(), threading.Event()
    inner = runtime.tool().execute

    def execute(call):
        inside.set()
        assert go_on.wait(5)
        return inner(call)

    host = runtime.host(replace(runtime.tool(), execute=execute))

    async def main():
        first = asyncio.create_task(asyncio.to_thread(host.run, TURN, action()))
        assert await asyncio.to_thread(inside.wait, 5)
        threading.Timer(0.05, go_on.set).start()
        second = host.run(TURN, action())
        return await first, second

    first, second = asyncio.run(main())
    assert [first.replayed, second.replayed] == [False, True]
    assert len(runtime.executed) == 1


def test_an_action_within_itself_is_refused_instead_of_waiting_for_ever(runtime):
    tool = runtime.tool()

    def execute(_):
        if not runtime.later:
            return host.run(TURN, action())
        return host.arun(TURN, action())

    tool = replace(tool, execute=execute)
    host = runtime.host(tool)
    outcome = taken(runtime, host, TURN, action())
    assert isinstance(outcome.cause, WithinItself)
    assert outcome.receipt.execution.status is Status.FAILED


def test_a_tool_may_run_another_action(runtime):
    tool = runtime.tool()
    inner = tool.execute

    async def later(call):
        if call.action == "a1":
            await host.arun(TURN, action("a2"))
        return await inner(call)

    def at_once(call):
        if call.action == "a1":
            host.run(TURN, action("a2"))
        return inner(call)

    tool = replace(tool, execute=later if runtime.later else at_once)
    host = runtime.host(tool)
    assert taken(runtime, host, TURN, action()).answer.ok
    assert [call.action for call in runtime.executed] == ["a2", "a1"]


# The two entries


def test_the_synchronous_entry_refuses_what_must_be_awaited():
    runtime = Runtime()
    tool = runtime.tool()

    async def execute(call):
        raise AssertionError("it is never begun")

    tool = replace(tool, execute=execute)
    outcome = runtime.host(tool).run(TURN, action())
    assert outcome.receipt.execution.status is Status.FAILED
    assert runtime.balanced


def test_both_entries_leave_the_same_receipt():
    kept = []
    for later in (False, True):
        runtime = Runtime(later=later)
        host = runtime.host(runtime.tool(project=first_five), clock=lambda: 0.0)
        taken(runtime, host, TURN, action())
        kept.append((runtime.kept, runtime.calls, runtime.stages()))
    assert kept[0] == kept[1]


_LOOP: dict[str, Any] = {}
_LOOP["ticker"] = _LOOP
_NO_JSON = {
    "decimal": {"days": Decimal("1e400")},
    "infinity": {"days": float("inf")},
    "surrogate": {"ticker": f"{SECRET}\ud800"},
    "loop": _LOOP,
    "object": {"ticker": object()},
    "whole": Decimal("1e400"),
}


@pytest.mark.parametrize("arguments", _NO_JSON.values(), ids=_NO_JSON)
def test_arguments_that_are_no_json_are_refused_and_nothing_is_executed(runtime, arguments):
    asked: list[object] = []
    told: list[Failure] = []
    host = runtime.host(before=[asked.append], on_failure=[told.append])
    outcome = taken(runtime, host, TURN, action(arguments=arguments))
    assert runtime.calls == ["load", "save"]
    assert asked == []
    assert outcome.answer.refusal.stage is Stage.ADMISSION
    assert outcome.answer.refusal.code == "invalid_arguments"
    assert [(fault.at, fault.rule) for fault in outcome.answer.refusal.faults] == [("", "json")]
    assert [failure.code for failure in told] == ["invalid_arguments"]
    assert runtime.stages() == [("admission", "refused"), ("persistence", "persisted")]
    assert SECRET not in outcome.answer.text()


def test_a_receipt_of_arguments_that_are_no_json_holds_none_of_them_and_is_replayed(runtime):
    host, asked = runtime.host(), action(arguments=_NO_JSON["surrogate"])
    first = taken(runtime, host, TURN, asked)
    kept = msgspec.json.encode(runtime.kept["run-1", "a1"])
    assert msgspec.json.decode(kept, type=Receipt) == first.receipt
    assert first.receipt.original_arguments is None
    assert SECRET.encode() not in kept
    again = taken(runtime, host, TURN, asked)
    assert again.replayed
    assert again.answer == first.answer
    other = taken(runtime, host, TURN, action())
    assert other.answer.refusal.code == "identity_conflict"
    assert runtime.executed == []


def test_what_is_said_to_the_model_can_be_written_down(runtime):
    def execute(_):
        raise ToolFailed("no_such_file", "pear\udce9 is not there")

    outcome = taken(runtime, runtime.host(replace(runtime.tool(), execute=execute)), TURN, action())
    assert json.loads(outcome.answer.text())["error"]["message"] == "pear? is not there"
    runtime.output = {"rows": []}
    remarking = runtime.host(after=[lambda seen: Project(seen.held, remarks=("pear\udce9",))])
    told = json.loads(taken(runtime, remarking, TURN, action("a2")).answer.text())
    assert told["remarks"] == ["pear?"]
