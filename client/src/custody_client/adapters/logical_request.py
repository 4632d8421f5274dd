"""What the model was given, as one document (`logical-request/1`): where it went, the request's own fields, no secrets.

Seen at the wire, `body` holds the very bytes of the request wherever all of its fields are of those that are copied.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from custody_client.adapters.options import ADDRESSES, CREDENTIALS, NAMES, SCHEMAS, TOOLS
from custody_client.adapters.routes import Route

SCHEMA: Final = "logical-request/1"
_LEFT_OUT_NAMES: Final = 32
_LEFT_OUT_LENGTH: Final = 64
# Cheap signs of tools with credentials of their own; without one the bytes of a body need not be taken apart.
_SIGNS: Final = tuple(f'"{name}"'.encode() for name in sorted(CREDENTIALS | ADDRESSES))


def of_options(route: Route, body: Mapping[str, Any], vantage: str = "sdk") -> dict[str, Any]:
    """Give the request as an SDK was asked for it. Values are not copied: serialise it before anybody changes them."""
    names = NAMES[route.api]
    kept = {name: without_credentials(name, value) for name, value in body.items() if name in names}
    return _document(route, kept, vantage, body.get("model"), [name for name in body if name not in names])


def of_bytes(route: Route, body: bytes | None, vantage: str = "wire") -> dict[str, Any]:
    """Give the request as it went out; a body that is no JSON object is kept as text, marked as such.

    None stands for a body that could not be read: one that is sent piece by piece, or compressed.
    """
    if body is None:
        return {**_document(route, None, vantage, None, []), "shape": "not-read"}
    fields = _fields(body)
    if fields is None:
        return _unrecognised(route, body, vantage)
    names = NAMES[route.api]
    left_out = [name for name in fields if name not in names]
    model = _text(fields.get("model"))
    if not left_out and not any(_suspicious(fields[name]) for name in TOOLS & fields.keys()):
        return _document(route, msgspec.Raw(body), vantage, model, [])
    kept = {name: _cleaned(name, raw) for name, raw in fields.items() if name in names}
    return _document(route, kept, vantage, model, left_out)


def without_credentials(name: str, value: Any) -> Any:
    """Leave out what tools carry to log in elsewhere; all other fields as they are."""
    if name not in TOOLS or not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return value
    return [_tool(each) for each in value]


def _fields(body: bytes) -> dict[str, msgspec.Raw] | None:
    """Take an object apart, each value as its own bytes; None where it is none."""
    try:
        return msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    # An escaped half of a surrogate pair is JSON all the same; such values are written anew where they must be apart.
    try:
        found = json.loads(body.decode(), parse_constant=_refuse)
        if isinstance(found, dict):
            return {name: _raw(value) for name, value in found.items()}
    except (ValueError, RecursionError):
        pass
    return None


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value, allow_nan=False).encode())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _document(route: Route, body: Any, vantage: str, model: Any, left_out: Sequence[str]) -> dict[str, Any]:
    document = {
        "schema": SCHEMA,
        "vantage": vantage,
        "provider": route.provider,
        "route": {"host": route.host, "api": route.api},
        "model": model if model is not None else route.model,
        "body": body,
    }
    if left_out:
        document["left_out"] = sorted(str(name)[:_LEFT_OUT_LENGTH] for name in left_out)[:_LEFT_OUT_NAMES]
    return document


def _unrecognised(route: Route, body: bytes, vantage: str) -> dict[str, Any]:
    document = _document(route, body.decode("utf-8", "backslashreplace"), vantage, None, [])
    return {**document, "shape": "unrecognised"}


def _suspicious(raw: msgspec.Raw) -> bool:
    text = bytes(raw)
    return any(sign in text for sign in _SIGNS)


def _cleaned(name: str, raw: msgspec.Raw) -> Any:
    return without_credentials(name, json.loads(bytes(raw))) if name in TOOLS else raw


def _tool(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    return {name: _value(name, value) for name, value in tool.items() if name not in CREDENTIALS}


def _value(name: str, value: Any) -> Any:
    if name in SCHEMAS:
        return value
    if name in ADDRESSES and isinstance(value, str):
        return _address(value)
    return _tool(value)


def _address(url: str) -> str:
    """Keep where it is: no user, no password, no query, no fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        where = f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, where, parts.path, "", ""))


def _text(raw: msgspec.Raw | None) -> str | None:
    if raw is None:
        return None
    value = json.loads(bytes(raw))
    return value if isinstance(value, str) else None
