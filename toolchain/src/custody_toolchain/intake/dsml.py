"""DSML, the markup of DeepSeek's newer models, in all forms in which it was seen outside of its tokens.

States: a batch holds calls, a call holds parameters, a parameter holds text up to the next mark. A batch may come
without its wrapper. All marks of one batch are spelled the same way: one bar or two, of one kind.
"""

import re
from typing import Final

from custody_toolchain.intake.call_objects import Stated
from custody_toolchain.intake.exact_json import space_end
from custody_toolchain.intake.reading import Parameters, Reading
from custody_toolchain.intake.words import Boundary, Dialect, Why

_BARS: Final = r"[\uff5c|\u2016]{1,2}"
BEGINS: Final = rf"</?{_BARS} ?DSML ?{_BARS}"
_BEGINS: Final = re.compile(BEGINS)
_MARK: Final = re.compile(
    rf"<(/?)({_BARS} ?DSML ?{_BARS}) ?([a-z_]+)"
    r'(?: +name="([^"<>]*)")?(?: +string="(true|false)")? *>'
)
_WRAPPERS: Final = frozenset({"function_calls", "tool_calls", "calls"})


class _Mark:
    """One mark: which, how it is spelled, what it names, where it ends."""

    __slots__ = ("at", "closes", "end", "name", "spelled", "string", "word")

    def __init__(self, found: re.Match[str]) -> None:
        slash, self.spelled, self.word, self.name, self.string = found.groups()
        self.closes, self.at, self.end = slash == "/", found.start(), found.end()


def batch(reading: Reading, at: int) -> int:
    """Read the batch that begins at `at`, and return where it ends; Refused unless all of it is whole."""
    first = _mark(reading, at, None)
    if first.closes:
        raise reading.refused(Why.UNOPENED, Boundary.BLOCK, at)
    if first.word in _WRAPPERS:
        _bare(reading, first, Boundary.BLOCK)
        return _calls(reading, first)
    return _without_wrapper(reading, first)


def _calls(reading: Reading, wrapper: _Mark) -> int:
    before, at = len(reading.actions), wrapper.end
    while True:
        mark = _next(reading, at, wrapper, Boundary.BLOCK)
        if mark.closes:
            _closed_by(reading, mark, wrapper, Boundary.BLOCK)
            if len(reading.actions) == before:
                raise reading.refused(Why.EMPTY, Boundary.BLOCK, mark.at)
            return mark.end
        at = _call(reading, mark)


def _without_wrapper(reading: Reading, mark: _Mark) -> int:
    while True:
        end = _call(reading, mark)
        at = space_end(reading.text, end)
        if not _BEGINS.match(reading.text, at):
            return end
        mark = _mark(reading, at, mark)
        if mark.closes:
            raise reading.refused(Why.UNOPENED, Boundary.BLOCK, at)


def _call(reading: Reading, opening: _Mark) -> int:
    if opening.word != "invoke":
        known = opening.word in _WRAPPERS or opening.word == "parameter"
        raise reading.refused(Why.UNKNOWN_NESTING if known else Why.UNKNOWN_MARK, Boundary.BLOCK, opening.at)
    if opening.string is not None:
        raise reading.refused(Why.UNKNOWN_MARK, Boundary.CALL, opening.at)
    name = reading.name(opening.name or "", opening.at)
    parameters, at = Parameters(reading, name), opening.end
    while True:
        mark = _next(reading, at, opening, Boundary.CALL)
        if mark.closes:
            _closed_by(reading, mark, opening, Boundary.CALL)
            reading.add(Dialect.DSML, Stated(name, parameters.values, None, {}), opening.at, mark.end)
            return mark.end
        at = _parameter(reading, parameters, mark)


def _parameter(reading: Reading, parameters: Parameters, opening: _Mark) -> int:
    ordinal = len(parameters.values)
    if opening.word != "parameter":
        known = opening.word in _WRAPPERS or opening.word == "invoke"
        why = Why.UNKNOWN_NESTING if known else Why.UNKNOWN_MARK
        raise reading.refused(why, Boundary.CALL, opening.at, parameter=ordinal)
    if opening.string is None:  # whether it is text or JSON would be a guess
        raise reading.refused(Why.AMBIGUOUS, Boundary.PARAMETER, opening.at, parameter=ordinal)
    found = _BEGINS.search(reading.text, opening.end)
    if found is None:
        raise reading.refused(Why.UNCLOSED, Boundary.PARAMETER, opening.at, parameter=ordinal)
    closing = _mark(reading, found.start(), opening, parameter=ordinal)
    if not closing.closes or closing.word != "parameter":
        raise reading.refused(Why.UNKNOWN_NESTING, Boundary.PARAMETER, closing.at, parameter=ordinal)
    _bare(reading, closing, Boundary.PARAMETER)
    value = reading.text[opening.end : closing.at]
    parameters.add(opening.name or "", value, opening.end, is_json=opening.string == "false")
    return closing.end


def _next(reading: Reading, at: int, inside: _Mark, boundary: Boundary) -> _Mark:
    """Return the mark that comes next; only space may stand before it."""
    at = space_end(reading.text, at)
    if at >= len(reading.text):
        raise reading.refused(Why.UNCLOSED, boundary, inside.at)
    if _BEGINS.match(reading.text, at):
        return _mark(reading, at, inside)
    begun = reading.text.startswith("<", at) and reading.text.find(">", at) < 0
    raise reading.refused(Why.UNCLOSED if begun else Why.UNEXPECTED_TEXT, boundary, at)


def _mark(reading: Reading, at: int, like: _Mark | None, *, parameter: int | None = None) -> _Mark:
    """Return the mark at `at`; Refused unless it is whole and spelled as the others."""
    found = _MARK.match(reading.text, at)
    if found is None:
        begins = reading.text.find(">", at) < 0
        why = Why.UNCLOSED if begins else Why.UNKNOWN_MARK
        raise reading.refused(why, Boundary.BLOCK, at, parameter=parameter)
    mark = _Mark(found)
    if like is not None and mark.spelled != like.spelled:
        raise reading.refused(Why.AMBIGUOUS, Boundary.BLOCK, at, parameter=parameter)
    return mark


def _closed_by(reading: Reading, mark: _Mark, opening: _Mark, boundary: Boundary) -> None:
    if mark.word != opening.word:
        raise reading.refused(Why.UNKNOWN_NESTING, boundary, mark.at)
    _bare(reading, mark, boundary)


def _bare(reading: Reading, mark: _Mark, boundary: Boundary) -> None:
    """Refuse a mark that names what it has no business to name."""
    if mark.name is not None or mark.string is not None:
        raise reading.refused(Why.UNKNOWN_MARK, boundary, mark.at)
