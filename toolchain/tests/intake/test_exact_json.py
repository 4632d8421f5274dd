"""JSON as intake reads it: what it is, what is only cut, and no more depth than is allowed."""

import json
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, Overflow, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.intake import (
    Dialect,
    Result,
    permitting,
    read_answer,
    read_markup,
    read_plan,
    read_stream,
)
from custody_toolchain.intake.bounds import Limits
from custody_toolchain.intake.exact_json import check_depth, check_values, end_of, value_of
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Why

LIMITS = Limits()
RICH = (
    '{"a\\u001f": [true, false, null, -1.5e+10, 0.25, 12, "x\\\\", "\\"\\n\\ud83d\\ude00", {"b": {}}], "": [[]], '
    '"c": -0.0E-1, "\u00e4\U0001f600": "\\u00e4"}'
)
DEEP = st.recursive(
    st.just(0) | st.text(alphabet='[]{}"\\:,a', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(alphabet='[{"\\', max_size=3), inner, max_size=2)
    ),
    max_leaves=20,
)


def refused(text: str, limits: Limits = LIMITS) -> Why:
    with pytest.raises(Refused) as caught:
        value_of(text, limits)
    return caught.value.why


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def test_json_that_ends_anywhere_too_early_is_cut_and_not_wrong():
    assert value_of(RICH, LIMITS) == json.loads(RICH)
    for at in range(1, len(RICH)):
        assert refused(RICH[:at]) is Why.CUT, RICH[:at]


@pytest.mark.parametrize(
    "text",
    [
        "{a:1}",
        "[1,]",
        "[1 2]",
        "{} {}",
        "{} t",
        "[01]",
        "[.5]",
        "[+1]",
        "[1.]",
        "'a'",
        '["\\x"]',
        '["\t"]',
        "[nil]",
        "]",
        "nul1",
    ],
)
def test_json_that_is_wrong_is_not_called_cut(text):
    assert refused(text) is Why.NOT_JSON


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a":{"b":1,"b":2}}', Why.DUPLICATE_KEY),
        ('{"a":1,"\\u0061":2}', Why.DUPLICATE_KEY),
        ("[NaN]", Why.NOT_A_NUMBER),
        ("[Infinity]", Why.NOT_A_NUMBER),
        ("-Infinity", Why.NOT_A_NUMBER),
        ("1" * 65, Why.NUMBER_OUT_OF_RANGE),
        ("1" * 100_000, Why.NUMBER_OUT_OF_RANGE),
        ("1e1000", Why.NUMBER_OUT_OF_RANGE),
        ("-1e999999999999", Why.NUMBER_OUT_OF_RANGE),
        ("1e99999999999999999999", Why.NUMBER_OUT_OF_RANGE),
        ("-1.5E+" + "9" * 1_000_000, Why.NUMBER_OUT_OF_RANGE),
        ("1" * 400 + ".0", Why.NUMBER_OUT_OF_RANGE),
        ('"\\ud800"', Why.LONE_SURROGATE),
        ('["\\udc00\\ud800"]', Why.LONE_SURROGATE),
        ('{"\\ud800":1}', Why.LONE_SURROGATE),
        ("\ufeff{}", Why.NOT_JSON),
        ("[" * 65 + "]" * 65, Why.TOO_DEEP),
        ("[" * 1_000_000, Why.TOO_DEEP),
        ('{"a":' * 100_000, Why.TOO_DEEP),
    ],
)
def test_what_json_does_not_say_clearly_is_refused_by_name(text, why):
    assert refused(text) is why


@pytest.mark.parametrize(
    "context", [Context(traps=[]), Context(prec=1, Emax=1, traps=[Inexact, Overflow])], ids=str
)
def test_how_the_program_reckons_with_decimals_changes_nothing(context):
    with localcontext(context):
        assert value_of("12.5e400", LIMITS) == Decimal("12.5e400")
        assert refused("1e99999999999999999999") is Why.NUMBER_OUT_OF_RANGE


def doors(arguments: str) -> dict[str, Callable[[], Result]]:
    """Return every way in for a call with these arguments, as a model or a server may have written them."""
    named = f'{{"name":"f","arguments":{arguments}}}'
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [call]}}]}
    line = f'{{"message":{{"tool_calls":[{{"function":{named}}}]}},"done":true}}'
    hermes = permitting(dialects=[Dialect.HERMES])
    return {
        "answer": lambda: read_answer("chat.completions", body),
        "answer as text": lambda: read_answer("ollama.chat", line),
        "stream": lambda: read_stream("ollama.chat", [line]),
        "plan": lambda: read_plan(named),
        "markup": lambda: read_markup(f"<tool_call>{named}</tool_call>", hermes),
    }


@pytest.mark.parametrize("door", doors("{}"))
def test_a_number_beyond_any_bound_is_refused_by_name_through_every_door(door):
    assert doors('{"q":1e400}')[door]().actions[0].arguments == {"q": Decimal("1e400")}
    refusal = doors('{"q":1e99999999999999999999}')[door]().refusal
    assert refusal is not None
    assert refusal.why is Why.NUMBER_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (Decimal("1e1000"), Why.NUMBER_OUT_OF_RANGE),
        (Decimal("-1e999999999"), Why.NUMBER_OUT_OF_RANGE),
        (Decimal("Infinity"), Why.NOT_A_NUMBER),
        (Decimal("sNaN"), Why.NOT_A_NUMBER),
    ],
)
def test_a_decoded_number_that_no_text_could_have_brought_is_refused(number, why):
    with pytest.raises(Refused) as caught:
        check_values({"q": [number]}, LIMITS)
    assert caught.value.why is why
    check_values({"q": [Decimal("1e999"), Decimal("0.1")]}, LIMITS)


@given(value=DEEP, most=st.integers(1, 12))
def test_depth_is_counted_outside_of_strings_alone(value, most):
    text = json.dumps(value)
    if depth(value) > most:
        assert refused(text, Limits(depth=most)) is Why.TOO_DEEP
    else:
        check_depth(text, most)
        assert value_of(text, Limits(depth=most)) == value


@given(value=st.lists(DEEP, max_size=3) | st.dictionaries(st.text(alphabet='}"\\', max_size=3), DEEP, max_size=3),
       after=st.text(alphabet='[]{}" ', max_size=8))  # fmt: skip
def test_the_end_of_an_object_is_found_whatever_stands_in_its_strings(value, after):
    text = json.dumps(value)
    assert end_of(text + after, 0, LIMITS) == len(text)


@pytest.mark.parametrize("named", [{"depth": 0}, {"depth": 257}, {"actions": 0}, {"text_bytes": 0}])
def test_bounds_that_bound_nothing_are_refused(named):
    with pytest.raises(ValueError, match=r"depth is|positive"):
        Limits(**named)
