"""Cells of CSV: what a spreadsheet must not take for a formula, and what must come through as it is."""

import csv
import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.showing.cells import cell, csv_lines, json_line

FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


@pytest.mark.parametrize("begin", FORMULAS)
def test_what_could_be_a_formula_is_text(begin: str):
    for text in (f"{begin}1+1", f"{begin}", f" {begin}cmd|' /C calc'!A0", f"\u00a0{begin}x"):
        assert cell(text) == f"'{text}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""), (True, "true"), (False, "false"), (-5, "-5"), (0, "0"), ("a-b", "a-b"), ("", ""),
        (["a=b", "c"], "a=b c"), (["=a"], "'=a"), ({"erased": 2, "x": 1}, "erased=2 x=1"), ({}, ""),
        (datetime(2026, 11, 30, tzinfo=UTC), "2026-11-30T00:00:00+00:00"),
    ],
)  # fmt: skip
def test_values_are_shown_as_they_are(value: object, shown: str):
    assert cell(value) == shown


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=4))
def test_a_reader_of_csv_gets_every_cell_back_and_none_that_begins_a_formula(texts: list[str]):
    read = list(csv.reader(io.StringIO(csv_lines([texts]).decode(), newline="")))
    assert read == [[cell(text) for text in texts]]
    for text, shown in zip(texts, read[0], strict=True):
        assert shown.removeprefix("'") == text.removeprefix("'") or shown == f"'{text}"
        assert not shown.lstrip().startswith(FORMULAS)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_no_cell_begins_a_formula_whatever_separates_cells_for_its_reader(separator: str):
    text = f"x{separator}=cmd|' /C calc'!A0"
    (read,) = csv.reader(io.StringIO(csv_lines([[text]]).decode(), newline=""), delimiter=separator)
    assert read == [text]


def test_json_lines_are_one_a_row_and_unchanged():
    assert json_line({"purpose": "=1\n", "n": 1}) == b'{"purpose":"=1\\n","n":1}\n'
