"""JSON values: own copies, copies that nobody can change, and equality that confuses no types."""

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, TypeAlias

MOST_DEPTH: Final = 128

# What JSON can say; a frozen value has read-only mappings and tuples where JSON has objects and arrays.
Json: TypeAlias = Any
Frozen: TypeAlias = Any

_SCALARS: Final = (int, bool, type(None))


class NotJson(ValueError):
    """Something is no JSON value, or deeper than 128; the message names no content."""


def copied(value: object) -> Json:
    """Return an own copy, of dicts and lists; NotJson for what JSON cannot say, NaN and half a surrogate pair say."""
    return _copy(value, dict, list, ())


def frozen(value: object) -> Frozen:
    """Return an own copy, of read-only mappings and tuples; NotJson as `copied`."""
    return _copy(value, lambda pairs: MappingProxyType(dict(pairs)), tuple, ())


def _copy(value: object, mapping: Any, sequence: Any, within: tuple[int, ...]) -> Any:
    if type(value) is str:
        return _text(value)
    if type(value) in _SCALARS:
        return value
    if type(value) is float:
        if not isfinite(value):
            raise NotJson("JSON knows neither NaN nor infinity")
        return value
    if id(value) in within or len(within) >= MOST_DEPTH:
        raise NotJson(f"a value contains itself, or is deeper than {MOST_DEPTH}")
    within = (*within, id(value))
    if isinstance(value, Mapping):
        if not all(type(key) is str for key in value):
            raise NotJson("the keys of an object are strings")
        return mapping(
            [(_text(key), _copy(inner, mapping, sequence, within)) for key, inner in value.items()]
        )
    if isinstance(value, list | tuple):
        return sequence([_copy(inner, mapping, sequence, within) for inner in value])
    raise NotJson("only objects, arrays, strings, numbers, booleans and null are JSON")


def _text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotJson(
                "half of a surrogate pair is no character, and no file or message can hold it"
            ) from None
    return text


def same(one: object, other: object) -> bool:
    """Say whether two JSON values are the same fact: 0, 0.0, false and null are four of them."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def pointed(pointer: str, key: str | int) -> str:
    """Return the JSON pointer (RFC 6901) one step further down."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
