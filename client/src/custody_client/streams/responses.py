"""OpenAI's Responses: events about items, each of which is also sent whole when it is done."""

from collections.abc import Callable
from typing import Any, Final

from custody_client.streams import response_items as items
from custody_client.streams import usage
from custody_client.streams.draft import ChoiceDraft, Draft
from custody_client.streams.errors import take_error
from custody_client.streams.items import CallDraft, ServerToolDraft
from custody_client.streams.names import name_of

Path = tuple[str | int, ...]
Event = dict[str, Any]

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
            items.take_item(choice, at, item, (*path, "output", at), done=True)
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
        items.take_item(choice, event.get("output_index"), item, ("item",), done=False)


def _done(choice: ChoiceDraft, event: Event) -> None:
    item = event.get("item")
    if isinstance(item, dict):
        items.take_item(choice, event.get("output_index"), item, ("item",), done=True)


def _text_delta(choice: ChoiceDraft, event: Event) -> None:
    piece = event.get("delta")
    if isinstance(piece, str):
        choice.text((event.get("output_index"), "text", event.get("content_index"))).words.add(piece)


def _text_done(choice: ChoiceDraft, event: Event) -> None:
    items.says(choice, (event.get("output_index"), "text", event.get("content_index")), event.get("text"))


def _refusal_delta(choice: ChoiceDraft, event: Event) -> None:
    if isinstance(event.get("delta"), str):
        key = (event.get("output_index"), "text", event.get("content_index"))
        choice.text(key, "refusal").words.add(event["delta"])


def _refusal_done(choice: ChoiceDraft, event: Event) -> None:
    key = (event.get("output_index"), "text", event.get("content_index"))
    items.says(choice, key, event.get("refusal"), refusal=True)


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
    items.settle(choice, choice.reasoning(key), event.get("text"))


def _summary_delta(choice: ChoiceDraft, event: Event) -> None:
    if isinstance(event.get("delta"), str):
        key = (event.get("output_index"), "summary", event.get("summary_index"))
        choice.reasoning(key, "summary").words.add(event["delta"])


def _summary_done(choice: ChoiceDraft, event: Event) -> None:
    key = (event.get("output_index"), "summary", event.get("summary_index"))
    items.settle(choice, choice.reasoning(key, "summary"), event.get("text"))


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
        items.settle_arguments(choice, _opened(choice, event), whole, ())


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
    call.item_id = name_of(event.get("item_id"))
    return call


def _error(choice: ChoiceDraft, event: Event) -> None:
    if not take_error(choice.draft, event):
        choice.draft.fails(event.get("code") or "error", event.get("message"), event.get("code"))


def _picture(choice: ChoiceDraft, event: Event) -> None:
    piece = event.get("partial_image_b64") or event.get("delta")
    if isinstance(piece, str):
        choice.media((event.get("output_index"), "media"), None).add(piece)


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
