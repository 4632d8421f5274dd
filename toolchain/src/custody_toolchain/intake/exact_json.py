"""JSON, strictly: one value, each key once, numbers that keep their value, and no depth that could end a stack.

Integers are exact, up to 64 digits. A number too large for a double becomes a `Decimal`, up to an exponent of 999.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Context, Decimal
from itertools import accumulate
from json.scanner import make_scanner
from math import inf
from typing import Any, Final

from custody_toolchain.intake.bounds import Limits
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

_MOST_DIGITS: Final = 64
_MOST_EXPONENT: Final = 999
# Infinity comes out of what is beyond the exponent, and nothing is raised; the program's own context has no say in it.
_EXACT: Final = Context(prec=_MOST_DIGITS, Emax=_MOST_EXPONENT, traps=[])

_SPACE: Final = re.compile(r"[ \t\r\n]*+")
# A string as far as it goes, or a bracket. It never fails behind a quote, hence no place is looked at twice.
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BEGUN: Final = re.compile(
    r"(?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-|[+-]?\.|\.|[eE][+-]?|\\(?:u[0-9a-fA-F]{0,4})?|u[0-9a-fA-F]{0,4})\Z"
)
_KEPT: Final = b"[]{}"
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in _KEPT)
_OPENS: Final = bytes(1 if byte in b"[{" else 0 for byte in range(256))
_STEP: Final = (-1, 1)


def value_of(text: str, limits: Limits) -> Any:
    """Return the one JSON value that a text is; Refused if it is anything else."""
    check_depth(text, limits.depth)
    value, end = value_at(text, space_end(text, 0))
    end = space_end(text, end)
    if end < len(text):
        raise Refused(Why.NOT_JSON, at=end)
    if may_hold_halves(text):
        check_values(value, limits)
    return value


def may_hold_halves(text: str) -> bool:
    """Tell whether an escape in it could be half of a surrogate pair, so that decoded values are to be checked."""
    return "\\u" in text and _HALF.search(text) is not None


def value_at(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON value that begins at a place, and where it ends. The caller has checked the depth of the text."""
    try:
        value, end = _scan(text, at)
    except StopIteration as stopped:
        raise _refused(text, "", stopped.value) from None
    except json.JSONDecodeError as error:
        raise _refused(text, error.msg, error.pos) from None
    return value, end


def value_within(text: str, at: int, stop: int, limits: Limits) -> tuple[Any, int]:
    """Return the JSON value that begins at `at`, and where it ends, if no more than space is between that and `stop`.

    Where `stop`, a closing mark, is inside a string of the value, the value ends behind it.
    """
    try:
        return value_of(text[at:stop], limits), stop
    except Refused as refused:
        if refused.why is not Why.CUT:
            raise refused.within(Boundary.ARGUMENTS, offset=at) from None
    end = end_of(text, at, limits)
    try:
        return value_of(text[at:end], limits), end
    except Refused as refused:
        raise refused.within(Boundary.ARGUMENTS, offset=at) from None


def end_of(text: str, at: int, limits: Limits) -> int:
    """Return where the object or list that begins at `at` ends: only brackets and strings are looked at."""
    depth = 0
    for found in _TOKEN.finditer(text, at):
        first = text[found.start()]
        if first in "[{":
            depth += 1
            if depth > limits.depth:
                raise Refused(Why.TOO_DEEP, Boundary.ARGUMENTS, at=found.start())
        elif first in "]}":
            depth -= 1
            if depth <= 0:
                return found.end()
    raise Refused(Why.CUT, Boundary.ARGUMENTS, at=len(text))


def check_depth(text: str, most: int) -> None:
    """Refuse a text whose objects and lists are nested deeper than that, without nesting anything."""
    if text.count("[") + text.count("{") <= most:
        return
    # Pairs of backslashes first, then escaped quotes: what is left of quotes opens and closes strings. Where a text is
    # no JSON this may go wrong only behind the place at which a decoder stops.
    bare = text.replace("\\\\", "").replace('\\"', "")
    outside = "".join(bare.split('"')[::2]).encode("utf-8", "surrogatepass")
    brackets = outside.translate(_OPENS, _OTHERS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > most:
        raise Refused(Why.TOO_DEEP)


def check_values(value: object, limits: Limits) -> None:
    """Refuse a decoded value that could not have come from strict JSON within the bounds."""
    _by_levels(value, limits, _inside)


def check_nesting(value: object, limits: Limits) -> None:
    """Refuse a decoded value that is nested too deep, or holds itself; what is in it may be of any kind."""
    _by_levels(value, limits, _held)


def _by_levels(value: object, limits: Limits, inside: Callable[[Any], Iterable[Any]]) -> None:
    """Look at a value level by level, hence without recursion."""
    level, seen = [value], 1
    for _ in range(limits.depth + 1):
        level = list(_so_many((inner for one in level for inner in inside(one)), limits.text_bytes - seen))
        seen += len(level)
        if not level:
            return
    raise Refused(Why.TOO_DEEP)


def _so_many(values: Iterable[Any], most: int) -> Iterator[Any]:
    """Give values up to a number: each takes a byte of JSON, and what is shared is written as often as it is held."""
    for at, value in enumerate(values):
        if at >= most:
            raise Refused(Why.TOO_MANY_BYTES)
        yield value


def _held(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


def space_end(text: str, at: int) -> int:
    """Return where what is no space begins."""
    if text[at : at + 1] > " ":
        return at
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _inside(value: Any) -> Any:
    """Check one value; return what is in it."""
    kind = type(value)
    if kind is dict:
        for key in value:
            _check(key, str)
            _check_text(key)
        return value.values()
    if kind is list or kind is tuple:
        return value
    if kind is str:
        _check_text(value)
    elif kind is float or kind is int:
        _check_number(value)
    elif value is not None and kind is not bool:
        _check(value, Decimal)
        _check_exact(value)
    return ()


def _check(value: object, kind: type) -> None:
    if type(value) is not kind:
        raise Refused(Why.WRONG_TYPE)


def _check_number(value: float) -> None:
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise Refused(Why.NUMBER_OUT_OF_RANGE)
    elif not -inf < value < inf:
        raise Refused(Why.NOT_A_NUMBER)


def _check_exact(value: Decimal) -> None:
    if not value.is_finite():
        raise Refused(Why.NOT_A_NUMBER)
    if value.adjusted() > _MOST_EXPONENT:
        raise Refused(Why.NUMBER_OUT_OF_RANGE)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refused(Why.LONE_SURROGATE) from None


def _refused(text: str, message: str, at: int) -> Refused:
    """Tell a text that only ended too early from one that is wrong."""
    begin = space_end(text, at)
    ended = begin >= len(text) or _BEGUN.match(text, begin) is not None
    is_cut = ended or message.startswith("Unterminated string")
    return Refused(Why.CUT if is_cut else Why.NOT_JSON, at=at)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Refused(Why.DUPLICATE_KEY)
    return made


def _int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise Refused(Why.NUMBER_OUT_OF_RANGE, length=len(digits))
    return int(digits)


def _float(digits: str) -> float | Decimal:
    value = float(digits)
    if -inf < value < inf:
        return value
    if len(digits) <= _MOST_DIGITS:
        exact = _EXACT.create_decimal(digits)
        if exact.is_finite():
            return exact
    raise Refused(Why.NUMBER_OUT_OF_RANGE, length=len(digits))


def _constant(word: str) -> Any:
    raise Refused(Why.NOT_A_NUMBER, length=len(word))


_MOST_BITS: Final = (10**_MOST_DIGITS).bit_length()
_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_int, parse_float=_float, parse_constant=_constant
)
_scan: Final = make_scanner(_decoder)  # type: ignore[arg-type]  # its own kind is what the decoder is asked for
