"""Canonical bytes: the same facts give the same bytes, and a leaf never says what its kind cannot."""

import hmac
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.reasons import Reason
from store.encoding import Identity, Keyed, canonical_json, lp
from store.leaves import close_bytes, leaf, meta_bytes, part_leaf

IDENTITY = Identity(UUID(int=1), "run", "exchange", "attempt", "logical-request")
# Where a zone still has an hour that is in no year before the first.
EARLY = datetime(2, 1, 1)  # noqa: DTZ001 - hypothesis adds the zone
NOON = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
@example({"a\x7f": "\x7f", "\x1f": "\x00\b\f\n\r\t", "/": '"\\'})
def test_canonical_json_is_what_the_standard_library_writes(value):
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    assert canonical_json(value) == expected.encode("ascii")


@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_no_two_lists_of_fields_give_the_same_bytes(one, other):
    assert (lp(*one) == lp(*other)) == (one == other)


@given(st.binary(min_size=32, max_size=32), st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_a_keyed_code_is_the_one_that_the_standard_library_makes(key, messages):
    keyed = Keyed(key)
    assert [keyed.digest(each) for each in messages] == [
        hmac.digest(key, each, "sha256") for each in messages
    ]


@pytest.mark.parametrize("size", [0, 31, 33, 64, 65])
def test_a_key_of_another_length_is_not_taken(size):
    with pytest.raises(ValueError, match="32 bytes"):
        Keyed(b"k" * size)


def meta(**changed: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "bucket": UUID(int=3),
        "captured_at": None,
        "completeness": "complete",
        "media_type": "text/plain",
        "received_at": NOON,
        "sequence": None,
        "session": None,
        "size_class": 256,
        "sources": (),
        "vantage": "sdk",
    }
    found: dict[str, Any] = json.loads(meta_bytes(IDENTITY, **(facts | changed)))
    return found


@given(st.text(max_size=8), st.text(max_size=8) | st.none())
@example("text/\x7f", "\u00e9")
def test_metadata_is_what_the_standard_library_writes_of_it(media_type, session):
    written = meta_bytes(
        IDENTITY, bucket=UUID(int=3), captured_at=NOON, completeness="complete", media_type=media_type,
        received_at=NOON, sequence=1, session=session, size_class=256, sources=[("doc", 2), ("doc", None)],
        vantage="sdk",
    )  # fmt: skip
    expected = json.dumps(json.loads(written), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert written == expected.encode("ascii")
    assert json.loads(written)["media_type"] == media_type


@given(st.uuids(), st.uuids(), st.binary(min_size=32, max_size=32), st.integers(0, 2**32))
def test_a_parts_leaf_is_the_same_whichever_way_it_is_made(bucket, evidence, commitment, second):
    at = datetime.fromtimestamp(second, UTC) + timedelta(microseconds=999_999)
    plain = leaf("part", b=bucket, c=commitment, m=commitment[::-1], p=evidence, t=at)
    assert part_leaf(bucket, evidence, commitment, commitment[::-1], at) == plain


def test_absent_values_are_null():
    found = meta()
    assert [name for name, value in found.items() if value is None] == ["captured_at", "sequence", "session"]
    assert found["sources"] == []


def test_times_are_utc_with_six_digits():
    assert meta()["received_at"] == "2026-01-02T12:00:00.000005Z"
    east = timezone(timedelta(hours=2))
    assert (
        meta(captured_at=datetime(2026, 1, 2, 14, tzinfo=east))["captured_at"]
        == "2026-01-02T12:00:00.000000Z"
    )


@given(st.datetimes(EARLY, timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3))])))
@example(datetime(2026, 1, 2, tzinfo=UTC))
@example(datetime(2026, 1, 2, 3, 4, 5, 120_000, tzinfo=UTC))
def test_a_time_is_written_the_same_wherever_it_comes_from(value):
    expected = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    assert meta(received_at=value)["received_at"] == expected
    assert meta(captured_at=value, session="\u00e9")["captured_at"] == expected


def test_sources_are_sorted_and_stand_once_whatever_their_order():
    bound = [("doc-7", 3), ("doc-10", 1), ("doc-7", 10), ("doc-7", None), ("doc-7", 3)]
    expected = [["doc-10", "1"], ["doc-7", None], ["doc-7", "10"], ["doc-7", "3"]]
    assert meta(sources=bound)["sources"] == expected
    assert meta(sources=reversed(bound))["sources"] == expected


def test_a_closing_counts_the_same_in_any_order():
    counts = {"run_part_limit": 2, Reason.CAPACITY_EXCEEDED: 8}
    sessions = {"b": 2, "a": 40}
    one = close_bytes(UUID(int=1), "run", sessions=sessions, stored=1, not_captured=counts, unaccounted=0)
    other = close_bytes(
        UUID(int=1),
        "run",
        sessions=dict(sorted(sessions.items())),
        stored=1,
        not_captured=dict(sorted(counts.items())),
        unaccounted=0,
    )
    assert one == other
    assert json.loads(one)["sessions"] == [["a", 40], ["b", 2]]
    assert json.loads(one)["counts"]["not_captured"] == {"capacity_exceeded": 8, "run_part_limit": 2}


GOOD: dict[str, dict[str, Any]] = {
    "hold": {"h": UUID(int=5), "op": "place", "si": UUID(int=3), "sk": "run", "t": 1},
    "revoke": {"op": "withdraw", "si": UUID(int=4), "sv": None, "t": 1},
    "purge": {"of": 0, "p": UUID(int=2), "t": 1, "w": Reason.ERASED},
    "resume": {"size": 7, "t": 1, "why": "rolled_back"},
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_leaf_with_its_fields_is_made(kind):
    assert json.loads(leaf(kind, **GOOD[kind])).keys() == GOOD[kind].keys() | {"k", "v"}


@pytest.mark.parametrize("kind", GOOD)
def test_a_leaf_that_lacks_a_field_or_has_one_too_many_is_refused(kind):
    for name in GOOD[kind]:
        with pytest.raises(ValueError, match="has not exactly its fields"):
            leaf(kind, **{key: value for key, value in GOOD[kind].items() if key != name})
    with pytest.raises(ValueError, match="has not exactly its fields"):
        leaf(kind, **GOOD[kind], run="demo-run")


@pytest.mark.parametrize(
    ("kind", "field"), [("hold", "op"), ("hold", "sk"), ("revoke", "op"), ("purge", "w"), ("resume", "why")]
)
def test_a_word_outside_its_list_is_refused(kind, field):
    with pytest.raises(ValueError, match=f"a word in {field}") as raised:
        leaf(kind, **(GOOD[kind] | {field: "CANARY"}))
    assert "CANARY" not in str(raised.value)


def test_there_is_no_other_kind():
    with pytest.raises(KeyError):
        leaf("note", t=1)
