import statistics

import pytest

from bench.figures import TARGETS, Figure, Rounds, Target, alternate, number, percentile


def test_a_round_is_compared_with_its_own_rival():
    # The machine was half as fast in the second round, for both.
    rounds = Rounds(ours=[100, 50, 100], rival=[200, 100, 250])
    assert rounds.ratio == 0.5
    assert statistics.median(rounds.ours) / statistics.median(rounds.rival) == 0.5
    assert Rounds(ours=[100, 50, 30], rival=[200, 50, 100]).ratio == 0.5


def test_rounds_are_told_with_the_medians_and_the_spread():
    told = Rounds(ours=[1000, 3000, 2000], rival=[2000, 4000, 8000]).told("parts/s", "plain")
    assert told == "2,000 parts/s; plain: 4,000 (3 rounds, ratios 0.25 to 0.75)"


async def test_sides_take_turns_in_going_first():
    order = []

    async def ours(at):
        order.append(("ours", at))
        return 1.0

    async def rival(at):
        order.append(("rival", at))
        return 2.0

    found = await alternate(3, ours, rival)
    assert order == [("ours", 0), ("rival", 0), ("rival", 1), ("ours", 1), ("ours", 2), ("rival", 2)]
    assert list(found.ours) == [1.0] * 3
    assert found.ratio == 0.5


@pytest.mark.parametrize(
    ("per_cent", "expected"), [(50, 5), (51, 6), (90, 9), (99, 10), (100, 10), (10, 1), (1, 1)]
)
def test_a_percentile_is_a_value_that_was_measured(per_cent, expected):
    assert percentile([7, 3, 10, 1, 9, 2, 8, 4, 6, 5], per_cent) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.45678, "0.457"),
        (3.0, "3"),
        (1.5, "1.5"),
        (250.4, "250"),
        (1234.5, "1234"),
        (99.96, "100"),
        (0.0, "0"),
    ],
)
def test_numbers_have_three_digits_that_count(value, text):
    assert number(value) == text


def test_a_line_is_name_value_target():
    assert Figure("durable", 0.41239, "").line() == "durable 0.412 >=0.35"
    assert Figure("latency_p99", 123.4, "").line() == "latency_p99 123 <=250"


def test_a_target_is_a_floor_or_a_ceiling():
    floor, ceiling = Target(0.4, 0.7, at_least=True), Target(1.5, 1.2, at_least=False)
    assert floor.met(0.4)
    assert not floor.met(0.39)
    assert ceiling.met(1.5)
    assert not ceiling.met(1.51)


def test_what_comes_later_is_never_easier():
    for name, target in TARGETS.items():
        assert target.then >= target.first if target.at_least else target.then <= target.first, name
