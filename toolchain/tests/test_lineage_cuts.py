"""A cut says which part of the source is left, or that this is not known; it never claims more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.facts import Form, Unit, View
from custody_toolchain.ids import ResultRef
from custody_toolchain.lineage import Lineage

REF = ResultRef("run-1", "a1")


def seen(lineage, thing):
    """Return the view in which a request carries a thing; None if it is unknown."""
    request = lineage.prepare("x", [{"role": "tool", "content": thing}]).submitted()
    views = [each.view for each in lineage.occurrences("a1") if each.request == request]
    assert len(views) <= 1
    return views[0] if views else None


@given(
    st.lists(st.integers(), max_size=30),
    st.lists(st.tuples(st.integers(0, 35), st.integers(0, 35)), max_size=4),
)
def test_rows_that_were_cut_are_the_rows_that_the_view_names(source, cuts):
    lineage = Lineage("run-1")
    rows = lineage.bind(list(source), REF)
    for start, length in cuts:
        rows = lineage.cut_rows(rows, start, start + length)
    view = seen(lineage, rows)
    if view.form is Form.FULL:
        assert rows == source
    else:
        assert (view.unit, view.total) == (Unit.ROWS, len(source))
        assert rows == source[view.start : view.stop]


@given(
    st.text(min_size=2, max_size=40), st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=3)
)
def test_bytes_that_were_cut_are_the_bytes_that_the_view_names(source, cuts):
    lineage = Lineage("run-1")
    encoded = source.encode()
    text = lineage.bind(source, REF)
    for start, length in cuts:
        text = lineage.cut_bytes(text, start, start + length)
    view = seen(lineage, text)
    if view is None:
        # Of so short a text there is no fresh copy: unknown, and never another's.
        assert len(text) < 2 or len(source) < 2
    elif view.form is Form.FULL:
        assert text == source
    else:
        assert (view.unit, view.total) == (Unit.BYTES, len(encoded))
        assert text.encode() == encoded[view.start : view.stop]


def test_a_cut_inside_a_character_moves_back_and_says_so():
    lineage = Lineage("run-1")
    text = lineage.cut_bytes(lineage.bind("ab€cd", REF), 0, 4)
    assert text == "ab"
    assert seen(lineage, text) == View(Form.PARTIAL, Unit.BYTES, 0, 2, 7)


def test_rows_rendered_and_then_cut_in_bytes_are_a_part_of_which_nobody_knows_which():
    lineage = Lineage("run-1")
    five = lineage.cut_rows(lineage.bind(list(range(100)), REF, View(Form.FULL, source_whole=False)), 0, 5)
    text = lineage.inherit(str(five), of=five)
    assert seen(lineage, text) == View(Form.PARTIAL, Unit.ROWS, 0, 5, 100, source_whole=False)
    assert seen(lineage, lineage.cut_bytes(text, 0, 4)) == View(Form.PARTIAL, source_whole=False)


@pytest.mark.parametrize("make", ["reference", "omit"])
def test_a_part_of_a_reference_is_a_reference(make):
    lineage = Lineage("run-1")
    note = getattr(lineage, make)("kept as a1", of=lineage.bind(["row"], REF))
    whole, part = seen(lineage, note), seen(lineage, lineage.cut_bytes(note, 0, 4))
    assert whole == part
    assert whole.form is not Form.PARTIAL


def test_a_part_of_what_carries_two_results_is_unknown():
    lineage = Lineage("run-1")
    both = lineage.inherit(
        "one two", of=[lineage.bind("one", REF), lineage.bind("two", ResultRef("run-1", "a2"))]
    )
    assert seen(lineage, lineage.cut_bytes(both, 0, 3)) is None
    assert lineage.unbound == 1


def test_an_unbound_thing_is_cut_all_the_same():
    lineage = Lineage("run-1")
    assert lineage.cut_rows((1, 2, 3), 1) == (2, 3)
    assert lineage.cut_bytes("abc", 1, 2) == "b"
    assert seen(lineage, lineage.cut_bytes("abcd", 1)) is None


@pytest.mark.parametrize("cut", [(-1, 2), (3, 2)])
def test_a_cut_that_is_none_is_refused(cut):
    lineage = Lineage("run-1")
    with pytest.raises(ValueError, match="cut"):
        lineage.cut_rows([1, 2, 3], *cut)
    with pytest.raises(ValueError, match="cut"):
        lineage.cut_bytes("abc", *cut)


@pytest.mark.parametrize("whole", ["text", b"bytes", {"a": 1}])
def test_rows_are_cut_of_rows_only(whole):
    with pytest.raises(TypeError, match="rows"):
        Lineage("run-1").cut_rows(whole, 0, 1)
