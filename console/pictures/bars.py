"""A small bar a run: how many of its observations stand how. The words beside it say the same."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from console.pictures.marks import box
from console.pictures.states import ERASED, EXPIRED, NOT_CAPTURED, STORED, State

_WIDTH: Final = 100.0
# What there is at all can be seen, however much there is of the rest.
_LEAST: Final = 3.0


def shares(stored: int, missing: int, *, erased: bool, expired: bool) -> list[tuple[State, int]]:
    """Return what a run's bar is made of; what was stored goes with its run."""
    state = ERASED if erased else EXPIRED if expired else STORED
    return [(each, count) for each, count in ((state, stored), (NOT_CAPTURED, missing)) if count]


def bar(parts: Sequence[tuple[State, int]]) -> Markup:
    """Draw the bar; nothing where there is nothing."""
    total = sum(count for _, count in parts)
    if not total:
        return Markup("")
    widths = [max(count / total * _WIDTH, _LEAST) for _, count in parts]
    scale = _WIDTH / sum(widths)
    at, pieces = 0.0, []
    for (state, count), width in zip(parts, widths, strict=True):
        # What is missing is half as high: the bar reads without its colours.
        height = 4.0 if state is NOT_CAPTURED else 8.0
        said = f"{count} {state.title}"
        pieces.append(box(at, (8.0 - height) / 2, width * scale - 0.6, height, state.look, said))
        at += width * scale
    told = ", ".join(f"{count} {state.title}" for state, count in parts)
    return Markup(
        '<svg class="count-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(told, Markup("").join(pieces))
