"""The short way of reading a part's header in a flush says what the careful way says, of every header."""

from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policies.sequences import LAST_SEQUENCE
from store.errors import Malformed
from store.services import flushes
from store.services.said import PartSaid

ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 3), st.floats(), st.text(max_size=3), st.binary(max_size=3),
    st.lists(st.integers(0, 9), max_size=2), st.sampled_from(["allow", "ALLOW", "unknown", " ", "1", "x\n"]),
)  # fmt: skip
SOURCE = st.tuples(st.sampled_from(["doc-1", "doc-2", "-", ""]) | ODD, st.none() | st.integers(0, 2) | ODD)
HEADERS = st.fixed_dictionaries(
    {
        "exchange": st.sampled_from(["x-1", "x\n", ""]) | ODD,
        "attempt": st.just("a-1"),
        "kind": st.sampled_from(["logical-request", "observable-output"]) | ODD,
    },
    optional={
        "session": st.sampled_from(["s-1", "s 1"]) | ODD,
        "sequence": st.sampled_from([1, 5.0, "7", LAST_SEQUENCE, LAST_SEQUENCE + 1, 2**63, True]) | ODD,
        "sources": st.lists(SOURCE, max_size=3) | ODD,
        "content-type": st.sampled_from(["text/html", "Text/HTML; charset=x", "image/png"]) | ODD,
        "content-digest": st.sampled_from(["sha-256=:AAAA:", "md5=:AAAA:", f"sha-256=:{'A' * 43}=:"]) | ODD,
        "completeness": st.sampled_from(["complete", "partial"]) | ODD,
        "captured-at": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05"]) | ODD,
        "vantage": st.sampled_from(["sdk", "proxy"]) | ODD,
        "dispatch": st.sampled_from(["dispatched", "unknown"]) | ODD,
        "settlement": st.sampled_from(["completed", "unknown"]) | ODD,
        "content": st.sampled_from(["allow", "opt_out"]) | ODD,
        "other": ODD,
    },
)  # fmt: skip


@given(HEADERS, st.sampled_from([None, "s-0", "not an id"]))
@example({"exchange": "x", "attempt": "a", "kind": "logical-request", "sequence": 5.0}, "s-0")
@example({"exchange": "x", "attempt": "a", "kind": "logical-request", "sequence": 5}, None)
@settings(max_examples=300)
def test_both_ways_of_reading_a_header_agree(header: dict[str, Any], session: str | None) -> None:
    said = msgspec.msgpack.decode(msgspec.msgpack.encode(header))
    assert read(flushes._part, said, session) == read(flushes._carefully, said, session)


def read(how: Any, said: dict[str, Any], session: str | None) -> PartSaid | str:
    try:
        part: PartSaid = how(said, session)
    except Malformed:
        return "malformed"
    return part
