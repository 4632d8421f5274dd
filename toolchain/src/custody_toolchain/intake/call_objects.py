"""A call that is written as a JSON object: its name, arguments and id, under the names that models use for them."""

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from custody_toolchain.intake.bounds import Limits, name_of
from custody_toolchain.intake.exact_json import value_of
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Why

_NAMES: Final = ("name", "tool")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input")
_IDS: Final = ("id", "call_id")
_USUAL: Final = {"name", "arguments"}
_KNOWN: Final = frozenset((*_NAMES, *_ARGUMENTS, *_IDS, "function"))
_WIDEST: Final = 4  # bytes that one character can take


class Stated(Struct, gc=False):
    """A call as an object states it."""

    name: str
    arguments: dict[str, Any]
    call_id: str | None
    opaque: dict[str, Any]


def stated(value: object, characters: int, limits: Limits) -> Stated:
    """Read a call out of a decoded object; `characters` is how long its JSON was. Refused unless it is one call."""
    if not isinstance(value, dict):
        raise Refused(Why.NOT_AN_OBJECT, Boundary.CALL)
    if value.keys() == _USUAL:
        name = name_of(value["name"], limits)
        return Stated(name, _arguments(value["arguments"], name, characters, limits), None, {})
    inside, opaque = value, {key: inner for key, inner in value.items() if key not in _KNOWN}
    if isinstance(value.get("function"), dict):
        inside = value["function"]
        opaque |= {key: inner for key, inner in inside.items() if key not in _KNOWN}
        if any(key in value for key in (*_NAMES, *_ARGUMENTS)):
            raise Refused(Why.AMBIGUOUS, Boundary.CALL)
    elif "function" in value:
        raise Refused(Why.WRONG_TYPE, Boundary.CALL)
    name = name_of(_one(inside, _NAMES, Why.AMBIGUOUS), limits)
    given = _one(inside, _ARGUMENTS, Why.ARGUMENTS_CONFLICT)
    arguments = _arguments(given, name, characters, limits)
    return Stated(name, arguments, id_in(_one(value, _IDS, Why.AMBIGUOUS)), opaque)


def object_in(given: object, limits: Limits) -> dict[str, Any]:
    """Return arguments: an object, or a text that is the JSON of one."""
    value = _from_text(given, limits) if isinstance(given, str) else given
    if not isinstance(value, dict):
        raise Refused(Why.NOT_AN_OBJECT, Boundary.ARGUMENTS)
    return value


def _arguments(given: object, name: str, characters: int, limits: Limits) -> dict[str, Any]:
    if given is None:
        raise Refused(Why.ARGUMENTS_MISSING, Boundary.CALL, name=name)
    arguments = object_in(given, limits)
    bounded(arguments, characters, limits)
    return arguments


def _from_text(given: str, limits: Limits) -> Any:
    """Return what a text in a JSON text says. It is whole, whatever is missing in it: no cut did that."""
    try:
        return value_of(given, limits)
    except Refused as refused:
        why = Why.NOT_JSON if refused.why is Why.CUT else refused.why
        raise Refused(why, Boundary.ARGUMENTS, length=len(given)) from None


def id_in(given: object) -> str | None:
    """Return the id that a model or provider gave, or None where it gave none. None is made up."""
    if given is None or isinstance(given, str):
        return given or None
    raise Refused(Why.WRONG_TYPE, Boundary.CALL)


def bounded(arguments: dict[str, Any], characters: int, limits: Limits) -> None:
    """Refuse a parameter that is too long. Where all of the JSON is short enough nothing is measured."""
    if characters * _WIDEST <= limits.parameter_bytes:
        return
    for ordinal, (name, value) in enumerate(arguments.items()):
        size = len(json.dumps(value, ensure_ascii=False, default=str).encode())
        if size > limits.parameter_bytes:
            raise Refused(
                Why.PARAMETER_TOO_LONG, Boundary.PARAMETER, parameter=ordinal, length=size, name=name
            )


def _one(value: Mapping[str, Any], keys: tuple[str, ...], why: Why) -> Any:
    """Return what stands under the one of these keys that is there; two of them are a conflict."""
    found = [key for key in keys if key in value]
    if len(found) > 1:
        raise Refused(why, Boundary.CALL)
    return value[found[0]] if found else None
