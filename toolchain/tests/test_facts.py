"""What counts as a fact, and that nothing else does."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.facts import (
    CoverageFact,
    Form,
    Link,
    NotAFact,
    OccurrenceFact,
    Stage,
    StageFact,
    Status,
    View,
    code_of,
    decode,
    encode,
    fact_id,
    now,
)
from custody_toolchain.ids import is_id


def stage(**said):
    wanted = {"fact": "f1", "at": now(), "action": "a1", "tool": "search", "stage": Stage.EXECUTION}
    return StageFact(**{**wanted, "status": Status.SUCCEEDED, **said})


def test_a_fact_is_the_same_after_its_json():
    fact = stage(execution=1, view=View(Form.PARTIAL))
    assert decode(encode(fact)) == fact


@pytest.mark.parametrize(
    "said",
    [
        {"action": "../a"},
        {"action": "a\n"},
        {"tool": "t" * 129},
        {"status": Status.RESERVED},
        {"code": "The user said hello"},
        {"execution": 0},
        {"at": now().replace(tzinfo=None)},
    ],
    ids=lambda said: next(iter(said)),
)
def test_what_is_no_fact_is_refused_without_quoting_it(said):
    with pytest.raises(NotAFact) as refused:
        encode(stage(**said))
    assert str(next(iter(said.values()))) not in str(refused.value)


def test_a_fact_is_at_most_one_kibibyte():
    ranges = tuple((2**50 + 2 * at, 2**50 + 2 * at + 1) for at in range(16))
    with pytest.raises(NotAFact, match="1 KiB"):
        encode(
            CoverageFact(
                fact="f" * 128, at=now(), file="x" * 128, frontier=2**50, whole=False, ranges=ranges * 3
            )
        )


@pytest.mark.parametrize(("link", "action"), [(Link.BOUND, None), (Link.UNKNOWN, "a1")])
def test_an_occurrence_names_an_action_exactly_where_it_is_bound(link, action):
    with pytest.raises(NotAFact, match="bound"):
        encode(
            OccurrenceFact(
                fact="f",
                at=now(),
                exchange="x",
                request=1,
                position=0,
                link=link,
                view=View(Form.FULL),
                action=action,
            )
        )


def test_an_unknown_field_is_no_fact():
    told = msgspec.to_builtins(stage()) | {"output": "secret"}
    with pytest.raises(NotAFact) as refused:
        decode(msgspec.json.encode(told))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "code"), [(None, None), ("timed_out", "timed_out"), ("No such file: /x", "other")]
)
def test_only_a_closed_word_is_a_code(text, code):
    assert code_of(text) == code


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_an_id_made_of_names_is_one_and_always_the_same(names):
    made = fact_id("stage", *names)
    assert is_id(made)
    assert made == fact_id("stage", *names)


def test_ids_that_are_made_of_other_names_are_other_ids():
    names = [("a.b",), ("a", "b"), ("a.b", "c", 1), ("a", "b.c", 1), ("a" * 200, "b"), ("a" * 200 + ".b",)]
    made = [fact_id("stage", *each) for each in names]
    assert len(set(made)) == len(names)
    assert all(map(is_id, made))
