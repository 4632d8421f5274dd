"""Which part of a result a part of its representation is."""

from collections.abc import Sequence

import msgspec

from custody_toolchain.facts import Form, Unit, View


def part_of(view: View, unit: Unit, start: int, stop: int, total: int) -> View:
    """Return the view of `start` to `stop` of something `total` long that is itself seen as `view`.

    Where a cut in one unit follows one in another, which part of the source is left is not known, and not said.
    """
    if view.form in (Form.REFERENCE, Form.OMITTED) or (start, stop) == (0, total):
        return view
    if view.form is Form.FULL:
        return msgspec.structs.replace(
            view, form=Form.PARTIAL, unit=unit, start=start, stop=stop, total=total
        )
    if view.unit is not unit or view.start is None:
        return View(Form.PARTIAL, source_whole=view.source_whole)
    return msgspec.structs.replace(view, start=view.start + start, stop=view.start + stop)


def within(start: int, stop: int | None, total: int) -> tuple[int, int]:
    """Return a cut that begins and ends within something `total` long; ValueError for a negative one."""
    if start < 0 or (stop is not None and stop < start):
        raise ValueError("a cut goes from a start, counted from 0, to a stop that is not before it")
    return min(start, total), total if stop is None else min(stop, total)


def at_characters(encoded: bytes, start: int, stop: int) -> tuple[int, int]:
    """Move both ends of a cut of UTF-8 back to where a character begins."""
    return _begin(encoded, start), _begin(encoded, stop)


def _begin(encoded: Sequence[int], at: int) -> int:
    while 0 < at < len(encoded) and encoded[at] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte of UTF-8
        at -= 1
    return at
