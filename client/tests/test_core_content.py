"""From what is handed in to bytes: as it is, in full, once; or not at all, with a word on what it was and where."""

import dataclasses
import enum
import math
from collections import ChainMap, UserList
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_client import encoding
from custody_client.content import TooLarge, Unserialisable, completeness_of, to_bytes

MOST = 262_144
JSON = "application/json"


def written(content, content_type=JSON, most_bytes=MOST, seconds=5.0):
    return to_bytes(content, content_type, most_bytes, seconds)


def told(content, **limits):
    with pytest.raises(Unserialisable) as caught:
        written(content, **limits)
    return caught.value.told


class Dumped:
    """As a pydantic model."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self, *, mode, warnings=True):
        assert (mode, warnings) == ("json", False)
        return self.fields


@dataclasses.dataclass
class Point:
    x: float
    label: str = "p"


class Colour(enum.Enum):
    RED = "red"


class Real(float):
    pass


class Name(str):
    __slots__ = ()


class Whole(int):
    pass


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_values_are_written_in_full(value):
    assert msgspec.json.decode(written({"a": value})) == msgspec.json.decode(
        msgspec.json.encode({"a": value})
    )


@given(VALUES, st.sampled_from([math.nan, math.inf, -math.inf]), st.booleans())
def test_a_float_that_json_cannot_hold_is_refused_and_never_becomes_null(value, bad, deep):
    inner = [value, {"temperature": bad, "n": 2**70}] if deep else bad
    assert "float that is not finite at $" in told({"a": value, "b": inner})


@pytest.mark.parametrize("bad", [Real("nan"), Dumped(a=math.inf), UserList([math.nan]), Point(math.nan)])
def test_nor_does_one_within_what_has_to_be_asked(bad):
    assert told({"metadata": [bad]})


def test_large_finite_floats_and_integers_are_no_fault():
    value = {"f": [1e308, -1.7e308, 5e-324], "i": [2**64, -(2**63) - 1, None], "n": None}
    assert msgspec.json.decode(written(value)) == value
    assert b"18446744073709551616" in written(value)


def test_what_people_put_into_metadata_is_written():
    at, name = datetime(2026, 1, 2, tzinfo=UTC), UUID("12345678-1234-5678-1234-567812345678")
    value = {"metadata": {"id": name, "at": at, "by_status": {200: 3}, "cost": Decimal("0.10")}}
    assert msgspec.json.decode(written(value)) == {
        "metadata": {"id": str(name), "at": "2026-01-02T00:00:00Z", "by_status": {"200": 3}, "cost": "0.10"}
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Dumped(a=1, b=Dumped(c=[2])), {"a": 1, "b": {"c": [2]}}),
        (Point(1.5), {"x": 1.5, "label": "p"}),
        (ChainMap({"a": 1}, {"b": 2}), {"a": 1, "b": 2}),
        (UserList([1, 2]), [1, 2]),
        ([Real(0.5), Name("n"), Whole(7), Colour.RED], [0.5, "n", 7, "red"]),
        ((1, 2), [1, 2]),
        (None, None),
        ("text", "text"),
    ],
)
def test_models_mappings_sequences_and_subclasses_are_written_as_what_they_are(value, expected):
    assert msgspec.json.decode(written(value)) == expected


@pytest.mark.parametrize("value", [b"\xff\x00raw", bytearray(b"ab"), memoryview(b"xabx")[1:3]])
def test_bytes_stay_as_they_are(value):
    assert written(value) == bytes(value)


def test_a_text_that_is_no_json_is_utf8():
    assert written("grüße", "text/plain") == "grüße".encode()
    assert written("grüße") == '"grüße"'.encode()


def test_a_callable_is_called_once_for_any_of_these():
    calls = iter([b"raw"])
    assert written(lambda: next(calls)) == b"raw"
    assert written(lambda: {"a": [1]}) == b'{"a":[1]}'
    assert written(lambda: bytearray(b"ab")) == b"ab"


def test_what_encodes_itself_is_taken_by_that():
    class Assembled:
        completeness = "interrupted"

        def encode(self):
            return b"{}"

    assert (written(Assembled()), completeness_of(Assembled())) == (b"{}", "interrupted")
    assert completeness_of({"completeness": "interrupted"}) == "complete"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"messages": [{"content": object()}]}, "object at $.messages[0].content"),
        ({"metadata": {"secret-name": {"a": 1, "b": 2j}}}, "complex at $.metadata.{0}.{1}"),
        ({"text": "done \ud83d"}, "str with a lone surrogate at $.text"),
        ("\ud83d", "str with a lone surrogate at $"),
        (lambda: 1 / 0, "the callable raised ZeroDivisionError"),
        ([1, {"temperature": math.nan}], "float that is not finite at $[1].temperature"),
        ({(1, 2): 3}, "something within dict"),
    ],
)
def test_a_fault_names_type_and_place_and_never_a_value(value, expected):
    assert told(value) == expected


def test_what_holds_itself_is_refused_at_once():
    loop: dict[str, object] = {}
    loop["messages"] = [loop]
    assert told(loop) == "dict that holds itself at $.messages[0]"


def test_what_is_deeper_than_anybody_reads_is_refused():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "too deep" in told(deep)


def test_a_small_value_that_becomes_endless_stops_at_the_limit():
    bomb: list[object] = ["x"]
    for _ in range(80):
        bomb = [bomb, bomb]
    with pytest.raises(TooLarge):
        written(bomb)


@pytest.mark.parametrize("most_bytes", [10, 20_000, MOST])
def test_the_limit_is_of_bytes_and_exact(most_bytes):
    exact = "😀" * ((most_bytes - 2) // 4) + "x" * ((most_bytes - 2) % 4)
    assert len(written(exact, most_bytes=most_bytes)) == most_bytes
    for over in (exact + "x", b"x" * (most_bytes + 1), memoryview(b"x" * (most_bytes + 1)), [exact]):
        with pytest.raises(TooLarge):
            written(over, most_bytes=most_bytes)


def test_a_slow_callable_and_slow_models_give_up():
    class Slow:
        def model_dump(self, **_):
            encoding.budget.until = 0  # as if the time were over by now
            return {}

    assert told([Slow(), Slow()]) == "writing it took too long"
    assert told(lambda: b"", seconds=-1) == "the callable took too long"


def test_later_changes_reach_no_copy():
    value, raw = {"messages": ["a"]}, bytearray(b"raw")
    copies = written(value), written(raw)
    value["messages"].append("b")
    raw[:] = b"xxx"
    assert copies == (b'{"messages":["a"]}', b"raw")
