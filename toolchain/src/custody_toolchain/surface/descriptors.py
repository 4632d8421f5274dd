"""Tools as the providers write them, read into one normal form without losing anything.

The normal form is a dict: `kind`, `name`, `description` and `schema` where there are any, `other` for the descriptor's
further fields, and `tool` for those of what is wrapped around it. The JSON pointers of differences go into it.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

_SCHEMAS: Final = (
    "input_schema", "inputSchema", "parameters", "parametersJsonSchema", "parameters_json_schema",
)  # fmt: skip
_WRAPPERS: Final = ("function", "custom", "toolSpec")
_GEMINI: Final = ("functionDeclarations", "function_declarations")
# Where a request holds what adds tools to it, and what in it is merged into what is sent.
_LISTS: Final = ("tools", "functions", "mcp_servers")
_DEEPEST: Final = 2
_WITHIN: Final = (
    "toolConfig", "tool_config", "config", "extra_body", "additionalModelRequestFields",
)  # fmt: skip


class Descriptor(msgspec.Struct, frozen=True):
    """One tool; `form` is its normal form. A provider's own tool without a name is called by its kind.

    `raw` is the descriptor as it was written; only of one of the same `layout` is it the same.
    """

    name: str
    form: dict[str, Any]
    raw: Any
    layout: tuple[str | None, str | None] = (None, None)

    @property
    def description(self) -> Any:
        """What the model is told of it; None if nothing is."""
        return self.form.get("description")

    @property
    def schema(self) -> Any:
        """The schema of its arguments; None if it has none."""
        return self.form.get("schema")


def tools_of(request: dict[str, Any]) -> Any:
    """Return everything in a logical request that shows tools to the model: the very list, where there is one only.

    A field that holds no list is returned as one entry, which is no tool: a check refuses it.
    """
    found = list(_lists(request, depth=0))
    if len(found) == 1:
        return found[0]
    return [each for entries in found for each in entries]


def _lists(request: dict[str, Any], depth: int) -> Iterator[Any]:
    for name in _LISTS:
        entries = request.get(name)
        if entries is not None:
            yield entries if type(entries) is list or type(entries) is tuple else [entries]
    for name in _WITHIN:
        within = request.get(name)
        if type(within) is dict and depth < _DEEPEST:
            yield from _lists(within, depth + 1)
        elif within is not None:
            # What cannot be looked into may hold anything.
            yield [within]


def read(tools: list[Any]) -> list[Descriptor]:
    """Read tools that are plain trees; an entry that is no dict becomes a tool of no known kind."""
    return [descriptor for entry in tools for descriptor in _read(entry)]


def _read(entry: Any) -> Iterator[Descriptor]:
    if not isinstance(entry, dict):
        yield Descriptor("?", {"kind": "?", "other": entry}, entry)
        return
    declared = next((name for name in _GEMINI if isinstance(entry.get(name), list)), None)
    if declared is not None:
        for each in entry[declared]:
            yield from _read_declared(each)
        for name, value in entry.items():
            if name != declared:
                yield _own({name: value})
        return
    wrapper = next((name for name in _WRAPPERS if isinstance(entry.get(name), dict)), None)
    if wrapper is None and not isinstance(entry.get("name"), str):
        yield _own(entry)
    else:
        yield _named(entry, wrapper)


def _read_declared(each: Any) -> Iterator[Descriptor]:
    """Read one of Gemini's, which holds no others."""
    yield (
        _named(each, None) if isinstance(each, dict) else Descriptor("?", {"kind": "?", "other": each}, each)
    )


def _named(entry: dict[str, Any], wrapper: str | None) -> Descriptor:
    """Read a tool with a name, whose fields stand in the entry itself or in its wrapper."""
    left = dict(entry if wrapper is None else entry[wrapper])
    kind = left.pop("type", "custom" if wrapper == "custom" else "function")
    name = left.pop("name", None)
    where = next((where for where in _SCHEMAS if where in left), None)
    form: dict[str, Any] = {
        "kind": "function" if kind == "custom" and where is not None else kind,
        "name": name,
    }
    if "description" in left:
        form["description"] = left.pop("description")
    if where is not None:
        schema = left.pop(where)
        # Bedrock's says that it is JSON.
        form["schema"] = schema["json"] if isinstance(schema, dict) and schema.keys() == {"json"} else schema
    around = {**entry} if wrapper is not None else {}
    if wrapper is not None:
        del around[wrapper]
        if around.get("type") == wrapper:
            del around["type"]
    form |= {"other": left, "tool": around}
    return Descriptor(name if isinstance(name, str) else "?", form, entry, (wrapper, where))


def _own(entry: dict[Any, Any]) -> Descriptor:
    """Read a tool of the provider's own, which has no name but its type's or its only key's."""
    kind = entry.get("type")
    if not isinstance(kind, str):
        kind = next((key for key in entry if isinstance(key, str)), "?")
    return Descriptor(kind, {"kind": kind, "other": entry}, entry)
