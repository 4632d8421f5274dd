"""One run in time: every attempt where there are few, and stretches of time by state where there are many.

Each picture is made twice, for wide pages and for narrow ones, and the style sheet shows one of them. What it shows is
told in its label; the table below it says the same, row by row. What is missing or cannot be read is a link to the
reason, which stands on the same page.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from console.pictures.marks import R, boxes, leading, line, mark, picture, text
from console.pictures.states import STATES, State

_LABEL_CHARACTERS: Final = 24
_BETWEEN: Final = 2 * R + 4.0
_DIGIT: Final = 7.0
# From an exchange's line to its next.
_LINE: Final = 26.0
_MARGIN: Final = 12.0


@dataclass(frozen=True, slots=True)
class Mark:
    """One observation of an attempt: how it stands, what it is, and when it was received or missed.

    `why` is the reason's name, and `anchor` the id of what the page says of it; both empty where there is no reason.
    """

    state: State
    kind: str
    at: datetime
    why: str = ""
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt, the `number`th of its exchange; `ended` is a word for how it ended, empty where nobody told."""

    exchange: str
    number: int
    attempt: str
    at: datetime
    ended: str
    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where things go on one of the two sizes."""

    look: str
    width: float
    left: float
    lane: float
    above: bool


_FRAMES: Final = (
    _Frame("for-wide", 960, 200, 26, above=False),
    _Frame("for-narrow", 340, 10, 42, above=True),
)
_TOP: Final = 30.0


def detailed(rows: Sequence[Row]) -> Markup:
    """Draw every attempt of a run: a lane each exchange, its attempts one after the other, a mark each observation.

    A lane has as many lines as its attempts need: a call that was tried often is drawn whole.
    """
    if not rows:
        return Markup("")
    return Markup("").join(_lanes(frame, rows) for frame in _FRAMES)


def condensed(
    stretches: Sequence[Mapping[State, int]],
    first_at: datetime,
    last_at: datetime,
    attempts: int,
    exchanges: int,
) -> Markup:
    """Draw a row each state, and in it how much each stretch of time holds."""
    totals: Counter[State] = Counter()
    for each in stretches:
        totals.update(each)
    told = (
        f"{_of(exchanges, 'exchange')} with {_of(attempts, 'attempt')}, {attempts - exchanges} of them retries, "
        f"between {_instant(first_at)} and {_instant(last_at)}; {_told(totals)}"
    )
    return Markup("").join(_stretched(frame, stretches, totals, first_at, last_at, told) for frame in _FRAMES)


def summary(rows: Sequence[Row]) -> str:
    """Say in words what the detailed picture shows."""
    totals = Counter(each.state for row in rows for each in row.marks)
    exchanges = len({row.exchange for row in rows})
    retries = sum(row.number > 1 for row in rows)
    first, last = _ends(rows)
    again = f", {retries} of them {'a retry' if retries == 1 else 'retries'}" if retries else ""
    return (
        f"{_of(exchanges, 'exchange')} with {_of(len(rows), 'attempt')}{again}, between {_instant(first)} and "
        f"{_instant(last)}; {_told(totals)}"
    )


def _lanes(frame: _Frame, rows: Sequence[Row]) -> Markup:
    between = _ends(rows)
    exchanges: dict[str, list[Row]] = {}
    for row in rows:
        exchanges.setdefault(row.exchange, []).append(row)
    lanes = {exchange: _lines(frame, attempts) for exchange, attempts in exchanges.items()}
    height = _TOP + sum(_height_of(frame, lines) for lines in lanes.values()) + 8
    pieces, top = [*_axis(frame, *between, height)], _TOP
    for exchange, lines in lanes.items():
        pieces += _lane(frame, top, exchange, lines, between)
        top += _height_of(frame, lines)
    links = any(each.anchor for row in rows for each in row.marks)
    body = Markup("").join(pieces)
    return picture(
        frame.width, height, body, f"timeline {frame.look}", "Timeline", summary(rows), links=links
    )


def _lines(frame: _Frame, attempts: Sequence[Row]) -> list[list[Row]]:
    """Cut the attempts of an exchange into lines, each with as many as find room beside one another."""
    lines: list[list[Row]] = [[]]
    most = left = frame.width - _MARGIN - frame.left - _MARGIN
    for row in attempts:
        if lines[-1] and left < _width_of(row):
            lines.append([])
            left = most
        lines[-1].append(row)
        left -= _width_of(row)
    return lines


def _lane(
    frame: _Frame,
    top: float,
    exchange: str,
    lines: Sequence[Sequence[Row]],
    between: tuple[datetime, datetime],
) -> list[Markup]:
    """Draw an exchange."""
    y = top + frame.lane - (13 if not frame.above else 12)
    label = text(10, y + 4 if not frame.above else top + 14, _cut(exchange), "name")
    pieces = [line(0, top, frame.width, top), label]
    again = any(row.number > 1 for attempts in lines for row in attempts)
    for place, attempts in enumerate(lines):
        pieces += _line(frame, y + place * _LINE, attempts, between, numbered=again)
    return pieces


def _line(
    frame: _Frame, y: float, attempts: Sequence[Row], between: tuple[datetime, datetime], *, numbered: bool
) -> list[Markup]:
    """Draw attempts beside one another. They keep their order, and stand to scale where there is room for that."""
    pieces = []
    space = frame.left + _MARGIN
    room = sum(_width_of(row) for row in attempts)
    for row in attempts:
        # What follows must still fit.
        start = min(max(_x(frame, row.at, between), space), max(frame.width - _MARGIN - room, space))
        pieces += _attempt(row, start, y, numbered=numbered)
        space = start + _width_of(row)
        room -= _width_of(row)
    return pieces


def _attempt(row: Row, x: float, y: float, *, numbered: bool) -> list[Markup]:
    pieces = []
    if numbered:
        pieces.append(text(x - R, y + 4, f"{row.number}", "number"))
        x += _room_of_number(row)
    end = x + _BETWEEN * max(len(row.marks) - 1, 0)
    said = f"{row.exchange}, attempt {row.number} ({row.attempt}){f', {row.ended}' if row.ended else ''}"
    pieces.append(
        Markup(
            '<rect class="attempt" x="{:g}" y="{:g}" width="{:g}" height="18" rx="9"><title>{}</title></rect>'
        ).format(round(x - 9, 1), round(y - 9, 1), round(end - x + 18, 1), said)
    )
    for place, each in enumerate(row.marks):
        why = f", {each.why}" if each.why else ""
        told = f"{each.kind}: {each.state.title}{why}"
        at = x + place * _BETWEEN
        drawn = mark(each.state, at, y, f"{told}, {_instant(each.at)}")
        named = f"{row.exchange}, attempt {row.number}, {told}"
        pieces.append(leading(drawn, at, y, each.anchor, named) if each.anchor else drawn)
    return pieces


def _width_of(row: Row) -> float:
    return _room_of_number(row) + _BETWEEN * max(len(row.marks) - 1, 0) + 24


def _room_of_number(row: Row) -> float:
    return 12 + _DIGIT * (len(str(row.number)) - 1)


def _height_of(frame: _Frame, lines: Sequence[Sequence[Row]]) -> float:
    return frame.lane + _LINE * (len(lines) - 1)


def _stretched(
    frame: _Frame,
    stretches: Sequence[Mapping[State, int]],
    totals: Mapping[State, int],
    first_at: datetime,
    last_at: datetime,
    told: str,
) -> Markup:
    shown = [state for state in STATES if totals.get(state)]
    lane = frame.lane + 16
    height = _TOP + lane * len(shown) + 8
    pieces = [*_axis(frame, first_at, last_at, height)]
    most = max((max(each.values(), default=0) for each in stretches), default=0) or 1
    step = (frame.width - frame.left - 12) / max(len(stretches), 1)
    for place, state in enumerate(shown):
        top = _TOP + lane * place
        floor = top + lane - 6
        name = f"{totals[state]} {state.title}"
        at = top + 16 if frame.above else top + lane / 2
        pieces += [line(0, top, frame.width, top), mark(state, 14, at), text(28, at + 4, name, "name")]
        room = lane - (30 if frame.above else 12)
        heights = [
            max(each.get(state, 0) / most * room, 2.0) if each.get(state) else 0.0 for each in stretches
        ]
        pieces.append(
            boxes(
                (
                    (frame.left + column * step, floor - tall, step - 0.8, tall)
                    for column, tall in enumerate(heights)
                    if tall
                ),
                state.look,
            )
        )
    body = Markup("").join(pieces)
    return picture(frame.width, height, body, f"timeline {frame.look}", "Timeline, condensed", told)


def _axis(frame: _Frame, first: datetime, last: datetime, height: float) -> list[Markup]:
    """Draw where the time begins and ends, with a quarter's lines between."""
    right = frame.width - 12
    pieces = [
        line(
            frame.left + (right - frame.left) * part / 4,
            _TOP - 6,
            frame.left + (right - frame.left) * part / 4,
            height,
            "axis",
        )
        for part in range(5)
    ]
    took = (last - first).total_seconds()
    return [
        *pieces,
        text(frame.left, 16, f"{first.astimezone(UTC):%H:%M:%S} UTC"),
        text(right, 16, f"+{_seconds(took)}", "soft", "end"),
    ]


def _x(frame: _Frame, at: datetime, between: tuple[datetime, datetime]) -> float:
    took = (between[1] - between[0]).total_seconds()
    share = (at - between[0]).total_seconds() / took if took > 0 else 0.0
    return frame.left + 12 + share * (frame.width - frame.left - 36)


def _ends(rows: Sequence[Row]) -> tuple[datetime, datetime]:
    instants = [row.at for row in rows] + [each.at for row in rows for each in row.marks]
    return min(instants), max(instants)


def _told(totals: Mapping[State, int]) -> str:
    return ", ".join(f"{totals[state]} {state.title}" for state in STATES if totals.get(state)) or "nothing"


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _seconds(took: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if took >= size * 2:
            return f"{took / size:.1f} {unit}"
    return f"{took:.1f} s" if took >= 1 else f"{took * 1000:.0f} ms"


def _of(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")


def _cut(name: str) -> str:
    return name if len(name) <= _LABEL_CHARACTERS else name[: _LABEL_CHARACTERS - 1] + "…"
