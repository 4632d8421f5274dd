"""The shortest wins; the instant of expiry is expired; spans cover all of time without a hole."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.retention import aware, expired, retain_until, shorter, span_of

NOW = datetime(2025, 3, 9, 12, 0, tzinfo=UTC)
NAIVE = datetime(2025, 3, 9, 12, 0)  # noqa: DTZ001 - what must be refused
INSTANTS = st.datetimes(datetime(1900, 1, 1), datetime(2900, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("wished_s", "seconds"),
    [(None, 30), (1, 1), (29, 29), (30, 30), (31, 31), (60, 60), (61, 60), (10**9, 60)],
)
def test_the_shortest_wins(wished_s: int | None, seconds: int):
    assert retain_until(NOW, wished_s, 30, 60) == NOW + timedelta(seconds=seconds)


def test_a_default_over_the_most_is_the_most():
    assert retain_until(NOW, None, 100, 60) == NOW + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("wished_s", "default_s", "max_s"), [(0, 30, 60), (-1, 30, 60), (None, 0, 60), (5, 5, 0)]
)
def test_no_retention_is_a_fault_of_the_caller(wished_s: int | None, default_s: int, max_s: int):
    with pytest.raises(ValueError, match="longer than nothing"):
        retain_until(NOW, wished_s, default_s, max_s)


@pytest.mark.parametrize(
    ("after", "answer"),
    [(-SECOND, False), (timedelta(microseconds=-1), False), (timedelta(0), True), (SECOND, True)],
)
def test_the_end_itself_is_expired(after: timedelta, answer: bool):
    assert expired(NOW, NOW + after) is answer


def test_zones_are_compared_as_instants():
    east = NOW.astimezone(timezone(timedelta(hours=9)))
    assert expired(east, NOW)
    assert shorter(east, NOW + SECOND) == NOW


@pytest.mark.parametrize("swap", [False, True])
def test_the_shorter_of_two(swap: bool):
    pair = (NOW, NOW + SECOND)
    assert shorter(*(reversed(pair) if swap else pair)) == NOW


def test_an_instant_without_a_zone_is_refused_everywhere():
    calls = (
        lambda: aware(NAIVE),
        lambda: retain_until(NAIVE, None, 30, 60),
        lambda: shorter(NAIVE, NOW),
        lambda: shorter(NOW, NAIVE),
        lambda: span_of(NAIVE, 60),
        lambda: expired(NAIVE, NOW),
        lambda: expired(NOW, NAIVE),
    )
    for call in calls:
        with pytest.raises(ValueError, match="needs a zone"):
            call()


@pytest.mark.parametrize(
    ("instant", "span_s", "start", "end"),
    [
        (NOW, 86_400, datetime(2025, 3, 9, tzinfo=UTC), datetime(2025, 3, 10, tzinfo=UTC)),
        (
            datetime(2025, 3, 9, tzinfo=UTC),
            86_400,
            datetime(2025, 3, 9, tzinfo=UTC),
            datetime(2025, 3, 10, tzinfo=UTC),
        ),
        (NOW + SECOND, 2, NOW, NOW + 2 * SECOND),
        (
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            60,
            datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
            datetime(1970, 1, 1, tzinfo=UTC),
        ),
    ],
)
def test_spans(instant: datetime, span_s: int, start: datetime, end: datetime):
    assert span_of(instant, span_s) == (start, end)


@pytest.mark.parametrize("span_s", [0, -1])
def test_a_span_of_nothing(span_s: int):
    with pytest.raises(ValueError, match="longer than nothing"):
        span_of(NOW, span_s)


@given(INSTANTS, st.integers(1, 10**8))
def test_a_span_contains_its_instant_and_the_next_begins_at_its_end(instant: datetime, span_s: int):
    start, end = span_of(instant, span_s)
    assert start <= instant < end
    assert end - start == timedelta(seconds=span_s)
    assert span_of(start, span_s) == (start, end)
    assert span_of(end, span_s)[0] == end
    # What a bucket holds has expired when the bucket does.
    assert expired(instant, end)


@given(INSTANTS, st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_no_wish_is_longer_than_the_most(now: datetime, wished_s: int, default_s: int, max_s: int):
    assert (
        now < retain_until(now, wished_s, default_s, max_s) <= now + timedelta(seconds=min(wished_s, max_s))
    )
