"""Every closed word of facts has its words on the console, and parts of a result are said as they were told."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import lens_words
from console.lens_words import answer, outcome_of, part_of, share_of
from policies.chain import Row
from policies.facts import (
    Change,
    Check,
    Deviation,
    Form,
    ItemKind,
    ItemState,
    Link,
    Stage,
    Status,
    Unit,
    Verdict,
)  # fmt: skip
from store.services.lens_views import ActionView, OccurrenceItem, RequestItem, StageItem, ViewItem

AT = datetime(2026, 11, 30, tzinfo=UTC)
WORDS: tuple[tuple[type[StrEnum], Mapping[Any, Any]], ...] = (
    (Row, lens_words.ROWS), (Stage, lens_words.STAGES), (Status, lens_words.STATUSES), (Form, lens_words.FORMS),
    (Link, lens_words.LINKS), (Check, lens_words.CHECKS), (Verdict, lens_words.VERDICTS), (Change, lens_words.CHANGES),
    (ItemState, lens_words.ITEM_STATES), (ItemKind, lens_words.ITEM_KINDS), (Deviation, lens_words.DEVIATIONS),
)  # fmt: skip


def view(form: Form, *part: int | None, unit: Unit | None = Unit.ROWS, whole: bool | None = None) -> ViewItem:
    start, stop, total = (*part, None, None, None)[:3]
    return ViewItem(form, unit if part else None, start, stop, total, whole)


def action(
    stages: dict[Stage, Status], executions: int | None, *requests: RequestItem, **more: Any
) -> ActionView:
    shown: ViewItem | None = more.get("shown")
    step = StageItem(
        fact_id="f", at=AT, told_at=AT, stage=Stage.PROJECTION, status=Status.PROJECTED, execution=None,
        result_version=1, schema_version=None, code=None, retryable=None, duration_ms=None, arguments_changed=False,
        view=shown,
    )  # fmt: skip
    return ActionView(
        action_id="a", tool=None, call_id=None, executions=executions, stages=stages,
        occurrences=sum(len(each.occurrences) for each in requests), row=Row.NOT_RECORDED, first_told_at=AT, run_id="r",
        observed_at=AT, facts_full=False, steps=[step] if shown else [], views=[], requests=list(requests),
    )  # fmt: skip


def request(number: int, *views: ViewItem, link: Link = Link.BOUND, row: Row = Row.CUT) -> RequestItem:
    held = [
        OccurrenceItem(
            fact_id="f", at=AT, told_at=AT, position=at, link=link, result_version=1, call_id=None, view=each
        )
        for at, each in enumerate(views)
    ]
    return RequestItem(exchange_id="x", attempt_id=None, request=number, row=row, occurrences=held)


@pytest.mark.parametrize(("words", "said"), WORDS, ids=lambda each: getattr(each, "__name__", ""))
def test_every_word_has_words_and_no_two_have_the_same(words: type[StrEnum], said: Mapping[Any, Any]) -> None:
    assert set(said) == set(words)
    assert len({str(each) for each in said.values()}) == len(said)


def test_rows_are_sentences_with_where_to_look_first() -> None:
    for said in lens_words.ROWS.values():
        for text in (said.of_action, said.of_request, said.advice):
            assert re.fullmatch(r"[A-Z].*\.", text), text
    for row in (Row.CUT, Row.LINEAGE_MISSING):
        assert "the observation, before the model is blamed" in lens_words.ROWS[row].advice
    assert "does not say that none did" in lens_words.ROWS[Row.NOT_RECORDED].of_action


@pytest.mark.parametrize(
    ("told", "said", "share"),
    [
        (view(Form.FULL), "the whole result", (0.0, 1.0)),
        (view(Form.PARTIAL, 0, 5, 40), "rows 0 to 5 of 40", (0.0, 0.125)),
        (view(Form.PARTIAL, 1000, 3998, unit=Unit.BYTES), "bytes 1,000 to 3,998", None),
        (view(Form.PARTIAL), "a part, and nobody told which", None),
        (view(Form.PARTIAL, 3, None), "a part, and nobody told which", None),
        (view(Form.REFERENCE), "only the reference", None),
        (view(Form.OMITTED), "left out", None),
        # What the teller counted wrongly is shown as told, and drawn within its box.
        (view(Form.PARTIAL, 0, 50, 40), "rows 0 to 50 of 40", (0.0, 1.0)),
    ],
)
def test_a_part_is_said_as_it_was_told(told: ViewItem, said: str, share: tuple[float, float] | None) -> None:
    assert (part_of(told), share_of(told)) == (said, share)


@given(st.builds(ViewItem, *(st.sampled_from(each) for each in (Form, [*Unit, None])),
                 *(st.none() | st.integers(0, 2**53 - 1) for _ in range(3)), st.none() | st.booleans()))  # fmt: skip
def test_whatever_was_told_a_share_is_within_the_whole(told: ViewItem) -> None:
    share = share_of(told)
    assert share is None or 0 <= share[0] <= 1 >= share[1] >= 0
    assert part_of(told)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ({}, "not recorded"),
        ({Stage.ADMISSION: Status.ADMITTED}, "not recorded"),
        ({Stage.EXECUTION: Status.STARTED}, "started, end not recorded"),
        ({Stage.EXECUTION: Status.TIMED_OUT, Stage.PROJECTION: Status.PROJECTED}, "timed out"),
        ({Stage.ADMISSION: Status.REFUSED}, "admission refused"),
        ({Stage.RESERVATION: Status.FAILED, Stage.ADMISSION: Status.ADMITTED}, "reservation failed"),
        ({Stage.REPLAY: Status.REPLAYED}, "replayed, not executed again"),
        ({Stage.REPLAY: Status.REPLAYED, Stage.EXECUTION: Status.SUCCEEDED}, "succeeded"),
        # How the projection went is another stage's word.
        ({Stage.EXECUTION: Status.SUCCEEDED, Stage.PROJECTION: Status.FAILED}, "succeeded"),
    ],
)
def test_an_outcome_is_that_of_the_execution_alone(stages: dict[Stage, Status], said: str) -> None:
    assert outcome_of(stages)[0] == said


ONE = view(Form.PARTIAL, 0, 1)
WHOLE = view(Form.FULL, whole=True)
FIVE = view(Form.PARTIAL, 0, 5, 120, whole=False)
DONE = {Stage.EXECUTION: Status.SUCCEEDED}


@pytest.mark.parametrize(
    ("told", "clauses"),
    [
        (
            action(DONE, 1, request(8, view(Form.REFERENCE)), request(9, FIVE), shown=FIVE),
            [
                "One external dispatch, succeeded",
                "the view is the first five rows",
                "request 8 carries only the reference, request 9 carries those five rows",
                "the source was not read whole",
                "two occurrences, one execution",
            ],
        ),
        (
            action({}, None),
            ["Execution not recorded", "no view was recorded", "no occurrences, executions not recorded"],
        ),
        (
            action({Stage.ADMISSION: Status.REFUSED}, 0),
            [
                "No external dispatch, admission refused",
                "no view was recorded",
                "no occurrences, no executions",
            ],
        ),
        (
            action({**DONE, Stage.PROJECTION: Status.FAILED}, 12),
            [
                "12 external dispatches, succeeded",
                "no view could be made of the result",
                "no occurrences, 12 executions",
            ],
        ),
        (
            action(DONE, 1, *(request(n, WHOLE) for n in range(1, 7)), shown=WHOLE),
            [
                "One external dispatch, succeeded",
                "the view is the whole result",
                ", ".join(f"request {n} carries the whole result" for n in range(1, 5))
                + ", two more requests below",
                "the source was read whole",
                "six occurrences, one execution",
            ],
        ),
        (
            action(DONE, 1, request(2, view(Form.OMITTED)), shown=WHOLE),
            [
                "One external dispatch, succeeded",
                "the view is the whole result",
                "request 2 leaves it out",
                "the source was read whole",
                "one occurrence, one execution",
            ],
        ),
        (
            action(DONE, 1, request(3, ONE, view(Form.REFERENCE)), shown=ONE),
            [
                "One external dispatch, succeeded",
                "the view is the first row",
                "request 3 carries that row",
                "two occurrences, one execution",
            ],
        ),
        (
            action(DONE, 1, request(3, view(Form.PARTIAL, 0, 2)), shown=FIVE),
            [
                "One external dispatch, succeeded",
                "the view is the first five rows",
                "request 3 carries the first two rows",
                "the source was not read whole",
                "one occurrence, one execution",
            ],
        ),
    ],
)
def test_an_action_is_said_in_one_sentence(told: ActionView, clauses: list[str]) -> None:
    assert answer(told) == "; ".join(clauses) + "."


@pytest.mark.parametrize(
    ("row", "said"), [(Row.EXECUTION_FAILED, "the failure"), (Row.REFUSED_BEFORE_CALL, "the refusal")]
)
def test_what_stands_in_the_place_of_a_result_is_not_called_one(row: Row, said: str) -> None:
    asked = request(9, view(Form.FULL), row=row)
    assert lens_words.carried_by(asked) == said
    assert f"request 9 carries {said};" in answer(action({Stage.EXECUTION: Status.FAILED}, 1, asked))
    assert lens_words.held_of(FIVE, row) == f"rows 0 to 5 of 120, of {said}"
    assert lens_words.held_of(view(Form.REFERENCE), row) == "only the reference"


def test_what_is_bound_to_nothing_says_nothing_of_the_source() -> None:
    told = action(DONE, 1, request(2, view(Form.FULL, whole=True), link=Link.UNKNOWN))
    assert "request 2 holds something of its call that is bound to nothing" in answer(told)
    assert "source" not in answer(told)
