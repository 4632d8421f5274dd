"""The five tools: how each is declared to the model, and what it does. `ToolHost` is the only way to them."""

from typing import Any, Final

from custody_toolchain.tools import Call, Held, Project, Projected, Tool, ToolFailed

from . import texts

FIRST_ROWS: Final = 5
VERSION: Final = 1


def _schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 100}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_CITATION: Final = _schema(
    ["path", "offset", "quote"], path=_PATH, offset=_NUMBER, quote={"type": "string", "minLength": 1}
)
_CITATIONS: Final = {"type": "array", "items": _CITATION, "minItems": 1, "maxItems": 8}


def _list_texts(_: Call) -> Any:
    return {"texts": [texts.described(name) for name in texts.names()]}


def _search(call: Call) -> Any:
    return texts.found(call.arguments["query"])


def _matches(raw: Any) -> Held:
    matches, complete = raw
    return Held({"matches": matches}, source_whole=complete)


def _first_rows(held: Any) -> Project:
    matches = held["matches"]
    kept = len(matches) - FIRST_ROWS
    remarks = (f"{kept} more matches are kept",) if kept > 0 else ()
    return Project({"matches": matches[:FIRST_ROWS]}, remarks=remarks)


def _read_page(call: Call) -> Any:
    return texts.page(call.arguments["path"], call.arguments["offset"], call.arguments["size"])


def _part(raw: Any) -> Held:
    return Held(raw, source_whole=raw["offset"] == 0 and raw["next_offset"] is None)


def _read_tool_result(call: Call) -> Any:
    # Where it is shown again is up to the context: the next request has it in the place of its reference.
    return {"shown_again": call.arguments["action"]}


def _write_report(call: Call) -> Any:
    wrong = texts.misquoted(call.arguments["citations"])
    if wrong:
        raise ToolFailed("misquoted", f"citations that are not so: {wrong}")
    return {"section": call.arguments["section"], "citations": len(call.arguments["citations"])}


def spelled_out(arguments: Any) -> Any:
    """Give arguments that models like to call otherwise the names that the schemas have."""
    return {{"term": "query", "file": "path"}.get(name, name): value for name, value in arguments.items()}


_ALIASES: Final = {"aliases": spelled_out}

TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool("list_texts", VERSION, _schema([]), _list_texts, rows="/texts"),
        Tool(
            "search",
            VERSION,
            _schema(["query"], query={"type": "string", "minLength": 2, "maxLength": 80}),
            _search,
            hold=_matches,
            project=_first_rows,
            rules=_ALIASES,
            rows="/matches",
        ),
        Tool(
            "read_page",
            VERSION,
            _schema(["path", "offset", "size"], path=_PATH, offset=_NUMBER, size={**_NUMBER, "minimum": 1}),
            _read_page,
            hold=_part,
            rules=_ALIASES,
        ),
        Tool("read_tool_result", VERSION, _schema(["action"], action={"type": "string"}), _read_tool_result),
        Tool(
            "write_report",
            VERSION,
            _schema(
                ["section", "text", "citations"],
                section={"type": "string", "enum": ["harbour", "letters"]},
                text={"type": "string", "minLength": 1},
                citations=_CITATIONS,
            ),
            _write_report,
        ),
    )
}

_TOLD: Final = {
    "list_texts": "List the texts that there are, with their sizes in bytes.",
    "search": "Find lines that hold these words; the first five are shown.",
    "read_page": f"Read bytes of a text, at most {texts.LARGEST_PAGE}. Go on at the next_offset that comes back.",
    "read_tool_result": "Show again the result of an earlier action that is only referred to.",
    "write_report": "Write a section of the report. Cite only what was read, word for word, with its offset.",
}


def descriptors() -> list[dict[str, Any]]:
    """Return the tools as a request of chat completions shows them; these are what the owner admits."""
    return [
        {
            "type": "function",
            "function": {"name": name, "description": _TOLD[name], "parameters": dict(tool.schema)},
        }
        for name, tool in TOOLS.items()
    ]


def without_hashes(seen: Projected) -> Project | None:
    """Leave out, as an after-hook, what the runtime keeps of a text and no model needs."""
    if seen.tool != "list_texts":
        return None
    return Project({"texts": [{"path": each["path"], "bytes": each["bytes"]} for each in seen.view["texts"]]})
