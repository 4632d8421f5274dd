"""Arguments against a declared subset of JSON Schema (2020-12), before any side effect.

Promised: a schema is refused when it is made if it uses a keyword that is not supported here, so that no rule is ever
silently ignored; a fault names where and which rule, never a value. Not promised: the whole of JSON Schema. See
`docs/tools.md` for the list, and for the three things in which this is stricter than the standard.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from custody_toolchain.tools.values import Json, NotJson, copied, pointed, same

MOST_FAULTS: Final = 16
MOST_DEPTH: Final = 32
_MOST_POINTER: Final = 128
# The rule that comes before all keywords: that arguments can be written down at all.
NO_JSON: Final = "json"


class UnsupportedSchema(ValueError):
    """A schema uses what is not supported, or contradicts itself; the message names the place and the keyword."""


class Fault(msgspec.Struct, frozen=True):
    """One argument that breaks one rule: `at` is a JSON pointer of at most 128 characters, `rule` a keyword.

    Arguments of which something is no JSON have one fault: `at` is empty and `rule` is `json`, which is no keyword.
    """

    at: str
    rule: str


_TYPES: Final[dict[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _number(value: object) -> bool:
    return _TYPES["number"](value)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _branches(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_only_required(branch) for branch in value)


def _only_required(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {"required"} and _names(value["required"])


def _exclusions(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(branch, dict) and branch.keys() == {"not"} for branch in value)
        and all(_only_required(branch["not"]) for branch in value)
    )


def _some_types(value: object) -> bool:
    return value in _TYPES if isinstance(value, str) else _names(value) and bool(value) and _known(value)


def _known(names: Any) -> bool:
    return all(name in _TYPES for name in names)


# Keyword -> whether it is well formed. What is not here and no annotation is refused.
_RULES: Final[dict[str, Callable[[object], bool]]] = {
    "type": _some_types,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "const": lambda _: True,
    "properties": lambda value: isinstance(value, dict),
    "required": _names,
    "additionalProperties": lambda value: isinstance(value, bool),
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_names, value.values())),
    "oneOf": _branches,
    "anyOf": _branches,
    "not": _only_required,
    "allOf": _exclusions,
    "items": lambda value: isinstance(value, dict),
    "minItems": _count,
    "maxItems": _count,
    "uniqueItems": lambda value: isinstance(value, bool),
    "minLength": _count,
    "maxLength": _count,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
}
SUPPORTED: Final = frozenset(_RULES)
# These say something to a reader and rule nothing.
ANNOTATIONS: Final = frozenset({
    "$comment", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly",
})  # fmt: skip
_PAIRS: Final = (("minItems", "maxItems"), ("minLength", "maxLength"), ("minimum", "maximum"))


class Schema:
    """The rules of one tool's arguments: an own copy, which later changes of the given object do not reach."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        try:
            self._document: dict[str, Any] = copied(document)
        except NotJson:
            raise UnsupportedSchema("a schema is a JSON object") from None
        _supported(self._document, "", 0)
        if self._document.get("type") != "object":
            raise UnsupportedSchema("the arguments of a tool are an object: 'type' must say so")

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the schema as it was given."""
        return copied(self._document)  # type: ignore[no-any-return] # it was made of a mapping

    def faults(self, arguments: Json) -> tuple[Fault, ...]:
        """Return what is wrong with the arguments, at most 16 faults; empty if nothing is."""
        found: list[Fault] = []
        _check(self._document, arguments, "", found)
        return tuple(found[:MOST_FAULTS])


def _supported(schema: object, at: str, depth: int) -> None:
    """Refuse a schema that this module would only half obey."""
    where = at or "the root"
    if not isinstance(schema, dict):
        raise UnsupportedSchema(f"{where}: a schema is an object")
    if depth > MOST_DEPTH:
        raise UnsupportedSchema(f"a schema is at most {MOST_DEPTH} deep")
    for keyword, value in schema.items():
        if keyword in ANNOTATIONS:
            continue
        if keyword not in _RULES:
            raise UnsupportedSchema(f"{where}: {keyword!r} is not supported")
        if not _RULES[keyword](value):
            raise UnsupportedSchema(f"{where}: {keyword!r} is not formed as is supported")
    _consistent(schema, where)
    for name, inner in schema.get("properties", {}).items():
        _supported(inner, pointed(at, name), depth + 1)
    if "items" in schema:
        _supported(schema["items"], pointed(at, "*"), depth + 1)


def _consistent(schema: dict[str, Any], where: str) -> None:
    if not schema.keys() & {"type", "enum", "const"}:
        raise UnsupportedSchema(f"{where}: say 'type', 'enum' or 'const'")
    for low, high in _PAIRS:
        if low in schema and high in schema and schema[low] > schema[high]:
            raise UnsupportedSchema(f"{where}: {low!r} is above {high!r}")
    unknown = _mentioned(schema) - schema.get("properties", {}).keys()
    if unknown and schema.get("additionalProperties") is not True:
        raise UnsupportedSchema(f"{where}: a rule names a field that 'properties' does not have")


def _mentioned(schema: dict[str, Any]) -> set[str]:
    """Name the fields of which rules of this object speak."""
    dependent = schema.get("dependentRequired", {})
    lists = [schema.get("required", []), list(dependent), *dependent.values()]
    lists += [branch["required"] for rule in ("oneOf", "anyOf") for branch in schema.get(rule, [])]
    lists += [branch["required"] for branch in _excluded(schema)]
    return {name for names in lists for name in names}


def _excluded(schema: dict[str, Any]) -> list[dict[str, list[str]]]:
    """Return which fields must not all stand together, for each such rule."""
    single = [schema["not"]] if "not" in schema else []
    return single + [branch["not"] for branch in schema.get("allOf", [])]


def _check(schema: dict[str, Any], value: Json, at: str, found: list[Fault]) -> None:
    if len(found) >= MOST_FAULTS:
        return
    wanted = schema.get("type")
    if wanted is not None and not any(
        _TYPES[name](value) for name in ([wanted] if isinstance(wanted, str) else wanted)
    ):
        _add(found, at, "type")
        return
    if "enum" in schema and not any(same(value, allowed) for allowed in schema["enum"]):
        _add(found, at, "enum")
    if "const" in schema and not same(value, schema["const"]):
        _add(found, at, "const")
    if _number(value):
        _check_number(schema, value, at, found)
    elif isinstance(value, str):
        _check_size(schema, len(value), ("minLength", "maxLength"), at, found)
    elif isinstance(value, Mapping):
        _check_object(schema, value, at, found)
    elif isinstance(value, list | tuple):
        _check_array(schema, value, at, found)


def _check_number(schema: dict[str, Any], value: Any, at: str, found: list[Fault]) -> None:
    outside: dict[str, Callable[[Any], bool]] = {
        "minimum": lambda bound: value < bound,
        "maximum": lambda bound: value > bound,
        "exclusiveMinimum": lambda bound: value <= bound,
        "exclusiveMaximum": lambda bound: value >= bound,
    }
    for rule, is_outside in outside.items():
        if rule in schema and is_outside(schema[rule]):
            _add(found, at, rule)


def _check_size(
    schema: dict[str, Any], size: int, rules: tuple[str, str], at: str, found: list[Fault]
) -> None:
    low, high = rules
    if size < schema.get(low, 0):
        _add(found, at, low)
    if high in schema and size > schema[high]:
        _add(found, at, high)


def _check_array(schema: dict[str, Any], value: Any, at: str, found: list[Fault]) -> None:
    _check_size(schema, len(value), ("minItems", "maxItems"), at, found)
    if found and found[-1] == Fault(_short(at), "maxItems"):
        return  # what is too long is not looked through
    if schema.get("uniqueItems") and len({_told_apart(inner) for inner in value}) < len(value):
        _add(found, at, "uniqueItems")
    if "items" in schema:
        for place, inner in enumerate(value):
            _check(schema["items"], inner, pointed(at, place), found)


def _told_apart(value: Json) -> bytes:
    """Return what is equal exactly for equal values; 0, 0.0, false and "0" are four of them."""
    return msgspec.json.encode(copied(value), order="sorted")


def _check_object(schema: dict[str, Any], value: Any, at: str, found: list[Fault]) -> None:
    for name in schema.get("required", []):
        if name not in value:
            _add(found, pointed(at, name), "required")
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is not True:
        for name in value:
            if name not in properties:
                _add(found, pointed(at, name), "additionalProperties")
    _check_together(schema, value, at, found)
    for name, inner in properties.items():
        if name in value:
            _check(inner, value[name], pointed(at, name), found)


def _check_together(schema: dict[str, Any], value: Any, at: str, found: list[Fault]) -> None:
    """Check which fields may, must or must not stand together."""

    def has(branch: dict[str, list[str]]) -> bool:
        return all(name in value for name in branch["required"])

    if "oneOf" in schema and sum(map(has, schema["oneOf"])) != 1:
        _add(found, at, "oneOf")
    if "anyOf" in schema and not any(map(has, schema["anyOf"])):
        _add(found, at, "anyOf")
    if any(map(has, _excluded(schema))):
        _add(found, at, "not")
    for name, others in schema.get("dependentRequired", {}).items():
        if name in value and not all(other in value for other in others):
            _add(found, pointed(at, name), "dependentRequired")


def _add(found: list[Fault], at: str, rule: str) -> None:
    if len(found) < MOST_FAULTS:
        found.append(Fault(_short(at), rule))


def _short(at: str) -> str:
    return at if len(at) <= _MOST_POINTER else at[: _MOST_POINTER - 1] + "…"
