"""What is inside an object of a message: the declared fields of the common kinds of classes, and nothing else.

What a class does not declare as a field (a client, a cache, a way back to the conversation) is no part of a message.
"""

import dataclasses
from functools import lru_cache
from typing import Any, Final

# Where the kinds of classes name their fields: pydantic 2 and 1, msgspec, attrs.
_DECLARED: Final = ("__pydantic_fields__", "__fields__", "__struct_fields__")


def fields_of(thing: object) -> tuple[str, ...]:
    """Return the names of the fields that an object's class declares; none if it declares none."""
    kind: Any = type(thing)
    return _declared(kind)


@lru_cache(maxsize=1024)
def _declared(kind: type) -> tuple[str, ...]:
    for where in _DECLARED:
        names = getattr(kind, where, None)
        if isinstance(names, dict | tuple):
            extra = ("__pydantic_extra__",) if where == "__pydantic_fields__" else ()
            return (*(name for name in names if isinstance(name, str)), *extra)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attributes: Any = getattr(kind, "__attrs_attrs__", ())
    return tuple(attribute.name for attribute in attributes)


def value_of(thing: object, name: str) -> Any:
    """Return a key's or a declared field's value; None if there is none."""
    if isinstance(thing, dict):
        return thing.get(name)
    return getattr(thing, name, None) if name in fields_of(thing) else None
