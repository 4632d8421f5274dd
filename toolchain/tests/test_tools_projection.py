"""A view leaves out; whatever it keeps is as held."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custody_toolchain.facts import Form, Unit, View
from custody_toolchain.tools import Altered, narrowed
from custody_toolchain.tools.values import frozen, same

HELD = {"name": "ACME", "rows": [[1, 10], [2, None], [3, 30]], "codes": [7, None, 9], "note": "déjà vu"}


def of(view, **said):
    return narrowed(frozen(HELD), frozen(view), **said)


@pytest.mark.parametrize(
    "view",
    [
        {},
        {"name": "ACME"},
        {"rows": []},
        {"rows": [[1, 10]]},
        {"rows": [[2, None], [3, 30]]},
        {"rows": [[1, 10], [3, 30]]},
        {"rows": [[1], [2], [3]]},
        {"codes": [7, None]},
    ],
    ids=str,
)
def test_leaving_out_is_a_view(view):
    assert of(view).form is Form.PARTIAL


@pytest.mark.parametrize(
    "view",
    [
        None,
        [],
        0,
        {"name": "acme"},
        {"name": None},
        {"nick": "ACME"},
        {"rows": [[2, 0]]},
        {"rows": [[1, 10.0]]},
        {"rows": [[True, 10]]},
        {"rows": [[3, 30], [1, 10]]},
        {"rows": [[1, 10], [1, 10]]},
        {"rows": [[1, 10, 5]]},
        {"rows": {"0": [1, 10]}},
        {"codes": [7, 9]},
        {"codes": [None, 9]},
        {"note": "déjà"},
    ],
    ids=str,
)
def test_anything_else_alters_or_adds(view):
    with pytest.raises(Altered):
        of(view)


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        ([], {"start": 0, "stop": 0}),
        ([[1, 10], [2, None]], {"start": 0, "stop": 2}),
        ([[2, None], [3, 30]], {"start": 1, "stop": 3}),
        ([[1, 10], [3, 30]], {}),
    ],
    ids=str,
)
def test_rows_are_said_where_they_are_one_run(rows, part):
    assert of({**HELD, "rows": rows}, rows="/rows") == View(
        form=Form.PARTIAL, unit=Unit.ROWS, total=3, **part
    )


def test_a_whole_view_says_whether_the_source_was_whole():
    assert of(HELD, rows="/rows", source_whole=False) == View(Form.FULL, source_whole=False)


@pytest.mark.parametrize(
    ("text", "cut", "good"),
    [
        ("déjà", (0, 6), True),
        ("vu", (7, 9), True),
        ("", (3, 3), True),
        ("déjà", (0, 4), False),
        ("vu", (0, 2), False),
        ("vu", (7, 99), False),
        ("vu", (-2, 9), False),
    ],
    ids=str,
)
def test_a_cut_text_is_those_bytes_and_no_others(text, cut, good):
    if not good:
        with pytest.raises(Altered):
            of({"note": text}, cut={"/note": cut})
        return
    assert of({"note": text}, cut={"/note": cut}) == View(Form.PARTIAL, Unit.BYTES, cut[0], cut[1], 9)


def test_a_cut_of_what_is_not_there_is_none():
    for view, at in (({}, "/note"), ({"codes": [7]}, "/codes/0"), ({"note": HELD["note"]}, "/name")):
        with pytest.raises(Altered):
            of(view, cut={at: (0, 1)})


SCALARS = st.sampled_from([None, False, True, 0, 1, 0.0, 1.0, "", "a", "0"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


@st.composite
def narrowings(draw, held):
    """Leave something out of a held value, by the rule of the module."""
    if isinstance(held, dict):
        return {key: draw(narrowings(inner)) for key, inner in held.items() if draw(st.booleans())}
    if isinstance(held, list) and all(isinstance(inner, dict | list) for inner in held):
        return [draw(narrowings(inner)) for inner in held if draw(st.booleans())]
    if isinstance(held, list):
        return held[: draw(st.integers(0, len(held)))]
    return held


@given(st.data(), VALUES)
def test_whatever_only_leaves_out_is_a_view(data, held):
    view = data.draw(narrowings(held))
    form = narrowed(frozen(held), frozen(view)).form
    assert form is (Form.FULL if same(held, view) else Form.PARTIAL)


def leaves(value, at=()):
    """Give each scalar with the keys on its way, without the positions in lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*at, key))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, (*at, "[]"))
    else:
        yield at, type(value), value


@given(VALUES, VALUES)
def test_no_view_says_what_is_not_held_there(held, view):
    try:
        narrowed(frozen(held), frozen(view))
    except Altered:
        return
    assert set(leaves(view)) <= set(leaves(held))


def test_a_cut_in_each_of_very_many_rows_takes_time_in_proportion():
    def seconds(rows):
        held = [{"text": f"number {at}"} for at in range(rows)]
        view = [{"text": row["text"][:3]} for row in held]
        began = time.thread_time()
        narrowed(held, view, cut={f"/{at}/text": (0, 3) for at in range(rows)}, rows="")
        return time.thread_time() - began

    # What is linear takes 16 times as long for the second, what is not 256 times.
    small = min(seconds(1000) for _ in range(3))
    assert seconds(16_000) < 16 * 4 * small + 0.1
