"""Ranges behave as the sets that they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.sequences import LAST_SEQUENCE, MOST_RANGES, SequenceSet

NUMBERS = st.sets(st.integers(1, 40))


def ranges_of(numbers: set[int]) -> SequenceSet:
    return SequenceSet.of((number, number + 1) for number in numbers)


def numbers_of(sequences: SequenceSet) -> set[int]:
    return {number for start, stop in sequences.ranges for number in range(start, stop)}


@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_operations_are_those_of_sets(some: set[int], others: set[int], more: set[int]):
    one, other, third = ranges_of(some), ranges_of(others), ranges_of(more)
    assert numbers_of(one.union(other, third)) == some | others | more
    assert numbers_of(one.minus(other)) == some - others
    assert numbers_of(one.within(other)) == some & others
    assert one.count == len(some)
    assert bool(one) == bool(some)
    assert one.union() == one


@given(NUMBERS, st.integers(1, 41))
def test_single_numbers(some: set[int], number: int):
    assert (number in ranges_of(some)) == (number in some)
    assert numbers_of(ranges_of(some).add(number)) == some | {number}


@given(NUMBERS, st.randoms(use_true_random=False))
def test_equal_sets_are_equal_however_they_came_to_be(some: set[int], random):
    shuffled = list(some)
    random.shuffle(shuffled)
    grown = SequenceSet()
    for number in shuffled:
        grown = grown.add(number)
    assert grown == ranges_of(some)
    assert hash(grown) == hash(ranges_of(some))


@given(NUMBERS.filter(bool))
def test_text_reads_back(some: set[int]):
    sequences = ranges_of(some)
    assert SequenceSet.from_text(sequences.to_text()) == sequences


@pytest.mark.parametrize(
    ("text", "ranges", "written"),
    [
        ("7", ((7, 8),), "7"),
        ("1-3,7", ((1, 4), (7, 8)), "1-3,7"),
        ("7,1-3", ((1, 4), (7, 8)), "1-3,7"),
        ("1-3, 7", ((1, 4), (7, 8)), "1-3,7"),
        ("1-3,4", ((1, 5),), "1-4"),
        ("1-9,3-4", ((1, 10),), "1-9"),
        ("5-5", ((5, 6),), "5"),
        (str(LAST_SEQUENCE), ((LAST_SEQUENCE, LAST_SEQUENCE + 1),), str(LAST_SEQUENCE)),
    ],
)
def test_texts(text: str, ranges: tuple[tuple[int, int], ...], written: str):
    assert SequenceSet.from_text(text).ranges == ranges
    assert SequenceSet.from_text(text).to_text() == written


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "1,", ",1", "0", "0-3", "3-1", "-1", "1-", "-", "1--3", "1-3-5", "1 -3", "1\n", "1\t-3"),
        *(
            "a",
            "1.5",
            "+1",
            "01",
            "\u0661",
            str(LAST_SEQUENCE + 1),
            f"1-{LAST_SEQUENCE + 1}",
            "9" * 17,
            "9" * 5000,
        ),
    ],
)
def test_what_is_no_text(text: str):
    with pytest.raises(ValueError, match="range"):
        SequenceSet.from_text(text)


def test_a_report_is_bounded():
    most = ",".join(str(2 * number) for number in range(1, MOST_RANGES + 1))
    assert SequenceSet.from_text(most).count == MOST_RANGES
    for text, bound in ((most + ",999", MOST_RANGES), ("1," * 10**6 + "1", MOST_RANGES), ("1,3,5", 2)):
        with pytest.raises(ValueError, match="too many ranges"):
            SequenceSet.from_text(text, bound)


@pytest.mark.parametrize(
    "ranges",
    [((0, 3),), ((-1, 3),), ((3, 3),), ((4, 3),), ((1, 3), (3, 5)), ((4, 6), (1, 2)), ((1, 5), (2, 6))],
)
def test_a_set_that_would_count_wrong_cannot_be_made(ranges: tuple[tuple[int, int], ...]):
    with pytest.raises(ValueError, match="sorted and do not touch"):
        SequenceSet(ranges)


@pytest.mark.parametrize(("last", "text"), [(0, ""), (1, "1"), (41, "1-41")])
def test_up_to(last: int, text: str):
    assert SequenceSet.up_to(last).to_text() == text


def test_millions_cost_a_few_numbers():
    everything = SequenceSet.up_to(10**12)
    stored = SequenceSet.of([(1, 10**11), (2 * 10**11, 10**12)])
    assert everything.minus(stored).ranges == ((10**11, 2 * 10**11), (10**12, 10**12 + 1))
    assert everything.minus(stored).count == 10**11 + 1
