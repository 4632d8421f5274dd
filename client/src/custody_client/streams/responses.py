"""OpenAI's Responses: events about items, each of which is also sent whole when it is done."""

from collections.abc import Callable
from typing import Any, Final

from custody_client.streams import usage
from custody_client.streams.draft import ChoiceDraft, Draft
from custody_client.streams.errors import take_error
from custody_client.streams.items import CallDraft, ReasoningDraft, ServerToolDraft, TextDraft

Path = tuple[str | int, ...]
Event = dict[str, Any]

_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
# Kinds of items that hold nothing for a reader beyond that they are there.
_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"}
)
_BEGINNINGS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})
# Events that only say how far a tool or a part is.
_PROGRESS: Final = (
    "response.content_part.",
    "response.reasoning_summary_part.",
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call.",
    "response.image_generation_call.",
    "response.mcp_call.",
    "response.mcp_list_tools.",
    "response.computer_call.",
    "response.shell_call",
    "response.apply_patch_call",
    "response.tool_search_call",
    "response.keepalive",
    "keepalive",
)


def take(draft: Draft, event: Event) -> bool:
    """Take one event; False if nothing here knows its type."""
    kind = event.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is not None:
        reader(draft.choice(), event)
        return True
    if not isinstance(kind, str):
        return take_whole(draft, event) if "output" in event else take_error(draft, event)
    if kind in _BEGINNINGS or kind in _ENDS:
        _response(draft, event.get("response"), ("response",), ends=kind if kind in _ENDS else None)
        return True
    return kind.startswith(_PROGRESS)


def take_whole(draft: Draft, body: Event) -> bool:
    """Take an answer that did not stream; False if it is none."""
    if not isinstance(body.get("output"), list):
        return take_error(draft, body)
    _response(draft, body, (), ends="response.done")
    draft.terminal = None
    return True


def _response(draft: Draft, response: Any, path: Path, *, ends: str | None) -> None:
    if not isinstance(response, dict):
        response = {}
    draft.head(response.get("id"), response.get("model"))
    draft.usage.take(response.get("usage"), usage.RESPONSES)
    choice = draft.choice()
    choice.role = choice.role or "assistant"
    if ends is None:
        return
    draft.terminal = ends
    output = response.get("output")
    for at, item in enumerate(output if isinstance(output, list) else []):
        if isinstance(item, dict) and choice.first("item", at):
            _item(choice, at, item, (*path, "output", at), done=True)
    take_error(draft, response)
    _finish(choice, response, ends)
    draft.fact(draft.facts, "moderation", response.get("moderation"), (*path, "moderation"))


def _finish(choice: ChoiceDraft, response: Event, ends: str) -> None:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    status = response.get("status") or ends.removeprefix("response.")
    if reason is not None:
        choice.finished(str(reason)[:96])
    elif status == "completed":
        choice.finished("completed", "tool_call" if choice.calls else "stop")
    else:
        choice.finished(str(status)[:96])
        if status == "failed":
            choice.draft.fails("failed", None)


def _added(choice: ChoiceDraft, event: Event) -> None:
    item = event.get("item")
    if isinstance(item, dict):
        _item(choice, event.get("output_index"), item, ("item",), done=False)


def _done(choice: ChoiceDraft, event: Event) -> None:
    item = event.get("item")
    if isinstance(item, dict):
        _item(choice, event.get("output_index"), item, ("item",), done=True)


def _item(choice: ChoiceDraft, at: Any, item: Event, path: Path, *, done: bool) -> None:
    """Take an item: what of it came in pieces before is only compared."""
    if done:
        choice.first("item", at)
    kind = item.get("type")
    if kind == "message":
        choice.role = choice.role or str(item.get("role"))[:32]
        _message(choice, at, item, path, done=done)
    elif kind == "reasoning":
        _reasoning(choice, at, item, path, done=done)
    elif kind in _CALLS:
        _call(choice, at, item, path, done=done)
    elif isinstance(kind, str) and kind.endswith(("_call", "_call_output", "_list_tools", "_search_output")):
        _server_tool(choice, at, item, path, done=done)
    elif done and kind == "compaction":
        reasoning = choice.reasoning((at, "compaction"), "encrypted")
        choice.draft.fact(
            reasoning.opaque, "encrypted_content", item.get("encrypted_content"), (*path, "encrypted_content")
        )
    elif done:
        choice.raw(kind if isinstance(kind, str) else None, path, item)


def _message(choice: ChoiceDraft, at: Any, item: Event, path: Path, *, done: bool) -> None:
    content = item.get("content")
    for place, part in enumerate(content if isinstance(content, list) and done else []):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "output_text":
            text = _says(choice, (at, "text", place), part.get("text"))
            if not text.opaque.values:
                choice.draft.fact(
                    text.opaque,
                    "annotations",
                    part.get("annotations"),
                    (*path, "content", place, "annotations"),
                )
        elif kind == "refusal":
            _says(choice, (at, "text", place), part.get("refusal"), refusal=True)
        else:
            choice.raw(kind, (*path, "content", place), part)


def _says(choice: ChoiceDraft, key: tuple[Any, ...], whole: Any, *, refusal: bool = False) -> TextDraft:
    text = choice.text(key, "refusal" if refusal else "text")
    _settle(choice, text, whole)
    return text


def _settle(choice: ChoiceDraft, item: TextDraft | ReasoningDraft, whole: Any) -> None:
    """Hold the whole text against its pieces; take it where there were none."""
    if not isinstance(whole, str) or not whole:
        return
    if not item.words.size:
        item.words.add(whole)
    elif not item.words.is_cut and item.words.text() != whole:
        choice.draft.note("text-differs-from-done")


def _reasoning(choice: ChoiceDraft, at: Any, item: Event, path: Path, *, done: bool) -> None:
    if not done:
        return
    for key, form in (("content", "text"), ("summary", "summary")):
        parts = item.get(key)
        for place, part in enumerate(parts if isinstance(parts, list) else []):
            if isinstance(part, dict) and part.get("text"):
                _settle(choice, choice.reasoning((at, key, place), form), part["text"])  # type: ignore[arg-type]  # one of two
    if item.get("encrypted_content"):
        first = choice.known((at, "content", 0)) or choice.known((at, "summary", 0))
        reasoning = first or choice.reasoning((at, "encrypted"), "encrypted")
        choice.draft.fact(
            reasoning.opaque, "encrypted_content", item["encrypted_content"], (*path, "encrypted_content")
        )


def _call(choice: ChoiceDraft, at: Any, item: Event, path: Path, *, done: bool) -> None:
    key = _CALLS[item["type"]]
    call = choice.call((at, "call"))
    call.wire_index = at if type(at) is int else None
    call.id, call.item_id = call.id or _text(item.get("call_id")), call.item_id or _text(item.get("id"))
    call.name = call.name or _text(item.get("name"))
    if key == "input":
        call.arguments.form = "text"
    if done:
        _whole_arguments(choice, call, item.get(key), (*path, key))


def _whole_arguments(choice: ChoiceDraft, call: CallDraft | ServerToolDraft, whole: Any, path: Path) -> None:
    draft, arguments = choice.draft, call.arguments
    if whole is None:
        return
    if not isinstance(whole, str):
        if not arguments.words.size:
            draft.note("arguments-object")
            draft.add_object(arguments, path, whole)
    elif not arguments.words.size:
        if whole:
            draft.add_arguments(arguments, whole)
    elif not arguments.words.is_cut and arguments.words.text() != whole:
        draft.note("arguments-differ-from-done")


def _server_tool(choice: ChoiceDraft, at: Any, item: Event, path: Path, *, done: bool) -> None:
    kind: str = item["type"]
    name = item.get("name") if isinstance(item.get("name"), str) else kind.removesuffix("_call")
    tool = choice.server_tool((at, "tool"), name)
    tool.id = tool.id or _text(item.get("id"))
    tool.status = _text(item.get("status")) or tool.status
    if done and isinstance(item.get("arguments"), str):
        _whole_arguments(choice, tool, item["arguments"], (*path, "arguments"))


def _text_delta(choice: ChoiceDraft, event: Event) -> None:
    piece = event.get("delta")
    if isinstance(piece, str):
        choice.text((event.get("output_index"), "text", event.get("content_index"))).words.add(piece)


def _text_done(choice: ChoiceDraft, event: Event) -> None:
    _says(choice, (event.get("output_index"), "text", event.get("content_index")), event.get("text"))


def _refusal_delta(choice: ChoiceDraft, event: Event) -> None:
    if isinstance(event.get("delta"), str):
        key = (event.get("output_index"), "text", event.get("content_index"))
        choice.text(key, "refusal").words.add(event["delta"])


def _refusal_done(choice: ChoiceDraft, event: Event) -> None:
    key = (event.get("output_index"), "text", event.get("content_index"))
    _says(choice, key, event.get("refusal"), refusal=True)


def _annotation(choice: ChoiceDraft, event: Event) -> None:
    text = choice.text((event.get("output_index"), "text", event.get("content_index")))
    choice.draft.more(text.opaque, "annotations", event.get("annotation"), ("annotation",))


def _thought_delta(choice: ChoiceDraft, event: Event) -> None:
    if isinstance(event.get("delta"), str):
        choice.reasoning((event.get("output_index"), "content", event.get("content_index"))).words.add(
            event["delta"]
        )


def _thought_done(choice: ChoiceDraft, event: Event) -> None:
    key = (event.get("output_index"), "content", event.get("content_index"))
    _settle(choice, choice.reasoning(key), event.get("text"))


def _summary_delta(choice: ChoiceDraft, event: Event) -> None:
    if isinstance(event.get("delta"), str):
        key = (event.get("output_index"), "summary", event.get("summary_index"))
        choice.reasoning(key, "summary").words.add(event["delta"])


def _summary_done(choice: ChoiceDraft, event: Event) -> None:
    key = (event.get("output_index"), "summary", event.get("summary_index"))
    _settle(choice, choice.reasoning(key, "summary"), event.get("text"))


def _arguments_delta(choice: ChoiceDraft, event: Event) -> None:
    piece = event.get("delta")
    call = _opened(choice, event)
    if isinstance(piece, str):
        choice.draft.add_arguments(call.arguments, piece)
    elif piece is not None:
        choice.draft.add_object(call.arguments, ("delta",), piece)


def _arguments_done(choice: ChoiceDraft, event: Event) -> None:
    whole = event.get("arguments", event.get("input", event.get("code")))
    if isinstance(whole, str):
        _whole_arguments(choice, _opened(choice, event), whole, ())


def _opened(choice: ChoiceDraft, event: Event) -> CallDraft | ServerToolDraft:
    """Return the call or tool of which an event speaks; one that was never announced is begun."""
    at = event.get("output_index")
    found: CallDraft | ServerToolDraft | None = choice.known((at, "call")) or choice.known((at, "tool"))
    if found is not None:
        return found
    choice.draft.note("delta-for-unopened-block")
    kind = str(event.get("type"))
    if "function_call" not in kind and "custom_tool" not in kind:
        return choice.server_tool((at, "tool"), None)
    call = choice.call((at, "call"))
    call.wire_index = at if type(at) is int else None
    call.item_id = _text(event.get("item_id"))
    return call


def _error(choice: ChoiceDraft, event: Event) -> None:
    if not take_error(choice.draft, event):
        choice.draft.fails(event.get("code") or "error", event.get("message"), event.get("code"))


def _picture(choice: ChoiceDraft, event: Event) -> None:
    piece = event.get("partial_image_b64") or event.get("delta")
    if isinstance(piece, str):
        choice.media((event.get("output_index"), "media"), None).add(piece)


def _text(value: object) -> str | None:
    return value[:256] if isinstance(value, str) and value else None


_READERS: Final[dict[str, Callable[[ChoiceDraft, Event], None]]] = {
    "response.output_item.added": _added,
    "response.output_item.done": _done,
    "response.output_text.delta": _text_delta,
    "response.output_text.done": _text_done,
    "response.output_text.annotation.added": _annotation,
    "response.refusal.delta": _refusal_delta,
    "response.refusal.done": _refusal_done,
    "response.reasoning_text.delta": _thought_delta,
    "response.reasoning_text.done": _thought_done,
    "response.reasoning_summary_text.delta": _summary_delta,
    "response.reasoning_summary_text.done": _summary_done,
    "response.function_call_arguments.delta": _arguments_delta,
    "response.function_call_arguments.done": _arguments_done,
    "response.custom_tool_call_input.delta": _arguments_delta,
    "response.custom_tool_call_input.done": _arguments_done,
    "response.mcp_call_arguments.delta": _arguments_delta,
    "response.mcp_call_arguments.done": _arguments_done,
    "response.code_interpreter_call_code.delta": _arguments_delta,
    "response.code_interpreter_call_code.done": _arguments_done,
    "response.image_generation_call.partial_image": _picture,
    "response.audio.delta": _picture,
    "error": _error,
}
