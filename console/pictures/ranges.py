"""What was read of a file, as a bar: filled where it was, open where it was not. The words beside it say the same."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from console.pictures.marks import box, boxes

_WIDTH: Final = 200.0
_LEAST: Final = 1.5


def strip(ranges: Sequence[tuple[int, int]], size: int | None) -> Markup:
    """Draw ranges of bytes `[start, stop)` of a file; nothing where its size is not known or nought."""
    if not size:
        return Markup("")
    scale = _WIDTH / size
    read = [
        (min(start * scale, _WIDTH - _LEAST), 0.0, max((min(stop, size) - start) * scale, _LEAST), 8.0)
        for start, stop in ranges
    ]
    return Markup(
        '<svg class="count-bar" viewBox="0 0 200 8" preserveAspectRatio="none" aria-hidden="true">{}{}</svg>'
    ).format(box(0, 0, _WIDTH, 8, "track"), boxes(read, "is-stored"))
