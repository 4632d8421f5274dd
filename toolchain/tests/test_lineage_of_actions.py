"""Lineage of what a tool host really ran: receipts make the bindings, and observers change nothing."""

import threading
from typing import Any

import msgspec
import pytest

from custody_toolchain.facts import Fact, Link, Status
from custody_toolchain.ids import ResultRef
from custody_toolchain.lineage import Lineage
from custody_toolchain.observing import Reporter
from custody_toolchain.surface import Guard, PreDispatchRejected, Surface
from custody_toolchain.tools import Held, Project
from toolchain.tests.owned import TURN, Runtime, action

WAIT_S = 5.0
A1 = ResultRef("run-1", "a1")
TOOLS = [{"name": "quotes", "description": "Quotes.", "input_schema": {"type": "object"}}]


def host(runtime):
    tool = runtime.tool(
        hold=lambda raw: Held(raw, source_whole=False),
        project=lambda held: Project({"rows": held["rows"][:5]}),
    )
    return runtime.host(tool)


def message(content):
    return {"role": "tool", "tool_call_id": "call-a1", "content": content}


def view_of(lineage, outcome):
    """Bind the text of an action's view, as a runtime does."""
    return lineage.bind(outcome.answer.text(), outcome.receipt.result_ref, outcome.receipt.form)


def test_the_classic_answer_comes_out_of_what_a_host_ran():
    runtime = Runtime()
    lineage = Lineage("run-1", runtime.facts.append)
    outcome = host(runtime).run(TURN, action())
    text = view_of(lineage, outcome)
    note = lineage.reference("The quotes are kept as a1.", of=text)
    lineage.prepare("call-8", [message(note)], request=8).submitted()
    lineage.prepare("call-9", [message(text)], request=9).submitted()
    assert str(lineage.answer("a1", runtime.facts)) == (
        "one external dispatch, succeeded; the view is the first five rows; "
        "request 8 carries only the reference, request 9 carries the first five rows; "
        "the source was not read whole; two occurrences, one execution"
    )


@pytest.mark.parametrize(
    ("call_id", "said"),
    [
        ("c" * 128, True),
        ("call_1|fc_1+/==:2 ~", True),
        ("c" * 129, False),
        ("\x01" * 128, False),
        ('"' * 128, False),
        ("\\" * 128, False),
        ("\U0001f30a" * 128, False),
        ("half of a pair \ud800", False),
        ("", False),
    ],
    ids=[
        "longest",
        "marks",
        "too long",
        "controls",
        "quotes",
        "backslashes",
        "not ASCII",
        "half a pair",
        "empty",
    ],
)
def test_no_call_id_of_a_models_keeps_a_fact_from_being_told(call_id, said):
    runtime, name, facts = Runtime(), "a" * 128, list[Any]()
    with Reporter(facts.append) as reporter:
        host = runtime.host(runtime.tool(name="t" * 128), report=reporter.report)
        outcome = host.run(TURN, action(name, tool="t" * 128, call_id=call_id))
        lineage = Lineage("run-1", reporter.report)
        text = {"role": "tool", "tool_call_id": call_id, "content": view_of(lineage, outcome)}
        lineage.prepare("e" * 128, [text]).submitted("t" * 128)
        assert reporter.flush(WAIT_S)
    assert reporter.malformed == 0
    assert [fact.action for fact in facts] == [name] * 8
    assert {fact.call_id for fact in facts} == {call_id if said else None}


def test_what_is_made_of_a_replayed_receipt_is_of_the_same_result_and_no_execution():
    runtime = Runtime()
    lineage = Lineage("run-1")
    host(runtime).run(TURN, action())
    again = host(runtime).run(TURN, action())
    assert again.replayed
    lineage.prepare("call-1", [message(view_of(lineage, again))]).submitted()
    answer = lineage.answer("a1", runtime.facts)
    assert (answer.executions, answer.outcome, len(answer.occurrences)) == (1, Status.SUCCEEDED, 1)


def spoiling(seen: Fact) -> None:
    for name in seen.__struct_fields__:
        msgspec.structs.force_setattr(seen, name, "spoilt")


def raising(_: Fact) -> None:
    raise RuntimeError


@pytest.mark.parametrize("observer", ["none", "spoiling", "raising", "hanging"])
def test_requests_and_verdicts_are_the_same_whatever_an_observer_does(observer):
    go_on = threading.Event()
    observers: dict[str, Any] = {
        "none": (),
        "spoiling": (spoiling,),
        "raising": (raising,),
        "hanging": (lambda _: go_on.wait(WAIT_S),),
    }
    reporter = Reporter(*observers[observer], most_waiting=1)
    try:
        lineage, surface = Lineage("run-1", reporter.report), Surface.admit(TOOLS, reporter.report)
        request = {
            "messages": [message(lineage.bind("a result", A1)), message("made by hand")],
            "tools": TOOLS,
        }
        before = msgspec.json.encode(request)
        guard = Guard(surface, "call-1", lambda _: None)
        guard.check_early(request)
        guard.check_final(request)
        prepared = lineage.prepare("call-1", request["messages"])
        assert [prepared.submitted(f"p{at}") for at in range(5)] == [1] * 5
        with pytest.raises(PreDispatchRejected):
            Guard(surface, "call-2", lambda _: None).check_early([])
        assert msgspec.json.encode(request) == before
        assert [len(each.attempts) for each in lineage.occurrences("a1")] == [5]
        assert [each.link for each in lineage.unlinked()] == [Link.UNKNOWN]
    finally:
        go_on.set()
        assert reporter.close(WAIT_S)
    assert reporter.malformed == 0
