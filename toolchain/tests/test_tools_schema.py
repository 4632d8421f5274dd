"""Every rule of the subset, and that no rule outside of it is silently ignored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.tools import Fault, Schema, UnsupportedSchema
from custody_toolchain.tools.schema import ANNOTATIONS, MOST_FAULTS, SUPPORTED
from custody_toolchain.tools.values import copied, frozen, same

NUMBER = {"type": "integer"}


def of(**properties):
    return {"type": "object", "properties": properties}


def rules(schema, value):
    return [(fault.at, fault.rule) for fault in Schema(schema).faults(value)]


@pytest.mark.parametrize(
    ("schema", "good", "bad", "rule"),
    [
        ({"type": "string"}, ["", "a"], [1, None, True, ["a"]], "type"),
        ({"type": "integer"}, [0, -1, 2**70], [True, 1.0, "1"], "type"),
        ({"type": "number"}, [0, 1.5], [True, "1"], "type"),
        ({"type": "boolean"}, [True, False], [0, 1, None], "type"),
        ({"type": "null"}, [None], [0, False, ""], "type"),
        ({"type": ["string", "null"]}, ["a", None], [0], "type"),
        ({"enum": [1, "a", None]}, [1, "a", None], [True, 1.0, "b", 0, False], "enum"),
        ({"const": 0}, [0], [False, 0.0, None], "const"),
        ({"type": "integer", "minimum": 1}, [1, 2], [0], "minimum"),
        ({"type": "integer", "maximum": 1}, [1, 0], [2], "maximum"),
        ({"type": "number", "exclusiveMinimum": 1}, [1.1], [1, 0], "exclusiveMinimum"),
        ({"type": "number", "exclusiveMaximum": 1}, [0.9], [1, 2], "exclusiveMaximum"),
        ({"type": "string", "minLength": 2}, ["ab"], ["a"], "minLength"),
        ({"type": "string", "maxLength": 2}, ["ab", "éé"], ["abc"], "maxLength"),
        ({"type": "array", "minItems": 1}, [[1]], [[]], "minItems"),
        ({"type": "array", "maxItems": 1}, [[1], []], [[1, 2]], "maxItems"),
        ({"type": "array", "uniqueItems": True}, [[0, False, None, "0"]], [[1, 1], [[2], [2]]], "uniqueItems"),
    ],
    ids=lambda case: str(case) if isinstance(case, dict) else "",
)  # fmt: skip
def test_a_rule_takes_what_it_should_and_nothing_else(schema, good, bad, rule):
    for value in good:
        assert rules(of(x=schema), {"x": value}) == [], value
    for value in bad:
        assert rules(of(x=schema), {"x": value}) == [("/x", rule)], value


@pytest.mark.parametrize(
    ("rule", "good", "bad", "fault"),
    [
        ({"required": ["a"]}, [{"a": 1}], [{}], ("/a", "required")),
        ({"not": {"required": ["a", "b"]}}, [{}, {"a": 1}, {"b": 1}], [{"a": 1, "b": 1}], ("", "not")),
        (
            {"allOf": [{"not": {"required": ["a", "b"]}}, {"not": {"required": ["a", "c"]}}]},
            [{}, {"b": 1, "c": 1}],
            [{"a": 1, "b": 1}, {"a": 1, "c": 1}],
            ("", "not"),
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            [{"a": 1}, {"b": 1}],
            [{}, {"a": 1, "b": 1}],
            ("", "oneOf"),
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            [{"a": 1}, {"a": 1, "b": 1}],
            [{}, {"c": 1}],
            ("", "anyOf"),
        ),
        (
            {"dependentRequired": {"a": ["b"]}},
            [{}, {"b": 1}, {"a": 1, "b": 1}],
            [{"a": 1}],
            ("/a", "dependentRequired"),
        ),
        ({"additionalProperties": False}, [{}], [{"x~/": 1}], ("/x~0~1", "additionalProperties")),
        ({}, [{}], [{"x": 1}], ("/x", "additionalProperties")),
    ],
    ids=lambda case: str(case) if isinstance(case, dict) else "",
)  # fmt: skip
def test_fields_that_must_or_must_not_stand_together(rule, good, bad, fault):
    schema = {**of(a=NUMBER, b=NUMBER, c=NUMBER), **rule}
    for value in good:
        assert rules(schema, value) == []
    for value in bad:
        assert rules(schema, value) == [fault]


def test_unknown_fields_are_taken_only_where_the_schema_says_so():
    assert rules({**of(), "additionalProperties": True}, {"x": object}) == []


def test_rules_reach_into_objects_and_arrays():
    inner = {"type": "array", "items": {**of(n={"type": "integer", "minimum": 0}), "required": ["n"]}}
    assert rules(of(rows=inner), {"rows": [{"n": 1}, {"n": -1}, {}, 7]}) == [
        ("/rows/1/n", "minimum"),
        ("/rows/2/n", "required"),
        ("/rows/3", "type"),
    ]


def test_faults_are_bounded_and_quote_no_value():
    schema = Schema(of(x={"type": "array", "items": {"type": "integer"}}))
    faults = schema.faults({"x": ["secret"] * 10_000})
    assert len(faults) == MOST_FAULTS
    assert "secret" not in str(faults)
    long = Schema(of()).faults({"k" * 10_000: 1})
    assert len(long[0].at) == 128


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {},
        "object",
        of(x={"type": "string", "pattern": "^a"}),
        of(x={"type": "string", "format": "date"}),
        of(x={"$ref": "#/$defs/x"}),
        of(x={"type": "text"}),
        of(x={"type": []}),
        of(x={"description": "anything"}),
        of(x=True),
        {"type": "object", "required": ["x"]},
        {**of(x={"type": "null"}), "additionalProperties": {"type": "string"}},
        {**of(x={"type": "null"}), "oneOf": [{"type": "object"}]},
        {**of(x={"type": "null"}), "anyOf": []},
        {**of(x={"type": "null"}), "not": {"type": "object"}},
        {**of(x={"type": "null"}), "allOf": [{"required": ["x"]}]},
        {**of(x={"type": "null"}), "not": {"required": ["y"]}},
        {**of(x={"type": "null"}), "dependentRequired": {"x": ["y"]}},
        of(x={"type": "integer", "minimum": 2, "maximum": 1}),
        of(x={"type": "integer", "minimum": True}),
        of(x={"type": "string", "minLength": -1}),
        of(x={"type": "array", "items": [{"type": "null"}]}),
        of(x={"enum": []}),
        {"type": "object", "properties": {1: {"type": "null"}}},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_would_only_be_half_obeyed_is_refused(schema):
    with pytest.raises(UnsupportedSchema):
        Schema(schema)


def test_a_schema_deeper_than_can_be_is_refused():
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(40):
        schema = of(x=schema)
    with pytest.raises(UnsupportedSchema, match="deep"):
        Schema(schema)


def test_annotations_say_something_and_rule_nothing():
    schema = {**of(x={"type": "null", **dict.fromkeys(ANNOTATIONS, "text")})}
    assert rules(schema, {"x": None}) == []
    assert ANNOTATIONS.isdisjoint(SUPPORTED)


def test_a_schema_changed_later_changes_no_rule():
    given_schema = of(x={"type": "integer"})
    schema = Schema(given_schema)
    given_schema["properties"]["x"]["type"] = "string"
    schema.document["properties"].clear()
    assert schema.faults({"x": 1}) == ()
    assert schema.faults({"x": "1"}) == (Fault("/x", "type"),)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(VALUES)
def test_copies_are_the_same_and_share_nothing(value):
    assert same(value, copied(value))
    assert same(frozen(value), value)
    assert copied(frozen(value)) == value
    if isinstance(value, list | dict):
        assert copied(value) is not value


@given(SCALARS, SCALARS)
def test_values_of_different_types_are_never_the_same(one, other):
    assert same(one, other) == (type(one) is type(other) and one == other)
