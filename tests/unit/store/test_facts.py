"""Facts as the store reads them: the format that the toolchain has, and nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain import facts as theirs
from policies.facts import STATUSES, FactType
from policies.limits import NOTE_BYTES
from policies.reasons import Reason
from store.errors import Malformed
from store.services import facts
from tests.support.facts import classic, coverage, delivery, seen, stage, surface

GOLDEN = Path(__file__).parents[2] / "contract" / "facts.json"
LINES = [line.removesuffix(",") for line in GOLDEN.read_text("utf-8").splitlines()[1:-1]]


def test_the_golden_file_has_one_fact_of_each_type_and_they_are_written_as_they_were_read() -> None:
    assert [json.loads(line)["type"] for line in LINES] == [each.value for each in FactType]
    for line in LINES:
        assert facts.read(line.encode()) == line.encode()
        assert facts.type_of(facts.decode(line.encode())) == json.loads(line)["type"]


def _schema(fact: Any) -> str:
    """A form without its words: names, types, bounds and closed words."""
    text = json.dumps(msgspec.json.schema(fact), sort_keys=True)
    return re.sub(
        r'"description": "(?:[^"\\]|\\.)*", |, "format": "date-time"|"format": "date-time", ', "", text
    )


def test_the_toolchain_has_the_same_format() -> None:
    assert _schema(facts.Fact) == _schema(theirs.Fact)
    assert theirs.MOST_BYTES == NOTE_BYTES
    told = {str(stage): {str(each) for each in of} for stage, of in theirs.STATUSES.items()}
    assert told == {str(stage): {str(each) for each in of} for stage, of in STATUSES.items()}


@pytest.mark.parametrize(
    "told",
    [
        *classic(),
        surface("x-1"),
        coverage("file-1", 10),
        delivery("report", "met"),
        seen("x-1", None, link="unknown"),
    ],
    ids=lambda told: told["fact"],
)
def test_what_one_side_takes_the_other_takes_and_both_write_it_alike(told: dict[str, Any]) -> None:
    body = msgspec.json.encode(told)
    assert facts.read(body) == theirs.encode(theirs.decode(body))


@pytest.mark.parametrize(
    "wrong",
    [
        stage("a-1", "execution", "reserved"),
        stage("a-1", "execution", "started", message="the user said hello"),
        stage("../a", "execution", "started"),
        stage("a-1\n", "execution", "started"),
        stage("a-1", "execution", "started", execution=0),
        stage("a-1", "execution", "started", code="The user said hello"),
        stage("a-1", "execution", "started", at="2026-11-30T08:15:00"),
        stage("a-1", "execution", "started", at="0001-01-01T00:00:00Z"),
        stage("a-1", "execution", "started", at="0001-01-01T00:00:00.000001+01:00"),
        stage("a-1", "execution", "started", view={"form": "partial", "text": "x"}),
        seen("x-1", None),
        seen("x-1", "a-1", link="unknown"),
        surface("x-1", tools=-1),
        surface("x-1", differences=[{"change": "added", "tool": "t"}] * 9),
        coverage("file-1", 1.5),  # type: ignore[arg-type] # no number of bytes
        delivery("report", "done"),
        delivery("report", "failed", exit_code=2**32),
        delivery("report", "failed", exit_code=10**400),
        {"type": "verse", "fact": "f", "at": "2026-11-30T08:15:00Z"},
        [],
        "fact",
        None,
    ],
    ids=str,
)
def test_what_is_no_fact_is_told_so_and_is_none_for_the_toolchain_either(wrong: Any) -> None:
    body = json.dumps(wrong).encode()
    assert facts.read(body) is Reason.ENCODING_FAILED
    if "0001-01-01" not in str(wrong):
        with pytest.raises(theirs.NotAFact):
            theirs.decode(body)


def test_a_name_that_is_there_twice_has_two_meanings_and_is_none() -> None:
    body = LINES[0].replace('"tool":"read_table"', '"tool":"read_table","tool":"delete"').encode()
    assert facts.read(body) is Reason.ENCODING_FAILED


def test_a_fact_is_at_most_one_kibibyte_as_told_and_as_written() -> None:
    body = LINES[0].encode()
    assert facts.read(body + b" " * (NOTE_BYTES - len(body))) == body
    assert facts.read(body + b" " * (NOTE_BYTES + 1 - len(body))) is Reason.PART_TOO_LARGE
    # Half of them stand for themselves in JSON, and may be written as escapes of twelve characters.
    escapes = surface("x-1", differences=[{"change": "added", "tool": "\x7f" * 30, "at": "\x01" * 20}] * 4)
    short = msgspec.json.encode(escapes)
    assert facts.read(short) is not Reason.ENCODING_FAILED


def test_times_are_written_in_utc() -> None:
    told = stage("a-1", "execution", "started", at="2026-11-30T09:15:00.5+01:00")
    written = facts.read(msgspec.json.encode(told))
    assert isinstance(written, bytes)
    assert json.loads(written)["at"] == "2026-11-30T08:15:00.500000Z"


@pytest.mark.parametrize("wrong", [b'{"tool":"na\xefve"}', b'{"tool":"\x01"}', b'"\xff"'])
def test_a_fact_with_a_byte_that_is_no_text_takes_no_other_with_it(wrong: bytes) -> None:
    good = LINES[0].encode()
    found = facts.split(b'{"facts": [' + b", ".join([good, wrong, good]) + b"]}")
    assert found == [good, wrong, good]
    assert [facts.read(each) for each in found] == [good, Reason.ENCODING_FAILED, good]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"facts": {}}',
        b'{"facts": [], "more": 1}',
        b'{"facts": [], "facts": []}',
        b'{"facts": [}',
        b'{"facts": ["\\x"]}',
        b'{"facts": [01]}',
        b'{"facts": [{},]}',
        b'{"facts": [{} {}]}',
        b'{"facts": []} {}',
        b'{"facts": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"facts": [' + b",".join([b"{}"] * 65) + b"]}",
    ],
    ids=lambda body: body[:24],
)
def test_a_body_that_is_no_list_of_facts_is_refused_whole(body: bytes) -> None:
    with pytest.raises(Malformed):
        facts.split(body)


def test_one_bad_fact_takes_no_other_with_it() -> None:
    bad = [b"{}", b'{"a":1,"a":2}', b"[" * 400 + b"]" * 400, b"9" * 5_000, b'"\\ud800"', b"1e999", b"null"]
    body = b'{"facts": [' + b",".join([LINES[0].encode(), *bad, LINES[1].encode()]) + b"]}"
    first, *others, last = map(facts.read, facts.split(body))
    assert (first, last) == (LINES[0].encode(), LINES[1].encode())
    assert set(others) <= {Reason.ENCODING_FAILED, Reason.PART_TOO_LARGE}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_comes_is_a_list_of_facts_or_malformed(body: bytes) -> None:
    try:
        found = facts.split(body)
    except Malformed:
        return
    assert all(isinstance(facts.read(each), bytes | Reason) for each in found)


@given(
    st.dictionaries(
        st.sampled_from(["type", "fact", "at", "action", "stage", "status", "tool", "view", "link"]),
        st.sampled_from(
            ["stage", "f-1", "2026-11-30T08:15:00Z", "execution", "started", "", 1, None, [], {}]
        ),
    )
)
def test_both_sides_agree_on_what_is_a_fact(told: dict[str, Any]) -> None:
    body = json.dumps(told).encode()
    try:
        other: bytes | None = theirs.encode(theirs.decode(body))
    except theirs.NotAFact:
        other = None
    found = facts.read(body)
    assert (found if isinstance(found, bytes) else None) == other
