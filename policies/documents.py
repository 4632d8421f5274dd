"""Reading a document that a person wrote, field by field: every fault is found before any is reported.

Fails closed: an unknown or wrong field is a fault, never ignored. Faults name fields, not values, so that they may
be answered and logged.
"""

import re
from collections.abc import Callable, Collection
from typing import Final, TypeVar

Value = TypeVar("Value")

_FIELD_NAME = re.compile(r"[a-z][a-z_]{0,39}")
MAX_COUNT: Final = 1_000_000


class PolicyFault(ValueError):
    """A policy document that cannot stand; `faults` names all that is wrong with it."""

    def __init__(self, faults: Collection[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = list(faults)


class Document:
    """One object of a document; what is absent has its default, what is wrong is noted in `faults`."""

    def __init__(self, fields: object, known: Collection[str], faults: list[str], path: str = "") -> None:
        self._path = path
        self._faults = faults
        self._fields = fields if isinstance(fields, dict) else {}
        if not isinstance(fields, dict):
            faults.append(f"{path.rstrip('.') or 'policy'}: needs an object")
        faults.extend(self._strange(name) for name in self._fields if name not in known)

    def read(self, name: str, parse: Callable[[object], Value], default: Value) -> Value:
        """Parse one field; on a fault the default stands in until all faults are reported."""
        if name not in self._fields:
            return default
        try:
            return parse(self._fields[name])
        except ValueError as fault:
            self._faults.append(f"{self._path}{name}: {fault}")
            return default

    def inner(self, name: str, known: Collection[str]) -> "Document":
        """Open an object inside this one."""
        return Document(self._fields.get(name, {}), known, self._faults, f"{self._path}{name}.")

    def _strange(self, name: object) -> str:
        # A caller's text comes back only where it looks like a field and nothing else.
        shown = (
            name if isinstance(name, str) and _FIELD_NAME.fullmatch(name) else "(a name that is no field's)"
        )
        return f"{self._path}{shown}: is not a field of a policy"


def fraction(value: object) -> float:
    """Read a number from 0 to 1; a NaN is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("needs a number from 0 to 1")
    return float(value)


def count(value: object) -> int:
    """Read a whole number from 1 to a million."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        raise ValueError("needs a whole number from 1 to 1000000")
    return value


def flag(value: object) -> bool:
    """Read true or false, and nothing that merely looks like one of them."""
    if not isinstance(value, bool):
        raise ValueError("needs true or false")  # noqa: TRY004 - all faults of a document are ValueErrors
    return value


def word(value: object, words: Collection[str]) -> str:
    """Read one of a closed list of words."""
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"needs one of {', '.join(words)}")
    return value
