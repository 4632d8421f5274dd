"""Pictures of the queue over time: what is not known is never drawn as nothing, and words say what is drawn."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from console.pictures import over_time
from policies.reasons import Reason
from store.services.queue_depths import REFUSALS, SPANS, History, Point, Window

NOW = datetime(2026, 11, 30, 12, 0, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FULL = Reason.CAPACITY_EXCEEDED


def point(
    ago: int,
    *,
    parts: int = 3,
    oldest_s: float = 0.5,
    since: int | None = None,
    refused: dict[Reason, int] | None = None,
    unknown: bool = False,
) -> Point:
    """A point of one minute so many minutes ago, the one before it a minute earlier."""
    at = NOW.replace(second=0) - ago * MINUTE
    before = NOW.replace(second=0) - (ago + 1 if since is None else since) * MINUTE
    return Point(at, at, parts, 1, 1 << 20, oldest_s, before, None if unknown else refused or {})


def history(*points: Point, window: Window = Window.HOUR) -> History:
    begins = NOW.replace(second=0) - SPANS[window].length
    return History(
        window, begins, NOW, SPANS[window].step, points[0].first if points else None, sorted_(points)
    )


def sorted_(points: tuple[Point, ...]) -> list[Point]:
    return sorted(points, key=lambda each: each.first)


def wide(drawn: str) -> str:
    """The picture for wide pages."""
    return re.split(r"(?=<svg)", drawn)[1]


def heights(drawn: str) -> list[list[float]]:
    """Each unbroken line, as the heights of its corners."""
    return [
        [float(corner.partition(",")[2]) for corner in line.split()]
        for line in re.findall(r'<polyline class="depth-line" points="([^"]+)"', wide(drawn))
    ]


def titles(drawn: str) -> list[str]:
    return re.findall(r"<title>([^<]+)</title>", wide(drawn))


def test_minutes_one_after_the_other_are_one_line_without_a_band():
    drawn = over_time.waiting(history(*(point(ago, parts=ago) for ago in range(1, 61))))
    (line,) = heights(drawn)
    assert len(line) == 2 * 60
    # The most is highest, and the ground is not reached: one state waits all the time.
    assert line[0] == min(line) < line[-1]
    assert 'class="unnoted"' not in drawn


@pytest.mark.parametrize("missing", [range(20, 21), range(20, 31)])
def test_where_nothing_was_noted_the_line_ends_and_goes_on_after_a_band(missing: range):
    drawn = over_time.waiting(history(*(point(ago) for ago in range(1, 61) if ago not in missing)))
    before, after = heights(drawn)
    assert {*before, *after} == {before[0]}
    (band,) = titles(drawn)
    until = (NOW - (missing.start - 1) * MINUTE).strftime("%H:%M UTC")
    assert band.startswith("nothing was noted from 2026-11-30")
    assert band.endswith(until)


def test_before_the_first_note_and_after_the_last_are_bands_too_but_not_the_minute_that_goes_on():
    assert len(over_time.gaps_of(history(*(point(ago) for ago in range(5, 30))))) == 2
    assert over_time.gaps_of(history(*(point(ago) for ago in range(1, 61)))) == []


def test_a_queue_in_which_nothing_waits_is_a_line_on_the_ground_and_no_gap():
    empty = [Point(each.first, each.last, 0, 0, 0, 0.0, each.since, {}) for each in map(point, range(1, 61))]
    for drawn in (over_time.waiting(history(*empty)), over_time.oldest(history(*empty))):
        (line,) = heights(drawn)
        assert len(set(line)) == 1
        assert "at most 0" in drawn


def test_where_nothing_was_ever_noted_there_is_no_picture():
    nothing = history()
    assert [over_time.waiting(nothing), over_time.oldest(nothing), over_time.refusals(nothing)] == [""] * 3
    assert over_time.gaps_of(nothing) == [(nothing.begins, nothing.now)]


def test_both_sizes_say_what_is_drawn_in_the_same_words():
    drawn = over_time.waiting(history(*(point(ago, parts=ago) for ago in range(1, 61) if ago != 9)))
    told = re.findall(r'role="img" aria-label="([^"]+)"', drawn)
    assert len(told) == 2
    assert set(told) == {
        "Waiting: at most 61, last 2; 1 gap, between 2026-11-30 11:00 UTC and 2026-11-30 12:00 UTC"
    }


def test_what_was_refused_is_a_bar_in_the_row_of_its_reason():
    few, many = {FULL: 4, Reason.ERASED: 1}, {FULL: 8}
    drawn = over_time.refusals(history(point(3), point(2, refused=few), point(1, refused=many)))
    bars = re.findall(r'<rect class="is-missing"[^>]* height="([\d.]+)"><title>(\d+) until', wide(drawn))
    assert [(float(high), int(times)) for high, times in bars if int(times) > 1] == [(12, 4), (24, 8)]
    # However little it is, it is seen.
    assert [float(high) for high, times in bars if int(times) == 1] == [3]
    assert "Refused: Capacity exceeded: 12, Erased: 1" in drawn
    assert "Highest bar: 8 in 1 min" in drawn


def test_what_was_refused_in_a_gap_has_no_place_in_time_but_is_counted():
    found = history(point(40), point(39, refused={FULL: 1}), point(9, since=39, refused={FULL: 700}))
    assert over_time.totals_of(found.points) == [(FULL, 701)]
    assert over_time.totals_of(over_time.drawn_of(found)) == [(FULL, 1)]
    assert "700" not in over_time.refusals(found)


def test_what_is_not_known_to_have_been_refused_is_a_band_and_no_bar():
    drawn = over_time.refusals(
        history(*(point(ago) for ago in range(4, 61)), point(3, unknown=True), point(1, refused={FULL: 1}))
    )
    assert [each for each in titles(drawn) if each.startswith("not known")] == [
        "not known what was refused until 2026-11-30 11:57 UTC"
    ]


def test_of_many_reasons_the_rarest_share_a_row_and_none_is_lost():
    reasons = sorted(REFUSALS)[:12]
    refused = {reason: 100 - place for place, reason in enumerate(reasons)}
    drawn = over_time.refusals(history(point(2), point(1, refused=refused)))
    rows = re.findall(r'<text class="name"[^>]*>([^<]+)</text>', wide(drawn))
    assert len(rows) == 8
    assert rows[-1].startswith("5 other reasons: ")
    assert sum(int(row.rpartition(" ")[2]) for row in rows) == sum(refused.values())


@pytest.mark.parametrize(
    ("most", "top"),
    [(0, 1), (1, 1), (2, 2), (3, 4), (5, 10), (11, 20), (40, 40), (41, 100), (1001, 2000), (7e6, 1e7)],
)
def test_an_axis_ends_with_a_round_number_above_all(most: float, top: float):
    assert over_time._round_above(most) == top


@pytest.mark.parametrize(
    ("number", "written"), [(0, "0"), (7, "7"), (9_999, "9999"), (20_000, "20k"), (4e6, "4M")]
)
def test_numbers_of_an_axis_are_short(number: float, written: str):
    assert over_time._number(number) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0 s"), (0.04, "0.04 s"), (1.5, "1.5 s"), (90, "1.5 min"), (7_200, "2 h"), (172_800, "2 d")],
)
def test_ages_of_an_axis_are_short(seconds: float, written: str):
    assert over_time._age(seconds) == written


@pytest.mark.parametrize("window", Window)
def test_every_window_names_instants_within_its_frame(window: Window):
    length = SPANS[window].length // MINUTE
    drawn = over_time.waiting(history(point(1), point(length - 1), window=window))
    for picture in re.split(r"(?=<svg)", drawn)[1:]:
        width = float(re.search(r'viewBox="0 0 (\d+)', picture)[1])  # type: ignore[index] # every picture has one
        named = re.findall(r'x="([\d.]+)" y="[\d.]+" text-anchor="middle">(\d\d[:-]\d\d)<', picture)
        assert 2 <= len(named) <= 8
        places = [float(x) for x, _ in named]
        assert all(after - before > 32 for before, after in pairwise(places))
        assert 0 < min(places) < max(places) < width - 20
