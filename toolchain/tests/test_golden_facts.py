"""The golden facts, which the store reads too: format 1, byte for byte."""

import json
from pathlib import Path

import pytest

from custody_toolchain.facts import decode, encode

GOLDEN = Path(__file__).parents[2] / "tests" / "contract" / "facts.json"
LINES = [line.removesuffix(",") for line in GOLDEN.read_text("utf-8").splitlines()[1:-1]]


def test_the_file_is_json_with_a_fact_a_line_and_one_of_each_type() -> None:
    found = json.loads(GOLDEN.read_text("utf-8"))
    assert found == [json.loads(line) for line in LINES]
    assert [each["type"] for each in found] == ["stage", "occurrence", "surface", "coverage", "delivery"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: json.loads(line)["type"])
def test_a_golden_fact_is_written_as_it_was_read(line: str) -> None:
    assert encode(decode(line.encode())) == line.encode()
