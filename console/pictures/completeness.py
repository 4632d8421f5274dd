"""How much of each day is there, as bars: stored below, missing above. The table says the same in numbers."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from markupsafe import Markup

_HEIGHT: Final = 160
_STEP: Final = 56
_BAR: Final = 36
_TOP: Final = 12
_FOOT: Final = 26


def drawn(days: Sequence[Any]) -> Markup:
    """Draw days (each with `day`, `stored`, `missing`), all scopes of one day together; nothing for none."""
    by_day: dict[date, list[int]] = defaultdict(lambda: [0, 0])
    for each in days:
        by_day[each.day][0] += each.stored
        by_day[each.day][1] += each.missing
    if not by_day:
        return Markup("")
    most = max(1, *(sum(counts) for counts in by_day.values()))
    bars = Markup("").join(
        _bar(place, day, counts[0], counts[1], most)
        for place, (day, counts) in enumerate(sorted(by_day.items()))
    )
    stored, missing = (sum(counts[at] for counts in by_day.values()) for at in (0, 1))
    return Markup(
        '<svg class="picture plot" viewBox="0 0 {width} {height}" width="{width}" role="img"'
        ' aria-labelledby="bars-title bars-told">'
        '<title id="bars-title">Stored and missing by day</title>'
        '<desc id="bars-told">{days} days: {stored} stored, {missing} missing. The table has each day.</desc>'
        "{bars}</svg>"
    ).format(
        width=_STEP * len(by_day) + 16,
        height=_HEIGHT + _TOP + _FOOT,
        days=len(by_day),
        stored=stored,
        missing=missing,
        bars=bars,
    )


def _bar(place: int, day: date, stored: int, missing: int, most: int) -> Markup:
    left, ground = 18 + place * _STEP, _TOP + _HEIGHT
    low, high = round(_HEIGHT * stored / most, 1), round(_HEIGHT * missing / most, 1)
    return Markup(
        '<g><title>{day}: {stored} stored, {missing} missing</title>'
        '<rect class="is-stored" x="{left}" y="{below}" width="{bar}" height="{low}"/>'
        '<rect class="is-missing" x="{left}" y="{above}" width="{bar}" height="{high}"/>'
        '<text class="soft" x="{middle}" y="{text}" text-anchor="middle" font-size="12">{short}</text></g>'
    ).format(
        day=day.isoformat(), stored=stored, missing=missing, left=left, bar=_BAR, low=low, high=high,
        below=ground - low, above=ground - low - high, middle=left + _BAR / 2, text=ground + 18,
        short=day.strftime("%m-%d"),
    )  # fmt: skip
