"""What the log's readers take from an entry, and the short cut for parts, which must never say anything else."""

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.commitments import leaf
from store.log_tree.facts import KINDS, facts, part_named, placed

VECTORS = json.loads((Path(__file__).parents[2] / "contract" / "vectors.json").read_text(encoding="utf-8"))
LEAVES = {kind: text.encode("ascii") for kind, text in VECTORS["leaves"].items()}
SUBJECTS = {"part": "p", "purge": "p", "close": "r", "hold": "h", "revoke": "si", "expire": "b"}


@pytest.mark.parametrize("kind", LEAVES)
def test_kind_subject_and_time(kind):
    said, known = facts(LEAVES[kind]), json.loads(LEAVES[kind])
    assert (said.k, said.t) == (kind, known["t"])
    assert (said.subject and said.subject.hex) == known.get(SUBJECTS.get(kind, ""))
    assert kind in KINDS
    assert part_named(LEAVES[kind]) == (known["p"] if kind == "part" else None)


@given(st.uuids(), st.uuids(), st.binary(min_size=32, max_size=32), st.integers(0, 2**33))
def test_the_short_cut_reads_what_is_written(bucket: UUID, evidence: UUID, commitment: bytes, at: int):
    entry = leaf(
        "part", b=bucket, c=commitment, m=commitment[::-1], p=evidence, t=datetime.fromtimestamp(at, UTC)
    )
    assert part_named(entry) == evidence.hex == facts(entry).subject.hex  # type: ignore[union-attr]


@given(st.integers(0, len(LEAVES["part"]) - 1), st.integers(0, 255))
def test_the_short_cut_agrees_with_the_long_way_on_whatever_it_takes(at: int, byte: int):
    entry = LEAVES["part"][:at] + bytes([byte]) + LEAVES["part"][at + 1 :]
    named = part_named(entry)
    assert named is None or (facts(entry).k, facts(entry).p) == ("part", UUID(hex=named))


@pytest.mark.parametrize(
    "wrong",
    [
        b"", b"{}", b"null", b"[]", b'{"k":"other","t":1}', b'{"k":"part","t":1}', b'{"k":"part","p":"0","t":1}',
        LEAVES["part"] + b" x", LEAVES["part"][:-1],
    ],
)  # fmt: skip
def test_what_is_no_leaf_is_refused(wrong):
    assert part_named(wrong) is None
    with pytest.raises(ValueError):  # noqa: PT011 - of whichever words
        facts(wrong)


def test_only_the_place_of_its_part_is_put_into_a_purge_leaf():
    waiting = leaf("purge", of=None, p=UUID(VECTORS["identity"]["evidence"]), t=1764460890, w="erased")
    assert placed(waiting, 0) == LEAVES["purge"]
    assert placed(LEAVES["purge"], 7) == LEAVES["purge"]
