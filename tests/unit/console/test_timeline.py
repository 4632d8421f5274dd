"""The picture of a run in time: nothing of it lies outside its frame, however often a call was tried again."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from console.pictures.marks import R
from console.pictures.states import QUEUED
from console.pictures.timeline import Mark, Row, detailed, summary

BEGAN = datetime(2026, 11, 30, 12, tzinfo=UTC)
# As wide as a digit of the picture's size is in the widest of usual fonts.
DIGIT = 7.0
BETWEEN = timedelta(seconds=3)


def attempt(number: int, exchange: str = "x-1") -> Row:
    at = BEGAN + number * BETWEEN
    marks = [Mark(QUEUED, kind, at) for kind in ("request", "output")]
    return Row(exchange, number, f"a-{number}", at, "", marks)


def numbers_in(svg: str, element: str, *names: str) -> list[tuple[float, ...]]:
    """Return of each such element what its attributes of these names say, in that order."""
    said = r"[^>]*".join(rf'\b{name}="([-0-9.]+)"' for name in names)
    found = re.findall(rf"<{element}[^>]*?{said}[^>]*>", svg)
    return [tuple(map(float, each)) for each in found]


def frames(svg: str) -> list[tuple[float, float, str]]:
    """Return the width and the height of each picture, and the picture."""
    found = re.findall(r'<svg[^>]*viewBox="0 0 ([0-9.]+) ([0-9.]+)"[^>]*>(.*?)</svg>', svg, re.DOTALL)
    return [(float(width), float(height), body) for width, height, body in found]


@pytest.mark.parametrize("first", [1, 41, 961])
@pytest.mark.parametrize("attempts", [1, 6, 7, 14, 15, 30, 200])
def test_every_attempt_is_within_the_frame_in_order_and_beside_the_others(attempts: int, first: int):
    rows = [attempt(number) for number in range(first, first + attempts)]
    drawn = frames(str(detailed([*rows, attempt(1, "x-2")])))
    assert [width for width, _, _ in drawn] == [960, 340]
    for width, height, svg in drawn:
        pills = numbers_in(svg, 'rect class="attempt"', "x", "y", "width", "height")
        assert len(pills) == attempts + 1
        assert all(x >= 0 and x + wide <= width for x, _, wide, _ in pills)
        assert all(y >= 0 and y + tall <= height for _, y, _, tall in pills)
        places = [tuple(map(float, at)) for at in re.findall(r'translate\(([0-9.]+) ([0-9.]+)\)"', svg)]
        assert len(places) == 2 * (attempts + 1)
        assert all(R <= x <= width - R and R <= y <= height - R for x, y in places)
        assert sorted(places, key=lambda place: (place[1], place[0])) == places
        for (x, y, wide, _), (next_x, next_y, _, tall) in pairwise(pills):
            assert next_x >= x + wide if next_y == y else next_y >= y + tall


@pytest.mark.parametrize("first", [1, 9, 95, 195])
def test_the_number_of_an_attempt_stands_free_before_it(first: int):
    for width, _, svg in frames(str(detailed([attempt(number) for number in range(first, first + 30)]))):
        pills = numbers_in(svg, 'rect class="attempt"', "x", "y", "width")
        ends: dict[float, float] = {}
        texts = re.findall(r'<text class="number" x="([0-9.]+)" y="([0-9.]+)"[^>]*>(\d+)</text>', svg)
        assert [int(said) for _, _, said in texts] == list(range(first, first + 30))
        for (x, y, said), (pill, top, wide) in zip(texts, pills, strict=True):
            assert ends.get(top, 0.0) <= float(x), (width, said)
            assert float(x) + DIGIT * len(said) <= pill, (width, said)
            assert top < float(y) < top + 18
            ends[top] = pill + wide


def test_a_call_that_was_tried_seldom_stands_to_scale_on_one_line():
    rows = [attempt(1), attempt(2), attempt(11)]
    for width, height, svg in frames(str(detailed(rows))):
        pills = numbers_in(svg, 'rect class="attempt"', "x", "y")
        assert len({y for _, y in pills}) == 1
        assert pills[2][0] > width / 2
        assert height < 100


def test_what_was_tried_before_this_page_is_no_first_try_of_it():
    assert "1 exchange with 2 attempts, 1 of them a retry" in summary([attempt(1), attempt(2)])
    assert "1 exchange with 2 attempts, 2 of them retries" in summary([attempt(41), attempt(42)])
    assert "1 exchange with 1 attempt, between" in summary([attempt(1)])
