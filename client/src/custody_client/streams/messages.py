"""Anthropic's messages: blocks that are opened, filled and closed by their index."""

from collections.abc import Callable
from typing import Any, Final

from custody_client.streams import usage
from custody_client.streams.draft import ChoiceDraft, Draft
from custody_client.streams.errors import take_error
from custody_client.streams.items import CallDraft, ServerToolDraft
from custody_client.streams.names import name_of, role_of

Path = tuple[str | int, ...]
Event = dict[str, Any]

# `ping` keeps the line open; the others are made by the SDK out of events that come as well.
_SILENT: Final = frozenset({"ping", "text", "input_json", "thinking", "signature", "citation", "compaction"})
_SERVER_TOOLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_TOOL_USE: Final = frozenset({"type", "id", "name", "input"})
_FACTS: Final = ("stop_sequence", "stop_details", "container", "context_management")


def take(draft: Draft, event: Event) -> bool:
    """Take one event; False if nothing here knows its type."""
    kind = event.get("type")
    if not isinstance(kind, str):
        return take_error(draft, event)
    reader = _READERS.get(kind)
    if reader is None:
        return _take_other(draft, event, kind)
    reader(draft, event)
    return True


def _take_other(draft: Draft, event: Event, kind: str) -> bool:
    if kind in _SILENT:
        draft.pass_over()
        return True
    return take_whole(draft, event) if kind == "message" else take_error(draft, event)


def take_whole(draft: Draft, body: Event) -> bool:
    """Take an answer that did not stream; False if it is none."""
    if not isinstance(body.get("content"), list):
        return take_error(draft, body)
    _message(draft, body, ())
    choice = draft.choice()
    _stopped(choice, body, ())
    return True


def _message(draft: Draft, message: Any, path: Path) -> None:
    if not isinstance(message, dict):
        return
    draft.head(message.get("id"), message.get("model"))
    choice = draft.choice()
    choice.role = choice.role or role_of(message.get("role"))
    draft.usage.take(message.get("usage"), usage.MESSAGES)
    content = message.get("content")
    for at, block in enumerate(content if isinstance(content, list) else []):
        _block(choice, at, block, (*path, "content", at), streamed=False)


def _start(draft: Draft, event: Event) -> None:
    _message(draft, event.get("message"), ("message",))


def _block_start(draft: Draft, event: Event) -> None:
    choice, at = draft.choice(), event.get("index")
    if not choice.first("block", at):
        draft.note("index-reused")
    _block(choice, at, event.get("content_block"), ("content_block",), streamed=True)


def _block(choice: ChoiceDraft, at: Any, block: Any, path: Path, *, streamed: bool) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        text = choice.text((at,))
        text.words.add(block["text"] if isinstance(block.get("text"), str) else "")
        choice.draft.fact(text.opaque, "citations", block.get("citations"), (*path, "citations"))
    elif kind in {"thinking", "redacted_thinking"}:
        _thinking(choice, at, block, path)
    elif kind == "tool_use":
        _tool_use(choice, at, block, path, streamed=streamed)
    elif kind in _SERVER_TOOLS:
        _server_tool(choice, at, block, path, streamed=streamed)
    elif isinstance(kind, str) and kind.endswith("_tool_result"):
        tool = choice.server_tool((at,), kind)
        tool.id, tool.status = name_of(block.get("tool_use_id")), "completed"
    elif kind == "compaction" and isinstance(block.get("content"), str | None):
        choice.reasoning((at,), "summary").words.add(block.get("content") or "")
    else:
        choice.raw(kind, path, block)


def _thinking(choice: ChoiceDraft, at: Any, block: Event, path: Path) -> None:
    redacted = block.get("type") == "redacted_thinking"
    reasoning = choice.reasoning((at,), "redacted" if redacted else "text")
    if isinstance(block.get("thinking"), str):
        reasoning.words.add(block["thinking"])
    for key in ("signature", "data"):
        choice.draft.fact(reasoning.opaque, key, block.get(key), (*path, key))


def _tool_use(choice: ChoiceDraft, at: Any, block: Event, path: Path, *, streamed: bool) -> None:
    call = choice.call((at,))
    call.wire_index = at if type(at) is int and streamed else None
    call.id, call.name = name_of(block.get("id")), name_of(block.get("name"))
    _input(choice, call, block, path, streamed=streamed)
    for key in (key for key in block if key not in _TOOL_USE):
        choice.draft.fact(call.opaque, key, block[key], (*path, key))


def _server_tool(choice: ChoiceDraft, at: Any, block: Event, path: Path, *, streamed: bool) -> None:
    tool = choice.server_tool((at,), name_of(block.get("name")))
    tool.id = name_of(block.get("id"))
    _input(choice, tool, block, path, streamed=streamed)


def _input(
    choice: ChoiceDraft, call: CallDraft | ServerToolDraft, block: Event, path: Path, *, streamed: bool
) -> None:
    """Take the input at the head of a block: all there is if it does not stream, else mostly an empty object."""
    value = block.get("input")
    if not streamed and value is not None:
        choice.draft.add_object(call.arguments, (*path, "input"), value)
    elif value:
        choice.draft.note("input-at-start")
        choice.draft.add_initial(call.arguments, (*path, "input"), value)


def _block_delta(draft: Draft, event: Event) -> None:
    given = event.get("delta")
    delta: Event = given if isinstance(given, dict) else {}
    kind = delta.get("type")
    choice, at = draft.choice(), event.get("index")
    if choice.first("block", at):
        draft.note("delta-for-unopened-block")
    if kind == "text_delta" and isinstance(delta.get("text"), str):
        choice.text((at,)).words.add(delta["text"])
    elif kind == "input_json_delta" and isinstance(delta.get("partial_json"), str):
        _partial_json(choice, at, delta["partial_json"])
    elif kind == "thinking_delta" and isinstance(delta.get("thinking"), str):
        choice.reasoning((at,)).words.add(delta["thinking"])
    elif kind == "signature_delta" and isinstance(delta.get("signature"), str):
        choice.reasoning((at,)).opaque.join("signature", delta["signature"])
    elif kind == "compaction_delta" and isinstance(delta.get("content"), str):
        choice.reasoning((at,), "summary").words.add(delta["content"])
    elif kind == "citations_delta":
        draft.more(choice.text((at,)).opaque, "citations", delta.get("citation"), ("delta", "citation"))
    else:
        draft.keep(f"content_block_delta:{kind}", draft.exact((), event))


def _partial_json(choice: ChoiceDraft, at: Any, piece: str) -> None:
    tool = choice.known((at,))
    call = tool if type(tool) is ServerToolDraft else choice.call((at,))
    choice.draft.add_arguments(call.arguments, piece)


def _block_stop(_: Draft, __: Event) -> None:
    """Nothing ends with a block that its successor does not end as well."""


def _message_delta(draft: Draft, event: Event) -> None:
    delta = event.get("delta")
    if isinstance(delta, dict):
        _stopped(draft.choice(), delta, ("delta",))
    draft.usage.take(event.get("usage"), usage.MESSAGES)


def _stopped(choice: ChoiceDraft, said: Event, path: Path) -> None:
    if said.get("stop_reason") is not None:
        choice.finished(str(said["stop_reason"])[:96])
    for key in _FACTS:
        choice.draft.fact(choice.facts, key, said.get(key), (*path, key))


def _message_stop(draft: Draft, _: Event) -> None:
    draft.terminal = "message_stop"


def _error(draft: Draft, event: Event) -> None:
    if not take_error(draft, event):
        draft.fails("error", event.get("message"))


_READERS: Final[dict[str, Callable[[Draft, Event], None]]] = {
    "message_start": _start,
    "content_block_start": _block_start,
    "content_block_delta": _block_delta,
    "content_block_stop": _block_stop,
    "message_delta": _message_delta,
    "message_stop": _message_stop,
    "error": _error,
}
