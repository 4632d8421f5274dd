"""Amazon's Bedrock Converse: blocks by their index, of which only those of tools are opened."""

from collections.abc import Callable
from typing import Any, Final

from custody_client.streams import usage
from custody_client.streams.draft import ChoiceDraft, Draft
from custody_client.streams.errors import take_error
from custody_client.streams.items import CallDraft, ServerToolDraft
from custody_client.streams.names import name_of, role_of

Path = tuple[str | int, ...]
Event = dict[str, Any]

_EXCEPTIONS: Final = frozenset(
    {
        "internalServerException",
        "modelStreamErrorException",
        "validationException",
        "throttlingException",
        "serviceUnavailableException",
        "modelTimeoutException",
    }
)


def take(draft: Draft, event: Event) -> bool:
    """Take one event, an object with its type as the only key that matters; False if none is known."""
    known = False
    for kind, value in event.items():
        reader = _READERS.get(kind)
        if reader is not None and isinstance(value, dict):
            reader(draft, value, (kind,))
            known = True
        elif kind in _EXCEPTIONS:
            fails(draft, kind, value)
            known = True
    return known or ("output" in event and take_whole(draft, event)) or take_error(draft, event)


def take_whole(draft: Draft, body: Event) -> bool:
    """Take an answer that did not stream; False if it is none."""
    output = body.get("output")
    message = output.get("message") if isinstance(output, dict) else None
    if not isinstance(message, dict):
        return _refused(draft, body)
    choice = draft.choice()
    choice.role = role_of(message.get("role"))
    content = message.get("content")
    for at, block in enumerate(content if isinstance(content, list) else []):
        _whole_block(choice, at, block, ("output", "message", "content", at))
    _message_stop(draft, body, ())
    draft.terminal = None
    _metadata(draft, body, ())
    return True


def fails(draft: Draft, kind: str, value: Any) -> None:
    """Take one of the exceptions that end a stream."""
    message = value.get("message", value.get("Message")) if isinstance(value, dict) else value
    draft.fails(kind, message, value.get("originalStatusCode") if isinstance(value, dict) else None)


def _refused(draft: Draft, body: Event) -> bool:
    """Take an answer that says only why there is none."""
    message = body.get("message", body.get("Message"))
    if isinstance(message, str) and not body.keys() - {"message", "Message", "__type", "Output", "Version"}:
        draft.fails(body.get("__type"), message)
        return True
    return take_error(draft, body)


def _message_start(draft: Draft, value: Event, _: Path) -> None:
    choice = draft.choice()
    choice.role = choice.role or role_of(value.get("role"))


def _block_start(draft: Draft, value: Event, path: Path) -> None:
    choice, at, start = draft.choice(), value.get("contentBlockIndex"), value.get("start")
    tool = start.get("toolUse") if isinstance(start, dict) else None
    if isinstance(tool, dict) and tool.get("type") == "server_tool_use":
        used = choice.server_tool((at,), name_of(tool.get("name")))
        used.id = name_of(tool.get("toolUseId"))
    elif isinstance(tool, dict):
        call = choice.call((at,))
        call.wire_index = at if type(at) is int else None
        call.id, call.name = name_of(tool.get("toolUseId")), name_of(tool.get("name"))
    elif isinstance(start, dict) and isinstance(start.get("toolResult"), dict):
        used = choice.server_tool((at,), "tool_result")
        used.id, used.status = (
            name_of(start["toolResult"].get("toolUseId")),
            name_of(start["toolResult"].get("status")),
        )
    elif start:
        choice.raw("contentBlockStart", (*path, "start"), start)


def _block_delta(draft: Draft, value: Event, path: Path) -> None:
    choice, at, delta = draft.choice(), value.get("contentBlockIndex"), value.get("delta")
    for kind, piece in delta.items() if isinstance(delta, dict) else ():
        if kind == "text" and isinstance(piece, str):
            choice.text((at,)).words.add(piece)
        elif kind == "toolUse" and isinstance(piece, dict):
            _tool_delta(choice, at, piece, (*path, "delta", kind))
        elif kind == "reasoningContent" and isinstance(piece, dict):
            _reasoning(choice, at, piece)
        elif kind == "citation":
            draft.more(choice.text((at,)).opaque, "citations", piece, (*path, "delta", kind))
        elif kind != "toolResult":
            draft.keep(f"contentBlockDelta:{kind}", draft.exact(path, value))


def _tool_delta(choice: ChoiceDraft, at: Any, piece: Event, path: Path) -> None:
    draft, tool = choice.draft, choice.known((at,))
    if tool is None:
        draft.note("delta-for-unopened-block")
    call = tool if hasattr(tool, "arguments") else choice.call((at,))
    text = piece.get("input")
    if isinstance(text, str):
        draft.add_arguments(call.arguments, text)
    elif text is not None:
        draft.note("arguments-object")
        draft.add_object(call.arguments, (*path, "input"), text)


def _reasoning(choice: ChoiceDraft, at: Any, piece: Event) -> None:
    """Take reasoning: its text, a signature, or an unreadable form (bytes where an SDK decoded them)."""
    redacted = piece.get("redactedContent")
    reasoning = choice.reasoning((at,), "text" if redacted is None else "redacted")
    if isinstance(piece.get("text"), str):
        reasoning.words.add(piece["text"])
    if isinstance(piece.get("signature"), str):
        reasoning.opaque.join("signature", piece["signature"])
    if isinstance(redacted, str):
        reasoning.opaque.join("redactedContent", redacted)


def _whole_block(choice: ChoiceDraft, at: int, block: Any, path: Path) -> None:
    for kind, value in block.items() if isinstance(block, dict) else ():
        if kind == "text" and isinstance(value, str):
            choice.text((at,)).words.add(value)
        elif kind == "toolUse" and isinstance(value, dict):
            _whole_tool(choice, at, value, (*path, kind))
        elif kind == "toolResult" and isinstance(value, dict):
            used = choice.server_tool((at,), "tool_result")
            used.id, used.status = name_of(value.get("toolUseId")), name_of(value.get("status"))
        elif kind == "reasoningContent" and isinstance(value, dict):
            text = value.get("reasoningText")
            _reasoning(choice, at, text if isinstance(text, dict) else value)
        elif kind == "citationsContent" and isinstance(value, dict):
            _cited(choice, at, value, (*path, kind))
        else:
            choice.raw(kind, path, block)


def _whole_tool(choice: ChoiceDraft, at: int, value: Event, path: Path) -> None:
    name, tool_id = name_of(value.get("name")), name_of(value.get("toolUseId"))
    call: CallDraft | ServerToolDraft
    if value.get("type") == "server_tool_use":
        call = choice.server_tool((at,), name)
    else:
        call = choice.call((at,))
        call.name = name
    call.id = tool_id
    if "input" in value:
        choice.draft.add_object(call.arguments, (*path, "input"), value["input"])


def _cited(choice: ChoiceDraft, at: int, value: Event, path: Path) -> None:
    text = choice.text((at,))
    content = value.get("content")
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            text.words.add(part["text"])
    choice.draft.fact(text.opaque, "citations", value.get("citations"), (*path, "citations"))


def _block_stop(draft: Draft, value: Event, path: Path) -> None:
    """Nothing ends with a block that its successor does not end as well."""


def _message_stop(draft: Draft, value: Event, path: Path) -> None:
    choice = draft.choice()
    if value.get("stopReason") is not None:
        choice.finished(str(value["stopReason"])[:96])
        draft.terminal = "messageStop"
    key = "additionalModelResponseFields"
    draft.fact(choice.facts, key, value.get(key), (*path, key))


def _metadata(draft: Draft, value: Event, path: Path) -> None:
    draft.usage.take(value.get("usage"), usage.CONVERSE)
    draft.fact(draft.facts, "trace", value.get("trace"), (*path, "trace"))


_READERS: Final[dict[str, Callable[[Draft, Event, Path], None]]] = {
    "messageStart": _message_start,
    "contentBlockStart": _block_start,
    "contentBlockDelta": _block_delta,
    "contentBlockStop": _block_stop,
    "messageStop": _message_stop,
    "metadata": _metadata,
}
