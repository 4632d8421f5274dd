"""Which request carried which result: the classic answer, and what a link can never be made of."""

import json

import msgspec
import pydantic
import pytest

from custody_toolchain.facts import (
    Form,
    Link,
    OccurrenceFact,
    Stage,
    StageFact,
    Status,
    Unit,
    View,
    encode,
    now,
)
from custody_toolchain.ids import ResultRef
from custody_toolchain.lineage import Lineage

RUN = "run-1"
A1 = ResultRef(RUN, "a1")
A2 = ResultRef(RUN, "a2")
PARTLY_READ = View(Form.FULL, source_whole=False)


@pytest.fixture
def told():
    return []


@pytest.fixture
def lineage(told):
    with Lineage(RUN, told.append) as made:
        yield made


def tool(content, call_id="c1"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def sent(lineage, *messages, exchange="x"):
    """Submit a request, and return what is known of it: the action or the reason that there is none, and the form."""
    request = lineage.prepare(exchange, list(messages)).submitted()
    everything = [*lineage.occurrences("a1"), *lineage.occurrences("a2"), *lineage.unlinked()]
    there = sorted((each for each in everything if each.request == request), key=lambda each: each.position)
    return [(each.position, each.action or each.link.value, each.view.form.value) for each in there]


def stage(stage_, status, **said):
    return StageFact(
        fact=f"{stage_}-{status}", at=now(), action="a1", tool="search", stage=stage_, status=status, **said
    )


def test_the_classic_answer_comes_out(lineage, told):
    rows = lineage.bind([{"flight": at} for at in range(100)], A1, PARTLY_READ)
    five = lineage.cut_rows(rows, 0, 5)
    text = lineage.inherit(json.dumps(five), of=five)
    note = lineage.reference("Result a1 is kept; read_tool_result shows it.", of=rows)
    for at in range(1, 8):
        lineage.prepare(f"call-{at}", [{"role": "user", "content": "Find a flight."}]).submitted("physical-1")
    lineage.prepare("call-8", [tool(note)]).submitted("physical-1")
    lineage.prepare("call-9", [tool(text)]).submitted("physical-1")

    stages = [
        stage(Stage.EXECUTION, Status.STARTED, execution=1),
        stage(Stage.EXECUTION, Status.SUCCEEDED, execution=1),
        stage(Stage.REPLAY, Status.REPLAYED),
        stage(Stage.PROJECTION, Status.PROJECTED, view=View(Form.PARTIAL, Unit.ROWS, 0, 5, 100, source_whole=False)),
    ]  # fmt: skip
    answer = lineage.answer("a1", stages)
    assert str(answer) == (
        "one external dispatch, succeeded; the view is the first five rows; "
        "request 8 carries only the reference, request 9 carries the first five rows; "
        "the source was not read whole; two occurrences, one execution"
    )
    assert (answer.executions, answer.outcome) == (1, Status.SUCCEEDED)
    assert answer.view == View(Form.PARTIAL, Unit.ROWS, 0, 5, 100, source_whole=False)
    facts = [
        (each.request, each.exchange, each.attempt, each.position, each.action, each.call_id) for each in told
    ]
    assert facts == [(8, "call-8", "physical-1", 0, "a1", "c1"), (9, "call-9", "physical-1", 0, "a1", "c1")]
    assert [each.view.form for each in told] == [Form.REFERENCE, Form.PARTIAL]
    assert told[1].view == answer.view


def test_an_action_of_which_nobody_told_has_no_success_in_its_answer(lineage):
    assert str(lineage.answer("a1")) == "no external dispatch recorded; no occurrences, no executions"


def test_only_the_submission_makes_occurrences(lineage, told):
    text = lineage.bind("a whole result", A1)
    dropped = lineage.prepare("call-1", [tool(text)])
    dropped.dropped()
    lineage.prepare("call-2", [tool(text)])
    assert lineage.occurrences("a1") == ()
    assert told == []
    # Neither took a number, and what happened afterwards counts, whatever was meant before.
    assert dropped.submitted() == 1


def test_a_retry_is_another_attempt_of_the_same_occurrence(lineage, told):
    prepared = lineage.prepare("call-1", [tool(lineage.bind("a whole result", A1))])
    assert [prepared.submitted(attempt) for attempt in ("p1", "p2", "p2")] == [1, 1, 1]
    (only,) = lineage.occurrences("a1")
    assert only.attempts == ("p1", "p2")
    assert [each.attempt for each in told] == ["p1", "p2"]
    assert len({each.fact for each in told}) == 2


def test_positions_are_those_of_the_moment_of_preparing(lineage):
    messages = [tool(lineage.bind("a whole result", A1))]
    prepared = lineage.prepare("call-1", messages)
    messages.insert(0, {"role": "user", "content": "late"})
    prepared.submitted()
    assert [each.position for each in lineage.occurrences("a1")] == [0]


def test_an_equal_text_is_not_the_result(lineage):
    lineage.bind("no quote", A1)
    assert sent(lineage, tool("no quote")) == [(0, "unknown", "partial")]


def test_a_constant_that_a_tool_returns_is_not_the_result_wherever_it_stands(lineage):
    constant = "no quote"
    bound = lineage.bind(constant, A1)
    assert bound == constant
    assert sent(lineage, tool(constant), tool(bound)) == [(0, "unknown", "partial"), (1, "a1", "full")]


def test_a_newer_version_takes_the_link_from_the_older_one(lineage):
    old = lineage.bind("the first result", A1)
    prepared = lineage.prepare("call-1", [tool(old)])
    lineage.made(ResultRef(RUN, "a1", 2))
    prepared.submitted()
    assert lineage.occurrences("a1") == ()
    assert [each.link for each in lineage.unlinked()] == [Link.REPLACED]
    new = lineage.bind("the second result", ResultRef(RUN, "a1", 2))
    assert sent(lineage, tool(old), tool(new)) == [(0, "replaced", "full"), (1, "a1", "full")]


def test_an_attempt_before_the_newer_version_keeps_its_link(lineage):
    prepared = lineage.prepare("call-1", [tool(lineage.bind("the first result", A1))])
    prepared.submitted("p1")
    lineage.made(ResultRef(RUN, "a1", 2))
    prepared.submitted("p2")
    assert [each.attempts for each in lineage.occurrences("a1")] == [("p1",)]
    assert [(each.link, each.attempts) for each in lineage.unlinked()] == [(Link.REPLACED, ("p2",))]


def test_two_results_under_one_identity_link_nothing(lineage):
    one = lineage.bind("one result", A1, mark="digest-1")
    same = lineage.bind("one result, rendered", A1, mark="digest-1")
    assert sent(lineage, tool(one), tool(same)) == [(0, "a1", "full"), (1, "a1", "full")]
    other = lineage.bind("another result", A1, mark="digest-2")
    assert sent(lineage, tool(one), tool(other)) == [(0, "duplicate", "full"), (1, "duplicate", "full")]


def test_one_object_that_was_given_out_as_two_results_is_neither(lineage):
    class Cached:
        pass

    cached = Cached()
    assert lineage.bind(cached, A1) is lineage.bind(cached, A2)
    assert sent(lineage, tool(cached)) == [(0, "duplicate", "full")]


def test_a_text_that_two_tools_return_is_two(lineage):
    text = "nothing found"
    assert sent(lineage, tool(lineage.bind(text, A1)), tool(lineage.bind(text, A2))) == [
        (0, "a1", "full"),
        (1, "a2", "full"),
    ]


@pytest.mark.parametrize("thing", ["a text", {"a": 1}, [1]])
def test_what_is_of_another_run_is_said_to_be(lineage, thing):
    with Lineage("run-2") as other:
        foreign = other.bind(thing, ResultRef("run-2", "a1"))
        here = lineage.bind(thing, ResultRef("run-3", "a1"))
        assert sent(lineage, tool(foreign), tool(here)) == [
            (0, "other_run", "full"),
            (1, "other_run", "full"),
        ]


def test_a_second_lineage_of_the_run_knows_what_the_first_one_bound(lineage):
    with Lineage(RUN) as second:
        text = second.bind("a whole result", A1)
        assert sent(lineage, tool(text)) == [(0, "a1", "full")]
        second.made(ResultRef(RUN, "a1", 2))
        assert sent(lineage, tool(text)) == [(0, "replaced", "full")]


def test_facts_hold_no_content_and_are_facts(lineage, told):
    text = lineage.bind("SECRET-CANARY", A1)
    sent(
        lineage, tool(text, call_id="c" * 129), tool("SECRET-CANARY, unbound"), tool({"SECRET-CANARY": text})
    )
    assert all(isinstance(fact, OccurrenceFact) for fact in told)
    encoded = [encode(fact) for fact in told]
    assert len(encoded) == 3
    assert b"CANARY" not in b"".join(encoded)
    assert told[0].call_id is None


def test_a_report_that_raises_changes_nothing(told):
    def raising(_):
        raise RuntimeError

    lineage = Lineage(RUN, raising)
    assert sent(lineage, tool(lineage.bind("a whole result", A1))) == [(0, "a1", "full")]
    assert lineage.reports_failed == 1


class Message(pydantic.BaseModel):
    role: str
    content: str | list[dict[str, str]]
    tool_call_id: str | None = None


class Kept(msgspec.Struct):
    role: str
    content: str


PROVIDERS = {
    "openai-chat": lambda text, call: {"role": "tool", "tool_call_id": call, "content": text},
    "openai-chat-parts": lambda text, call: {
        "role": "tool",
        "tool_call_id": call,
        "content": [{"type": "text", "text": text}],
    },
    "openai-responses": lambda text, call: {"type": "function_call_output", "call_id": call, "output": text},
    "anthropic": lambda text, call: {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": call, "content": [{"type": "text", "text": text}]}
        ],
    },
    "gemini": lambda text, call: {
        "role": "user",
        "parts": [{"functionResponse": {"id": call, "name": "search", "response": {"output": text}}}],
    },
    "bedrock": lambda text, call: {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": call, "content": [{"text": text}]}}],
    },
    "pydantic": lambda text, call: Message(role="tool", tool_call_id=call, content=text),
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_results_are_known_in_every_providers_messages(lineage, provider):
    message = PROVIDERS[provider]
    asked = {"role": "user", "content": "Find a flight."}
    bound = lineage.bind("a whole result", A1)
    assert sent(lineage, asked, message(bound, "c1"), message("unbound", "c2")) == [
        (1, "a1", "full"),
        (2, "unknown", "partial"),
    ]
    (known,), (unknown,) = lineage.occurrences("a1"), lineage.unlinked()
    assert (known.call_id, unknown.call_id) == ("c1", "c2")


def test_one_message_carries_several_results(lineage):
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": lineage.bind("result one", A1)},
        {"type": "tool_result", "tool_use_id": "c2", "content": "made by hand"},
        {"type": "tool_result", "tool_use_id": "c3", "content": lineage.bind("result two", A2)},
    ]
    sent(lineage, {"role": "user", "content": blocks})
    assert [each.call_id for each in lineage.occurrences("a1")] == ["c1"]
    assert [each.call_id for each in lineage.occurrences("a2")] == ["c3"]
    assert [each.call_id for each in lineage.unlinked()] == ["c2"]


def test_the_same_object_in_two_messages_occurs_twice(lineage):
    text = lineage.bind("a whole result", A1)
    message = tool(text)
    assert [at for at, _, _ in sent(lineage, message, message)] == [0, 1]
    assert len(lineage.occurrences("a1")) == 2


def test_a_bound_message_with_its_bound_text_occurs_once(lineage):
    text = lineage.bind("a whole result", A1)
    assert sent(lineage, lineage.bind(tool(text), A1)) == [(0, "a1", "full")]


def test_a_copy_for_an_sdk_inherits_all_that_its_message_holds(lineage):
    message = {"role": "user", "content": [lineage.bind("result one", A1), lineage.bind("result two", A2)]}
    copied = Message(role="user", content=json.dumps(message["content"]))
    assert sent(lineage, lineage.inherit(copied, of=message)) == [(0, "a1", "full"), (0, "a2", "full")]
    # What cannot be referenced weakly keeps what it holds, if that is still the same text.
    assert sent(lineage, Kept("tool", message["content"][0])) == [(0, "a1", "full")]


@pytest.mark.parametrize(
    ("make", "form"),
    [
        ("inherit", Form.FULL),
        ("reference", Form.REFERENCE),
        ("omit", Form.OMITTED),
    ],
)
def test_what_is_made_of_a_bound_object_is_bound_in_its_form(lineage, make, form):
    whole = lineage.bind(["row"], A1, PARTLY_READ)
    made = getattr(lineage, make)("made of it", of=whole)
    assert made == "made of it"
    assert type(made) is str
    assert sent(lineage, tool(made)) == [(0, "a1", form.value)]
    assert lineage.occurrences("a1")[0].view == View(form, source_whole=False)


def test_what_is_made_of_an_unbound_object_is_unknown(lineage):
    made = [make("made of it", of="unbound") for make in (lineage.inherit, lineage.reference, lineage.omit)]
    assert {link for _, link, _ in sent(lineage, *map(tool, made))} == {"unknown"}


@pytest.mark.parametrize("thing", [("a", "b"), 1, 1.5, True, None, b"bytes", "", "x"])
def test_what_cannot_be_bound_is_returned_as_it_is_and_counted(lineage, thing):
    assert lineage.bind(thing, A1) is thing
    assert lineage.unbound == 1
    assert sent(lineage, tool(thing)) == [(0, "unknown", "partial")]


@pytest.mark.parametrize(
    ("thing", "kind"), [("a text", str), ({"a": [1, 2]}, dict), ([1, {"b": "é"}], list)], ids=str
)
def test_what_is_bound_is_equal_and_has_the_same_json(lineage, thing, kind):
    bound = lineage.bind(thing, A1)
    assert bound == thing
    assert isinstance(bound, kind)
    assert repr(bound) == repr(thing)
    assert json.dumps(bound) == json.dumps(thing)
    assert msgspec.json.encode(bound) == msgspec.json.encode(thing)
    assert pydantic.TypeAdapter(kind).validate_python(bound) == thing


def test_nothing_is_added_to_a_message(lineage):
    message = lineage.bind(tool("a whole result"), A1)
    assert list(message) == ["role", "tool_call_id", "content"]
    assert not hasattr(message, "__dict__")


def test_messages_that_are_no_list_are_refused(lineage):
    with pytest.raises(TypeError, match="a list"):
        lineage.prepare("call-1", iter([]))
    with pytest.raises(TypeError, match="a list"):
        lineage.prepare("call-1", {"messages": []})
    with pytest.raises(ValueError, match="exchange"):
        lineage.prepare("call 1", [])


def test_the_runtimes_own_numbers_are_taken(lineage):
    text = lineage.bind("a whole result", A1)
    assert lineage.prepare("call-8", [tool(text)], request=8).submitted() == 8
    assert lineage.prepare("call-9", [tool(text)]).submitted() == 9
    assert lineage.prepare("call-2", [tool(text)], request=2).submitted() == 2
    assert [each.request for each in lineage.occurrences("a1")] == [2, 8, 9]
    assert Lineage(RUN, first_request=5).prepare("call-5", []).submitted() == 5


@pytest.mark.parametrize("number", [0, -1])
def test_a_request_has_a_number_that_a_fact_can_name(lineage, number):
    with pytest.raises(ValueError, match="count from 1"):
        lineage.prepare("call-1", [], request=number)
    with pytest.raises(ValueError, match="count from 1"):
        Lineage(RUN, first_request=number)
