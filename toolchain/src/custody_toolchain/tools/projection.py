"""Three things: raw output, held result, view. A view may leave out; it may not alter what it keeps.

The rule, value by value: an object may lack fields; a list of objects or of lists may lack elements, those that are
there keep their order; any other list is whole or a prefix, so that no position means something else; a string is whole
or a declared cut of bytes; everything else is the same value of the same type. 0 is not null, and 1 is not 1.0.
"""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.facts import Form, Unit, View
from custody_toolchain.tools.owners import said
from custody_toolchain.tools.records import Project, Withhold
from custody_toolchain.tools.values import Frozen, frozen, pointed, same

MOST_REMARKS: Final = 16


class Altered(ValueError):
    """A view says something that the held result does not; the message names the place, not the content."""


class Narrowing:
    """The comparison of one view with one held result; it notes which rows and which bytes were kept."""

    def __init__(self, cut: Mapping[str, tuple[int, int] | None], rows: str | None) -> None:
        self._cut = dict(cut)
        self._rows = rows
        # The cuts that were found in the view, oldest first.
        self._used: list[str] = []
        self.kept: list[int] = []
        self.of_rows: int | None = None
        self.shown: list[tuple[int, int, int]] = []

    def check(self, held: Frozen, view: Frozen) -> None:
        """Raise Altered unless the view only leaves out."""
        if not self._within(held, view, ""):
            raise Altered("a view alters or adds to the held result")
        if len(self._used) < len(self._cut):
            raise Altered("a cut is declared for what is no string of the view")

    def _within(self, held: Frozen, view: Frozen, at: str) -> bool:
        if isinstance(held, Mapping) and isinstance(view, Mapping):
            return view.keys() <= held.keys() and all(
                self._within(held[key], view[key], pointed(at, key)) for key in view
            )
        if isinstance(held, list | tuple) and isinstance(view, list | tuple):
            return self._elements(held, view, at)
        if at in self._cut:
            return self._is_cut(held, view, at)
        return same(held, view)

    def _elements(self, held: Frozen, view: Frozen, at: str) -> bool:
        if all(isinstance(element, Mapping | list | tuple) for element in held):
            kept = self._in_order(held, view, at)
        else:
            short = held[: len(view)]
            kept = list(range(len(view))) if same(short, view) else None
        if kept is None:
            return False
        if at == self._rows:
            self.kept, self.of_rows = kept, len(held)
        return True

    def _in_order(self, held: Frozen, view: Frozen, at: str) -> list[int] | None:
        """Find each element of the view in the held list, in order: taking the first that fits loses no solution."""
        kept: list[int] = []
        place = 0
        for number, element in enumerate(view):
            while place < len(held) and not self._fits(held[place], element, pointed(at, number)):
                place += 1
            if place == len(held):
                return None
            kept.append(place)
            place += 1
        return kept

    def _fits(self, held: Frozen, view: Frozen, at: str) -> bool:
        """Try; what a vain try noted is forgotten."""
        used, shown, rows = len(self._used), len(self.shown), (self.kept, self.of_rows)
        if self._within(held, view, at):
            return True
        del self._used[used:], self.shown[shown:]
        self.kept, self.of_rows = rows
        return False

    def _is_cut(self, held: Frozen, view: Frozen, at: str) -> bool:
        if not isinstance(held, str) or not isinstance(view, str):
            return False
        part = self._cut[at]
        if part is None:
            self._used.append(at)
            return view in held
        start, stop = part
        whole = held.encode("utf-8", "surrogatepass")
        if not 0 <= start <= stop <= len(whole) or whole[start:stop] != view.encode("utf-8", "surrogatepass"):
            return False
        self._used.append(at)
        self.shown.append((start, stop, len(whole)))
        return True


def narrowed(
    held: Frozen,
    view: Frozen,
    *,
    cut: Mapping[str, tuple[int, int]] | None = None,
    rows: str | None = None,
    source_whole: bool | None = None,
) -> View:
    """Return which form of the held result this view is; Altered if it is none.

    A partial view says which part where that is one run of rows (of the list at `rows`) or of bytes (of the one string
    that was cut); otherwise only that it is partial.
    """
    narrowing = Narrowing(cut or {}, rows)
    narrowing.check(held, view)
    if same(held, view):
        return View(form=Form.FULL, source_whole=source_whole)
    return _partial(narrowing, source_whole=source_whole)


def _partial(narrowing: Narrowing, *, source_whole: bool | None) -> View:
    part: dict[str, Any] = {}
    kept, total = narrowing.kept, narrowing.of_rows
    if total is not None and len(kept) < total:
        part = {"unit": Unit.ROWS, "total": total}
        start = kept[0] if kept else 0
        if kept == list(range(start, start + len(kept))):
            part |= {"start": start, "stop": start + len(kept)}
    elif len(narrowing.shown) == 1:
        start, stop, size = narrowing.shown[0]
        part = {"unit": Unit.BYTES, "start": start, "stop": stop, "total": size}
    return View(form=Form.PARTIAL, source_whole=source_whole, **part)


class Views:
    """The view as the tool and after-hooks narrow it in turn; none can show again what another left out."""

    def __init__(self, held: Frozen, *, rows: str | None = None, source_whole: bool | None = None) -> None:
        self.held = held
        self.view = held
        self.form = View(form=Form.FULL, source_whole=source_whole)
        self.remarks: list[str] = []
        self._rows = rows
        self._source_whole = source_whole

    def take(self, wish: object) -> None:
        """Take what a projecting function gave; Altered if it says more than was there, TypeError if it is no wish."""
        if wish is None:
            return
        if not isinstance(wish, Project | Withhold):
            raise TypeError("a projection is a Project, a Withhold or None")
        if isinstance(wish, Project):
            self._narrow(wish)
        else:
            self.view, self.form = None, View(form=wish.form, source_whole=self._source_whole)
        self.remarks += [said(remark) for remark in wish.remarks]
        del self.remarks[MOST_REMARKS:]

    def _narrow(self, wish: Project) -> None:
        if self.form.form not in {Form.FULL, Form.PARTIAL}:
            raise Altered("what was withheld is not shown again")
        view = frozen(wish.view)
        form = narrowed(self.held, view, cut=wish.cut, rows=self._rows, source_whole=self._source_whole)
        # A cut was compared with the held string, byte by byte; here it need only lie within what was shown so far.
        Narrowing(dict.fromkeys(wish.cut), None).check(self.view, view)
        self.view, self.form = view, form
