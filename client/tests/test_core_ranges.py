"""Ranges and ledgers: sets of numbers in bounded memory, a union whatever the order."""

from hypothesis import given
from hypothesis import strategies as st

from custody_client.ledger import REPORT_RANGES, Ledger, numbered
from custody_client.ranges import MOST, Ranges
from tests.support.scripted import numbers

SPANS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 12)).map(lambda each: (each[0], each[0] + each[1]))
)


def members(ranges):
    return {number for start, stop in ranges for number in range(start, stop)}


def well_formed(ranges):
    edges = [edge for each in ranges for edge in each]
    return edges == sorted(set(edges))


@given(SPANS)
def test_a_union_is_the_same_in_any_order(spans):
    found = Ranges(spans)
    assert members(found) == members(spans)
    assert found.count == len(members(spans))
    assert well_formed(found)
    assert list(Ranges(reversed(spans))) == list(found)


@given(SPANS, SPANS)
def test_what_is_taken_out_is_out(spans, others):
    found = Ranges(spans)
    found.remove(Ranges(others))
    assert members(found) == members(spans) - members(others)
    assert well_formed(found)


@given(SPANS)
def test_the_text_says_what_is_in_it(spans):
    found = Ranges(spans)
    assert set(numbers(found.to_text())) == members(spans) if members(spans) else found.to_text() == ""


def test_fragments_stay_bounded_and_nothing_of_them_is_lost():
    found = Ranges((number, number + 1) for number in range(1, 4 * MOST, 2))
    assert len(found) == MOST
    assert members(found) >= set(range(1, 4 * MOST, 2))
    assert well_formed(found)


def test_a_ledger_tells_each_loss_once_and_by_its_reason():
    ledger = Ledger()
    for number in (3, 1, 2, 9, 2):
        ledger.lose(number, "client_queue_full")
    ledger.lose(5, "client_mask_failed")
    told = dict(ledger.report())
    assert {reason: ranges.to_text() for reason, ranges in told.items()} == {
        "client_queue_full": "1-3,9",
        "client_mask_failed": "5",
    }
    ledger.lose(4, "client_queue_full")
    for reason, ranges in told.items():
        ledger.told(reason, ranges)
    assert [(reason, ranges.to_text()) for reason, ranges in ledger.report()] == [("client_queue_full", "4")]


def test_a_report_holds_no_more_ranges_than_the_service_reads():
    ledger = Ledger()
    for number in range(1, 400, 2):
        ledger.lose(number, "client_queue_full" if number % 3 else "client_mask_failed")
    told = set()
    while report := ledger.report():
        assert sum(len(ranges) for _, ranges in report) <= REPORT_RANGES
        for reason, ranges in report:
            told |= members(ranges)
            ledger.told(reason, ranges)
    assert told == set(range(1, 400, 2))


def test_a_standing_refusal_speaks_for_what_nothing_else_is_known_of():
    ledger = Ledger()
    ledger.begin()
    ledger.lose(4, "client_queue_full")
    ledger.settle(2, 9, "temporary_mode", Ranges([(6, 8)]))
    assert {reason: ranges.to_text() for reason, ranges in ledger.report()} == {
        "client_queue_full": "4",
        "temporary_mode": "2-3,5,8",
    }


def test_a_loss_amid_a_loss_is_neither_lost_nor_waited_for():
    """As a finaliser would that runs while the lock is held by its own thread."""
    ledger = Ledger()
    with ledger._lock:
        ledger.lose(1, "not_observed")
    assert ledger.gather() == 1


def test_a_counter_says_what_was_taken_without_taking():
    from itertools import count  # noqa: PLC0415 - only here

    numbers = count(1)
    assert numbered(numbers) == 0
    assert [next(numbers) for _ in range(3)] == [1, 2, 3]
    assert numbered(numbers) == 3
    assert next(numbers) == 4
