"""From SDKs' objects to what they were made of: mappings under the names of the wire, keys that were not sent left out.

Pydantic's own `model_dump` would do, but it builds a serializer on the first call, which with the unions of some SDKs
takes a tenth of a second, on the thread of whoever is served. Nothing here imports pydantic.
"""

import base64
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

_BARE: Final = frozenset({str, int, float, bool, type(None)})
_CLASSES: Final = 4096
# What SDKs put beside that which came: headers are nobody's answer.
_NOT_SENT: Final = frozenset({"sdk_http_response"})
_wire_names: dict[type, dict[str, str]] = {}


def plain(value: Any) -> Any:
    """Return mappings, lists, texts and numbers; bytes become base64, as on the wire."""
    kind = type(value)
    if kind in _BARE:
        return value
    if kind is dict:
        return {key: plain(inner) for key, inner in value.items()}
    if kind is list or kind is tuple:
        return [plain(inner) for inner in value]
    if hasattr(value, "__pydantic_fields_set__"):
        return _model(value, kind)
    return _other(value)


def _model(value: Any, kind: type) -> dict[str, Any]:
    sent, names = value.__pydantic_fields_set__ - _NOT_SENT, _names(kind)
    made = {names.get(name, name): plain(inner) for name, inner in value.__dict__.items() if name in sent}
    extra = value.__pydantic_extra__
    if extra:
        made.update((key, plain(inner)) for key, inner in extra.items())
    return made


def _names(kind: type) -> dict[str, str]:
    """Return the names on the wire of those of a class's fields whose names differ."""
    names = _wire_names.get(kind)
    if names is None:
        fields: Mapping[str, Any] = getattr(kind, "__pydantic_fields__", {})
        aliases = {name: field.serialization_alias or field.alias for name, field in fields.items()}
        names = {name: alias for name, alias in aliases.items() if alias}
        if len(_wire_names) < _CLASSES:
            _wire_names[kind] = names
    return names


def _other(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    dump: Callable[[], Any] | None = getattr(value, "model_dump", None)
    return value if dump is None else dump()
