"""Which row of the lens's table applies: the table itself, and what holds for every chain."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.chain import Row, Seen, Step, executions, last_of, row, rows
from policies.facts import STATUSES, Form, Link, Stage, Status

ADMITTED = Step(Stage.ADMISSION, Status.ADMITTED)
REFUSED = Step(Stage.ADMISSION, Status.REFUSED)
STARTED = Step(Stage.EXECUTION, Status.STARTED, 1)
DONE = Step(Stage.EXECUTION, Status.SUCCEEDED, 1)
FAILED = Step(Stage.EXECUTION, Status.FAILED, 1)
DONE_AGAIN = Step(Stage.EXECUTION, Status.SUCCEEDED, 2)
FAILED_AGAIN = Step(Stage.EXECUTION, Status.TIMED_OUT, 2)
RESERVED = Step(Stage.RESERVATION, Status.RESERVED, 1)
NOT_RESERVED = Step(Stage.RESERVATION, Status.FAILED, 1)
REPLAYED = Step(Stage.REPLAY, Status.REPLAYED)
NOT_REPLAYED = Step(Stage.REPLAY, Status.REFUSED)
PROJECTED = Step(Stage.PROJECTION, Status.PROJECTED)
NOT_PROJECTED = Step(Stage.PROJECTION, Status.FAILED)
WHOLE = Seen(Link.BOUND, Form.FULL)
ROWS = Seen(Link.BOUND, Form.PARTIAL)
REFERENCE = Seen(Link.BOUND, Form.REFERENCE)
LEFT_OUT = Seen(Link.BOUND, Form.OMITTED)
UNBOUND = Seen(Link.UNKNOWN, Form.FULL)

steps = st.lists(
    st.sampled_from([(stage, status) for stage, of in STATUSES.items() for status in sorted(of)]).flatmap(
        lambda each: st.builds(Step, st.just(each[0]), st.just(each[1]), st.sampled_from([None, 1, 2, 3]))
    ),
    max_size=6,
)
seen = st.lists(st.builds(Seen, st.sampled_from(Link), st.sampled_from(Form)), max_size=4)


@pytest.mark.parametrize(
    ("told", "found", "answer"),
    [
        ([], [], Row.NOT_RECORDED),
        ([ADMITTED], [], Row.NOT_RECORDED),
        ([ADMITTED, STARTED], [], Row.NOT_RECORDED),
        ([ADMITTED, DONE, PROJECTED], [], Row.NOT_RECORDED),
        ([REFUSED], [], Row.REFUSED_BEFORE_CALL),
        # What the model was given then is the refusal.
        ([REFUSED, PROJECTED], [WHOLE], Row.REFUSED_BEFORE_CALL),
        ([ADMITTED, Step(Stage.RESERVATION, Status.REFUSED)], [], Row.REFUSED_BEFORE_CALL),
        ([Step(Stage.ADMISSION, Status.FAILED)], [], Row.REFUSED_BEFORE_CALL),
        ([ADMITTED, NOT_RESERVED], [], Row.REFUSED_BEFORE_CALL),
        # Nobody knows what became of a start: that is why it was not replayed, nor started again.
        ([NOT_REPLAYED], [], Row.NOT_RECORDED),
        ([REFUSED, NOT_REPLAYED], [], Row.NOT_RECORDED),
        # A yes may stand for a start of which nobody told.
        ([REFUSED, ADMITTED], [], Row.NOT_RECORDED),
        ([ADMITTED, REFUSED], [WHOLE], Row.CARRIED),
        ([ADMITTED, RESERVED, NOT_RESERVED], [], Row.NOT_RECORDED),
        ([ADMITTED, RESERVED, Step(Stage.RESERVATION, Status.FAILED, 1)], [], Row.NOT_RECORDED),
        ([REFUSED, Step(Stage.RESERVATION, Status.SETTLED)], [], Row.NOT_RECORDED),
        ([REFUSED, Step(Stage.PERSISTENCE, Status.PERSISTED, 1)], [], Row.NOT_RECORDED),
        ([REFUSED, Step(Stage.PERSISTENCE, Status.PERSISTED)], [], Row.REFUSED_BEFORE_CALL),
        # Whatever was refused, it ran all the same, before or after.
        ([REFUSED, ADMITTED, DONE, PROJECTED], [WHOLE], Row.CARRIED),
        ([REFUSED, REPLAYED], [REFERENCE], Row.REFERENCE_ONLY),
        ([ADMITTED, STARTED, FAILED], [], Row.EXECUTION_FAILED),
        ([ADMITTED, STARTED, FAILED, PROJECTED], [WHOLE], Row.EXECUTION_FAILED),
        ([FAILED, NOT_PROJECTED], [], Row.EXECUTION_FAILED),
        ([Step(Stage.EXECUTION, Status.CANCELLED, 1)], [], Row.EXECUTION_FAILED),
        ([FAILED, DONE_AGAIN], [WHOLE], Row.CARRIED),
        ([DONE, FAILED_AGAIN], [WHOLE], Row.EXECUTION_FAILED),
        # Told late, it is still the first execution.
        ([DONE_AGAIN, FAILED], [WHOLE], Row.CARRIED),
        ([DONE, NOT_PROJECTED], [], Row.PROJECTION_FAILED),
        ([DONE, NOT_PROJECTED, PROJECTED], [], Row.NOT_RECORDED),
        ([REPLAYED, NOT_PROJECTED], [], Row.PROJECTION_FAILED),
        ([DONE, PROJECTED], [REFERENCE], Row.REFERENCE_ONLY),
        ([DONE, PROJECTED], [LEFT_OUT], Row.LINEAGE_MISSING),
        ([DONE, PROJECTED], [UNBOUND], Row.LINEAGE_MISSING),
        ([DONE, PROJECTED], [ROWS], Row.CUT),
        ([DONE, PROJECTED], [WHOLE], Row.CARRIED),
        ([DONE, PROJECTED], [UNBOUND, REFERENCE], Row.REFERENCE_ONLY),
        ([DONE, PROJECTED], [REFERENCE, ROWS, UNBOUND], Row.CUT),
        # Several parts are not added up.
        ([DONE, PROJECTED], [ROWS, ROWS], Row.CUT),
        ([DONE, PROJECTED], [ROWS, WHOLE], Row.CARRIED),
        ([], [WHOLE], Row.CARRIED),
    ],
)
def test_the_table(told: list[Step], found: list[Seen], answer: Row) -> None:
    assert row(told, found) is answer
    for order in permutations(found):
        assert row(told, order) is answer


@given(steps, st.lists(seen, max_size=4))
def test_each_request_is_decided_as_if_it_were_the_only_one(
    told: list[Step], requests: list[list[Seen]]
) -> None:
    assert rows(told, requests) == [row(told, found) for found in requests]


def test_every_row_of_the_table_is_reached() -> None:
    reached = {row([REFUSED], []), row([FAILED], []), row([DONE, NOT_PROJECTED], []), row([], [])}
    reached |= {row([DONE], [each]) for each in (REFERENCE, UNBOUND, ROWS, WHOLE)}
    assert reached == set(Row)


@pytest.mark.parametrize(
    ("told", "times"),
    [
        ([], None),
        ([ADMITTED], None),
        ([ADMITTED, RESERVED], None),
        ([REPLAYED], None),
        ([NOT_REPLAYED], None),
        ([REFUSED, NOT_REPLAYED], None),
        ([REFUSED], 0),
        ([ADMITTED, NOT_RESERVED], 0),
        ([ADMITTED, STARTED, DONE], 1),
        ([STARTED, DONE, REPLAYED, REPLAYED], 1),
        ([FAILED, DONE_AGAIN], 2),
        # The facts of the first got lost; that it was there did not.
        ([DONE_AGAIN], 2),
        ([Step(Stage.EXECUTION, Status.SUCCEEDED)], 1),
        # What only follows an execution tells of it too.
        ([ADMITTED, RESERVED, Step(Stage.RESERVATION, Status.SETTLED, 1)], 1),
        ([DONE, Step(Stage.REPLAY, Status.REPLAYED, 2)], 2),
        ([Step(Stage.PROJECTION, Status.PROJECTED, 2)], 2),
    ],
)
def test_executions_are_counted_and_what_nobody_told_is_not_nought(
    told: list[Step], times: int | None
) -> None:
    assert executions(told) == times


@given(steps, seen)
def test_nothing_is_said_to_be_carried_that_no_bound_object_shows(
    told: list[Step], found: list[Seen]
) -> None:
    bound = {each.form for each in found if each.link is Link.BOUND}
    answer = row(told, found)
    if answer is Row.CARRIED:
        assert Form.FULL in bound
    if answer is Row.CUT:
        assert Form.PARTIAL in bound
        assert Form.FULL not in bound
    if answer is Row.REFERENCE_ONLY:
        assert Form.REFERENCE in bound
    if answer is Row.NOT_RECORDED:
        assert not found


@given(steps, seen, seen)
def test_a_broken_stage_decides_whatever_requests_hold(
    told: list[Step], found: list[Seen], other: list[Seen]
) -> None:
    broken = {Row.REFUSED_BEFORE_CALL, Row.EXECUTION_FAILED, Row.PROJECTION_FAILED}
    first, second = row(told, found), row(told, other)
    assert (first in broken) == (second in broken)
    if first in broken:
        assert first is second


@given(steps, seen, seen)
def test_one_more_object_never_makes_less_known(
    told: list[Step], found: list[Seen], more: list[Seen]
) -> None:
    order = [Row.NOT_RECORDED, Row.LINEAGE_MISSING, Row.REFERENCE_ONLY, Row.CUT, Row.CARRIED]
    before, after = row(told, found), row(told, [*found, *more])
    if before in order:
        assert order.index(after) >= order.index(before)


@given(steps)
def test_a_replay_adds_no_execution(told: list[Step]) -> None:
    assert (executions([*told, REPLAYED]) or 0) == (executions(told) or 0)


@given(steps)
def test_refused_before_the_call_means_not_executed(told: list[Step]) -> None:
    if row(told, []) is Row.REFUSED_BEFORE_CALL:
        assert executions(told) == 0


def test_each_stage_has_a_status_of_its_own_and_the_last_execution_s_counts() -> None:
    assert last_of([ADMITTED, DONE_AGAIN, FAILED, NOT_PROJECTED, PROJECTED]) == {
        Stage.ADMISSION: Status.ADMITTED,
        Stage.EXECUTION: Status.SUCCEEDED,
        Stage.PROJECTION: Status.PROJECTED,
    }
    assert last_of([]) == {}


@given(steps)
def test_a_last_status_is_one_that_was_told(told: list[Step]) -> None:
    assert set(last_of(told).items()) <= {(step.stage, step.status) for step in told}
    assert last_of(told).keys() == {step.stage for step in told}
