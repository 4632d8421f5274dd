"""The numbers that one session gave its observations: which are stored, which are missing, and which nobody told of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from console.pictures.marks import box, boxes, line, picture, text

_WIDTH: Final = 480.0
_COLUMNS: Final = 120
_STORED: Final = "is-stored"
_MISSING: Final = "is-missing"
_UNTOLD: Final = "is-mismatched"
# The lower, the worse; a column that many numbers share shows the worst of them.
_TALL: Final = {_STORED: 14.0, _MISSING: 7.0, _UNTOLD: 3.0}

Ranges = Iterable[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Half-open ranges of one session's numbers, up to `last`."""

    session: str
    last: int
    stored: Ranges
    missing: Ranges
    untold: Ranges


def _sample(look: str) -> Markup:
    return Markup(
        '<svg class="shape" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">{}</svg>'
    ).format(box(2, 15 - _TALL[look], 12, _TALL[look], look))


# What the heights and colours of a strip mean, each with a piece of it.
LEGEND: Final = (
    ("stored", _sample(_STORED)),
    ("missing, and the reason is known", _sample(_MISSING)),
    ("unaccounted, of which nobody told", _sample(_UNTOLD)),
)


def strip(numbers: Numbers) -> Markup:
    """Draw them from 1 to the last: high where stored, half as high where missing, a low line where nobody told."""
    if numbers.last < 1:
        return Markup("")
    columns = min(numbers.last, _COLUMNS)
    looks: list[str | None] = [None] * columns
    for ranges, look in ((numbers.stored, _STORED), (numbers.missing, _MISSING), (numbers.untold, _UNTOLD)):
        for start, stop in ranges:
            first, end = (
                (start - 1) * columns // numbers.last,
                (min(stop, numbers.last + 1) - 2) * columns // numbers.last,
            )
            looks[first : end + 1] = [look] * (end + 1 - first)
    step = (_WIDTH - 20) / columns
    places: dict[str, list[tuple[float, float, float, float]]] = {}
    for at, stop, look in _together(looks):
        wide = max(step * (stop - at) - 0.8, 0.8)
        places.setdefault(look, []).append((10 + at * step, 20 - _TALL[look], wide, _TALL[look]))
    ends = [
        line(10, 21, _WIDTH - 10, 21),
        text(10, 38, "1"),
        text(_WIDTH - 10, 38, str(numbers.last), "soft", "end"),
    ]
    told = (
        f"numbers 1 to {numbers.last}; missing {said(numbers.missing)}; nobody told of {said(numbers.untold)}"
    )
    body = Markup("").join([*(boxes(each, look) for look, each in places.items()), *ends])
    return picture(_WIDTH, 44, body, "numbers", f"Session {numbers.session}", told)


def _together(looks: list[str | None]) -> list[tuple[int, int, str]]:
    """Join neighbours that look the same."""
    found: list[tuple[int, int, str]] = []
    for at, look in enumerate(looks):
        if look is None:
            continue
        if found and found[-1][1] == at and found[-1][2] == look:
            found[-1] = (found[-1][0], at + 1, look)
        else:
            found.append((at, at + 1, look))
    return found


def said(ranges: Ranges, most: int = 8) -> str:
    """Write ranges, and how many more there are where they are many."""
    written = [f"{start}" if stop == start + 1 else f"{start} to {stop - 1}" for start, stop in ranges]
    rest = len(written) - most
    return (", ".join(written[:most]) + (f" and {rest} more ranges" if rest > 0 else "")) or "none"
