"""Deep copies of JSON as plain trees that share nothing with what they were made of, within bounds.

Only what every encoder writes in the same way is JSON here: the plain types, and texts and numbers of classes derived
from them. A derived dict or list may show one content to a check and another one to an encoder.
"""

from collections import OrderedDict
from math import isfinite
from typing import Any, Final

MOST_TOOLS: Final = 1024
MOST_VALUES: Final = 200_000
MOST_CHARACTERS: Final = 8 * 2**20
DEEPEST: Final = 64
_LARGEST_BITS: Final = 4096


class Unreadable(ValueError):
    """Tools that cannot be admitted; the message says where, and quotes nothing."""


class NotJson:
    """Stands in a copy for what is not JSON, or too much of it; differs from everything, itself included."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class Copier:
    """Copies values until its bounds are reached; what cannot be copied becomes a NotJson, in its place."""

    def __init__(self) -> None:
        self._values = MOST_VALUES
        self._characters = MOST_CHARACTERS
        self._around: set[int] = set()
        self.faults: list[str] = []

    def copy(self, value: Any, depth: int = 0) -> Any:
        """Return a plain tree: dicts, lists, and plain str, int, float, bool, None."""
        self._values -= 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        # What the class says of itself is not asked: the plain content is what an encoder writes.
        if issubclass(kind, str):
            return self._text(value)
        if issubclass(kind, int):
            plain = int.__index__(value)
            return self._fault("a number too large") if plain.bit_length() > _LARGEST_BITS else plain
        if issubclass(kind, float):
            number = float.__float__(value)
            return number if isfinite(number) else self._fault("a number that is not finite")
        if kind in (dict, OrderedDict, list, tuple):
            return self._container(value, depth)
        return self._fault("something that is not JSON")

    def _text(self, value: str) -> Any:
        plain = str.__str__(value)
        self._characters -= len(plain)
        return plain if self._characters >= 0 else self._fault("too much text")

    def _container(self, value: Any, depth: int) -> Any:
        if id(value) in self._around:
            return self._fault("something that refers to itself")
        if depth >= DEEPEST:
            return self._fault(f"more than {DEEPEST} levels")
        if len(value) > self._values:
            return self._fault("too many values")
        self._around.add(id(value))
        try:
            if not isinstance(value, dict):
                return [self.copy(each, depth + 1) for each in list(value)]
            pairs = list(value.items())
            copied = {self._key(key): self.copy(each, depth + 1) for key, each in pairs}
            return copied if len(copied) == len(pairs) else self._fault("a key that stands there twice")
        finally:
            self._around.discard(id(value))

    def _key(self, key: Any) -> Any:
        return self._text(key) if issubclass(type(key), str) else self._fault("a key that is no text")

    def _fault(self, why: str) -> NotJson:
        self.faults.append(why)
        return NotJson(why)
