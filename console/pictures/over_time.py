"""How deep the queue was and what was refused, over a window of time. The table below them says the same in numbers.

Time goes to the right, in UTC. Where nothing was noted there is a band and no line: it is no zero. Each picture is made
twice, for wide pages and for narrow ones, and the style sheet shows one of them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, TypeAlias

from markupsafe import Markup

from console.pictures.marks import box, line, picture, text
from policies.reasons import Reason
from store.services.queue_depths import History, Point, Window
from store.services.refusals import title

_MINUTE: Final = timedelta(minutes=1)
# The minute that goes on is not noted yet, and the one before perhaps just now.
_FRESH: Final = timedelta(minutes=2)
_MOST_LANES: Final = 8
_LEAST_HIGH: Final = 2.0
_LEAST_WIDE: Final = 1.5
_NAMED_EVERY: Final = {
    Window.HOUR: (timedelta(minutes=10), timedelta(minutes=20), "%H:%M"),
    Window.DAY: (timedelta(hours=3), timedelta(hours=6), "%H:%M"),
    Window.WEEK: (timedelta(days=1), timedelta(days=2), "%m-%d"),
}
# What an axis of seconds may end with; longer ones end with whole days.
_SECONDS: Final = (1, 2, 4, 10, 20, 60, 120, 240, 600, 1_200, 3_600, 7_200, 14_400, 43_200, 86_400)
# A name, and the reasons that are shown together under it.
_Lane: TypeAlias = tuple[str, Sequence[Reason]]
_SIZES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where things go on one of the two sizes."""

    look: str
    width: float
    left: float
    high: float
    narrow: bool

    @property
    def right(self) -> float:
        """Return where the window ends."""
        return self.width - 14

    def x(self, history: History, at: datetime) -> float:
        """Return where an instant is."""
        share = (at - history.begins) / (history.now - history.begins)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)


_FRAMES: Final = (
    _Frame("for-wide", 960, 62, 130, narrow=False),
    _Frame("for-narrow", 340, 46, 110, narrow=True),
)
_TOP: Final = 30.0
_FOOT: Final = 26.0
_LANE: Final = 46.0
_BAR: Final = 24.0


# --- what is shown


def waiting(history: History) -> Markup:
    """Draw how much waited; nothing where nothing was noted."""
    top = _round_above(max((each.items for each in history.points), default=0))
    return _plot(history, "Waiting", lambda each: each.items, top, _number)


def oldest(history: History) -> Markup:
    """Draw how long that had waited which waited longest."""
    most = max((each.oldest_s for each in history.points), default=0.0)
    top = next((each for each in _SECONDS if each >= most), 86_400 * -(-int(most) // 86_400))
    return _plot(history, "Oldest waited", lambda each: each.oldest_s, top, _age)


def refusals(history: History) -> Markup:
    """Draw a row each reason, and in it how often that was given; nothing where none was."""
    totals = totals_of(drawn_of(history))
    if not totals:
        return Markup("")
    lanes: list[_Lane] = [(_said(reason, count), (reason,)) for reason, count in totals]
    if len(lanes) > _MOST_LANES:
        rest = totals[_MOST_LANES - 1 :]
        others = f"{len(rest)} other reasons: {sum(count for _, count in rest)}"
        lanes = [*lanes[: _MOST_LANES - 1], (others, tuple(reason for reason, _ in rest))]
    return Markup("").join(_lanes(frame, history, lanes, told_of(totals)) for frame in _FRAMES)


def totals_of(found: Sequence[Point]) -> list[tuple[Reason, int]]:
    """Return how often each reason was given, the most frequent first."""
    totals: Counter[Reason] = Counter()
    for each in found:
        totals.update(each.refused or {})
    return sorted(totals.items(), key=lambda each: (-each[1], each[0]))


def drawn_of(history: History) -> list[Point]:
    """Return the points whose refusals have a place in time: those that no gap is before."""
    return [
        each
        for each in history.points
        if each.refused is not None and not (each.since and _apart(history, each.since, each.first))
    ]


def gaps_of(history: History) -> list[tuple[datetime, datetime]]:
    """Return from when to when nothing was noted, for longer than one point is."""
    found = history.points
    if not found:
        return [(history.begins, history.now)]
    edges = [(each.last + _MINUTE, after.first) for each, after in pairwise(found)]
    between = [(begins, ends) for begins, ends in edges if _apart(history, begins - _MINUTE, ends)]
    first, last = found[0].first, found[-1].last
    before = [(history.begins, first)] if first - history.begins >= history.step else []
    after_all = [(last + _MINUTE, history.now)] if history.now - last > _FRESH else []
    return [*before, *between, *after_all]


def told_of(totals: Sequence[tuple[Reason, int]]) -> str:
    """Say how often each reason was given."""
    return ", ".join(_said(reason, count) for reason, count in totals)


def _said(reason: Reason, count: int) -> str:
    return f"{title(reason)}: {count}"


# --- lines


def _plot(
    history: History, name: str, value: Callable[[Point], float], top: float, said: Callable[[float], str]
) -> Markup:
    if not history.points:
        return Markup("")
    values = [value(each) for each in history.points]
    told = (
        f"at most {said(max(values))}, last {said(values[-1])}; {_gaps(len(gaps_of(history)))}, "
        f"between {_instant(history.begins)} and {_instant(history.now)}"
    )
    return Markup("").join(_drawn(frame, history, name, value, (top, said, told)) for frame in _FRAMES)


def _drawn(
    frame: _Frame,
    history: History,
    name: str,
    value: Callable[[Point], float],
    scale: tuple[float, Callable[[float], str], str],
) -> Markup:
    top, said, told = scale
    ground = _TOP + frame.high
    pieces = [
        *_bands(frame, history, _TOP, ground),
        *_rules(frame, top, said),
        *_times(frame, history, ground),
        text(8, 18, f"{name}, most in {_age(history.step.total_seconds())}"),
        text(frame.right, 18, "UTC", "soft", "end"),
    ]
    for some in _unbroken(history):
        corners = [
            (
                frame.x(history, each.first),
                max(frame.x(history, each.last + _MINUTE), frame.x(history, each.first) + _LEAST_WIDE),
                ground - value(each) / top * frame.high,
            )
            for each in some
        ]
        pieces += _steps(corners, ground)
    body = Markup("").join(pieces)
    return picture(frame.width, ground + _FOOT, body, f"over-time {frame.look}", name, told)


def _steps(corners: Sequence[tuple[float, float, float]], ground: float) -> list[Markup]:
    """Draw one unbroken line: each point is level for as long as it was noted."""
    along = " ".join(f"{begins:.1f},{y:.1f} {ends:.1f},{y:.1f}" for begins, ends, y in corners)
    below = f"{corners[0][0]:.1f},{ground:.1f} {along} {corners[-1][1]:.1f},{ground:.1f}"
    return [
        Markup('<polygon class="depth" points="{}"/>').format(below),
        Markup('<polyline class="depth-line" points="{}"/>').format(along),
    ]


def _rules(frame: _Frame, top: float, said: Callable[[float], str]) -> Iterator[Markup]:
    """Draw the lines of nothing, of half and of the whole, with their numbers."""
    for share in (0.0, 0.5, 1.0):
        y = _TOP + frame.high * (1 - share)
        yield line(frame.left, y, frame.right, y, "rule" if share else "axis")
        if share != 0.5 or top > 1:  # noqa: PLR2004 - the middle
            yield text(frame.left - 6, y + 4, said(top * share) if share else "0", "soft", "end")


# --- bars


def _lanes(frame: _Frame, history: History, lanes: Sequence[_Lane], told: str) -> Markup:
    known = drawn_of(history)
    most = max(_times_of(each, reasons) for each in known for _, reasons in lanes)
    ground = _TOP + _LANE * len(lanes)
    pieces = [
        *_bands(frame, history, _TOP, ground),
        *_unknown(frame, history, ground),
        *_times(frame, history, ground),
        text(8, 18, f"Highest bar: {_number(most)} in {_age(history.step.total_seconds())}"),
        text(frame.right, 18, "UTC", "soft", "end"),
    ]
    for place, (name, reasons) in enumerate(lanes):
        floor = _TOP + _LANE * (place + 1)
        pieces += [
            line(frame.left, floor, frame.right, floor),
            text(frame.left, floor - _BAR - 6, name, "name"),
        ]
        pieces += _bars(frame, history, known, reasons, (floor, most))
    body = Markup("").join(pieces)
    return picture(frame.width, ground + _FOOT, body, f"over-time {frame.look}", "Refused", told)


def _bars(
    frame: _Frame,
    history: History,
    known: Sequence[Point],
    reasons: Sequence[Reason],
    scale: tuple[float, int],
) -> Iterator[Markup]:
    floor, most = scale
    for each in known:
        times = _times_of(each, reasons)
        if times:
            begins, ends = frame.x(history, each.first), frame.x(history, each.last + _MINUTE)
            high = max(times / most * _BAR, _LEAST_HIGH)
            said = f"{times} until {_instant(each.last)}"
            yield box(begins, floor - high, max(ends - begins - 0.5, _LEAST_WIDE), high, "is-missing", said)


def _times_of(point: Point, reasons: Sequence[Reason]) -> int:
    return sum((point.refused or {}).get(reason, 0) for reason in reasons)


# --- what both have


def _bands(frame: _Frame, history: History, top: float, ground: float) -> Iterator[Markup]:
    for begins, ends in gaps_of(history):
        said = f"nothing was noted from {_instant(begins)} to {_instant(ends)}"
        yield _band(frame, history, (begins, ends), (top, ground), said)


def _unknown(frame: _Frame, history: History, ground: float) -> Iterator[Markup]:
    for each in history.points:
        if each.refused is None:
            said = f"not known what was refused until {_instant(each.last)}"
            yield _band(frame, history, (each.first, each.last + _MINUTE), (_TOP, ground), said)


def _band(
    frame: _Frame,
    history: History,
    between: tuple[datetime, datetime],
    edges: tuple[float, float],
    said: str,
) -> Markup:
    begins, ends = (frame.x(history, each) for each in between)
    return box(begins, edges[0], max(ends - begins, _LEAST_WIDE), edges[1] - edges[0], "unnoted", said)


def _times(frame: _Frame, history: History, ground: float) -> Iterator[Markup]:
    """Draw and name instants along the ground."""
    wide, narrow, form = _NAMED_EVERY[history.window]
    every = narrow if frame.narrow else wide
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    at = epoch + -(-(history.begins - epoch) // every) * every
    while at <= history.now:
        x = frame.x(history, at)
        yield line(x, ground, x, ground + 4, "axis")
        # What would stand over an edge is left out: its neighbours tell.
        if frame.left + 14 <= x <= frame.right - 14:
            yield text(x, ground + 18, at.strftime(form), "soft", "middle")
        at += every


def _unbroken(history: History) -> list[list[Point]]:
    found: list[list[Point]] = []
    for each in history.points:
        if found and not _apart(history, found[-1][-1].last, each.first):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _apart(history: History, last: datetime, first: datetime) -> bool:
    return first - last > history.step


def _round_above(most: float) -> float:
    """Return the next of 1, 2, 4, 10, 20, 40, …; one at least."""
    top = 1
    while top < most:
        top = next(top * by for by in (2, 4, 10) if top * by >= most or by == 10)  # noqa: PLR2004 - its tenfold
    return top


def _number(count: float) -> str:
    for size, unit in ((1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"{count / (1_000 if unit == 'k' else size):g}{unit}"
    return f"{count:g}"


def _age(seconds: float) -> str:
    for size, unit in _SIZES:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.1g} s" if seconds else "0 s"


def _gaps(count: int) -> str:
    return "1 gap" if count == 1 else f"{count or 'no'} gaps"


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
