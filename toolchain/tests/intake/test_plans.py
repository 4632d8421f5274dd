"""Plans as plain JSON: what is one, what is refused, and what is salvaged of one that was cut."""

import json
from typing import Any

import pytest

from custody_toolchain.intake import (
    Boundary,
    Limits,
    Result,
    Source,
    TextReader,
    Truncated,
    Why,
    permitting,
    read_plan,
)

SALVAGE = permitting(truncated=Truncated.SALVAGE)
GOLDEN = (
    ' {"thought": "two \\"steps\\" {", "actions": [\n  {"id": "a1", "tool": "search", "args": {"q": "ä, ] }"}},\n'
    '  {"name": "read", "arguments": "{\\"file\\": 7}", "why": "it is named"}\n], "n": [1, {"b": []}] }\n'
)
MEANT = [("search", {"q": "ä, ] }"}, "a1"), ("read", {"file": 7}, None)]


def found(result: Result) -> list[tuple[str, dict[str, Any], str | None]]:
    assert result.refusal is None, str(result.refusal)
    return [(action.name, action.arguments, action.call_id) for action in result.actions]


def why(result: Result) -> Why:
    assert result.refusal is not None
    assert result.actions == ()
    return result.refusal.why


def test_a_plan_is_an_object_with_a_list_of_actions():
    result = read_plan(GOLDEN)
    assert found(result) == MEANT
    assert result.source is Source.PLAN
    assert result.native.call_ids == ("a1", None)
    assert result.actions[1].opaque == {"why": "it is named"}
    for action, (name, _, _) in zip(result.actions, MEANT, strict=True):
        begin, end = action.span or (0, 0)
        assert json.loads(GOLDEN[begin:end]).get("tool", name) == name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[{"name":"f","arguments":{}},{"name":"g","input":{}}]', ["f", "g"]),
        ('{"name":"f","parameters":{}}', ["f"]),
        ('{"type":"function","function":{"name":"f","arguments":"{}"}}', ["f"]),
        ("[]", []),
        ('{"actions":[]}', []),
        ('{"thought":"done","actions":[]}', []),
    ],
)
def test_other_forms_of_a_plan(text, names):
    assert [name for name, _, _ in found(read_plan(text))] == names


@pytest.mark.parametrize(
    ("text", "expected", "boundary", "call"),
    [
        ("", Why.EMPTY, Boundary.TEXT, 0),
        ("I will search.", Why.NOT_JSON, Boundary.PLAN, 0),
        ('Plan: {"actions":[]}', Why.NOT_JSON, Boundary.PLAN, 0),
        ('{"actions":[]} and so on', Why.UNEXPECTED_TEXT, Boundary.TEXT, 0),
        ('```json\n{"actions":[]}\n```', Why.NOT_JSON, Boundary.PLAN, 0),
        ('"{\\"actions\\":[]}"', Why.NOT_AN_OBJECT, Boundary.PLAN, 0),
        ("7", Why.NOT_AN_OBJECT, Boundary.PLAN, 0),
        ("null", Why.NOT_AN_OBJECT, Boundary.PLAN, 0),
        ("[1]", Why.NOT_AN_OBJECT, Boundary.CALL, 0),
        ("{}", Why.NAME_MISSING, Boundary.CALL, 0),
        ('{"answer":"<tool_call>{}</tool_call>"}', Why.NAME_MISSING, Boundary.CALL, 0),
        ('{"actions":{}}', Why.NAME_MISSING, Boundary.CALL, 0),
        ('{"actions":[],"actions":[]}', Why.DUPLICATE_KEY, Boundary.PLAN, 0),
        ('{"a":1,"actions":[],"a":2}', Why.DUPLICATE_KEY, Boundary.PLAN, 0),
        ('[{"name":"f","name":"g","arguments":{}}]', Why.DUPLICATE_KEY, Boundary.PLAN, 0),
        ('[{"name":"f","arguments":{"a":1,"a":1}}]', Why.DUPLICATE_KEY, Boundary.PLAN, 0),
        ('[{"name":"f","arguments":{}},{"name":"g"}]', Why.ARGUMENTS_MISSING, Boundary.CALL, 1),
        ('[{"name":"f","arguments":null}]', Why.ARGUMENTS_MISSING, Boundary.CALL, 0),
        ('[{"name":"f","arguments":"x"}]', Why.NOT_JSON, Boundary.ARGUMENTS, 0),
        ('[{"name":"f","args":{}},{"name":"f","args":"{"}]', Why.NOT_JSON, Boundary.ARGUMENTS, 1),
        ('[{"name":"f","arguments":{},"parameters":{}}]', Why.ARGUMENTS_CONFLICT, Boundary.CALL, 0),
        (
            '[{"name":"f","arguments":{},"function":{"name":"g","arguments":{}}}]',
            Why.AMBIGUOUS,
            Boundary.CALL,
            0,
        ),
        ('[{"function":"f","arguments":{}}]', Why.WRONG_TYPE, Boundary.CALL, 0),
        ('[{"name":"f","arguments":{},"id":7}]', Why.WRONG_TYPE, Boundary.CALL, 0),
        ('[{"name":"f","arguments":{},"id":"a","call_id":"b"}]', Why.AMBIGUOUS, Boundary.CALL, 0),
        (
            '[{"name":"f","args":{},"id":"a"},{"name":"f","args":{},"id":"a"}]',
            Why.ID_REPEATED,
            Boundary.CALL,
            1,
        ),
        ('[{"name":"f","arguments":{"a":NaN}}]', Why.NOT_A_NUMBER, Boundary.PLAN, 0),
        ('[{"name":"f","arguments":{"a":"\\udc00"}}]', Why.LONE_SURROGATE, Boundary.PLAN, 0),
        ('[{"name":"' + "f" * 129 + '","arguments":{}}]', Why.NAME_TOO_LONG, Boundary.CALL, 0),
        ('[{"name":"f","arguments":{}},]', Why.NOT_JSON, Boundary.PLAN, 1),
        ('[{"name":"f","arguments":{}};{}]', Why.NOT_JSON, Boundary.PLAN, 1),
        ("\ufeff[]", Why.BYTE_ORDER_MARK, Boundary.TEXT, None),
        ("[" * 10_000, Why.TOO_DEEP, Boundary.PLAN, 0),
        (
            '[{"name":"f","arguments":' + '{"a":' * 10_000 + "0" + "}" * 10_000 + "}]",
            Why.TOO_DEEP,
            Boundary.PLAN,
            0,
        ),
    ],
)
def test_what_is_no_plan_is_refused_by_name(text, expected, boundary, call):
    for policy in (None, SALVAGE):
        result = read_plan(text, policy)
        assert result.refusal is not None
        assert (result.refusal.why, result.refusal.boundary, result.refusal.call) == (
            expected,
            boundary,
            call,
        )
        assert result.actions == ()


def test_a_plan_may_be_fed_in_pieces_cut_at_every_byte():
    data = GOLDEN.encode()
    for at in range(len(data) + 1):
        reader = TextReader(permitting())
        reader.feed(data[:at])
        reader.feed(data[at:])
        assert found(reader.plan()) == MEANT


def test_a_plan_that_is_cut_at_any_byte_is_refused_or_salvaged_up_to_the_cut_and_marked():
    data = GOLDEN.rstrip().encode()
    seen = set()
    for at in range(len(data)):
        assert why(read_plan(data[:at])) in {Why.CUT, Why.EMPTY, Why.NOT_UTF8}
        salvaged = read_plan(data[:at], SALVAGE)
        if salvaged.refusal is None:
            assert salvaged.salvaged
            assert all(action.salvaged for action in salvaged.actions)
            assert found(salvaged) == MEANT[: len(salvaged.actions)]
            seen.add(len(salvaged.actions))
            # What was closed before the cut is all there.
            closed = sum(
                (action.span or (0, 0))[1] <= len(data[:at].decode()) for action in read_plan(GOLDEN).actions
            )
            assert len(salvaged.actions) == closed
        else:
            assert salvaged.refusal.why in {Why.CUT, Why.EMPTY, Why.NOT_UTF8}
    assert seen == {1, 2}


def test_a_plan_that_looks_whole_but_is_known_to_be_cut_is_refused_or_marked():
    assert why(read_plan(GOLDEN, complete=False)) is Why.CUT
    salvaged = read_plan(GOLDEN, SALVAGE, complete=False)
    assert salvaged.salvaged
    assert found(salvaged) == MEANT


def test_what_is_wrong_is_never_salvaged():
    text = '[{"name":"f","arguments":{}},{"name":"g","arguments":{"a":1,"a":2}},{"na'
    assert why(read_plan(text, SALVAGE)) is Why.DUPLICATE_KEY


def test_ten_thousand_actions_and_one_too_many():
    text = json.dumps([{"name": f"f{at}", "arguments": {"n": at}} for at in range(10_000)])
    many = permitting(limits=Limits(actions=10_000))
    assert [name for name, _, _ in found(read_plan(text, many))] == [f"f{at}" for at in range(10_000)]
    assert why(read_plan(text, permitting(limits=Limits(actions=9_999)))) is Why.TOO_MANY_ACTIONS
    assert why(read_plan(text, permitting(truncated=Truncated.SALVAGE))) is Why.TOO_MANY_ACTIONS


def test_numbers_keep_their_value_and_depth_up_to_the_bound_is_read():
    text = (
        '[{"name":"f","arguments":{"a":9007199254740993,"b":' + "9" * 64 + ',"c":1.10,"d":1e400,"e":-0.0}}]'
    )
    arguments = read_plan(text).actions[0].arguments
    assert (arguments["a"], arguments["b"], arguments["c"]) == (9007199254740993, 10**64 - 1, 1.1)
    assert str(arguments["d"]) == "1E+400"
    deep = '[{"name":"f","arguments":{"a":' + "[" * 61 + "]" * 61 + "}}]"
    assert read_plan(deep).refusal is None
    assert why(read_plan(deep.replace("[]", "[[]]"))) is Why.TOO_DEEP
    in_strings = json.dumps([{"name": "f", "arguments": {"a": '[{\\"' * 1000}}])
    assert read_plan(in_strings).refusal is None
