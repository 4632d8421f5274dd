"""Items of OpenAI's Responses as they are sent whole: what came in pieces before is compared, what did not is taken."""

from typing import Any, Final

from custody_client.streams.draft import ChoiceDraft
from custody_client.streams.items import CallDraft, ReasoningDraft, ServerToolDraft, TextDraft
from custody_client.streams.names import name_of, role_of

Path = tuple[str | int, ...]
Item = dict[str, Any]

_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
# Tools of the provider's making that the caller runs: what it is to do is under this key, an object.
_ACTIONS: Final = {
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
_SERVER_TOOLS: Final = ("_call", "_call_output", "_list_tools", "_search_output")


def take_item(choice: ChoiceDraft, at: Any, item: Item, path: Path, *, done: bool) -> None:
    """Take an item: what of it came in pieces before is only compared."""
    if done:
        choice.first("item", at)
    kind = item.get("type")
    if kind == "message":
        choice.role = choice.role or role_of(item.get("role"))
        _message(choice, at, item, path, done=done)
    elif kind == "reasoning":
        _reasoning(choice, at, item, path, done=done)
    elif kind in _CALLS:
        _call(choice, at, item, path, done=done)
    elif kind in _ACTIONS:
        _action(choice, at, item, path, done=done)
    elif isinstance(kind, str) and kind.endswith(_SERVER_TOOLS):
        _server_tool(choice, at, item, path, done=done)
    elif done and kind == "compaction":
        reasoning = choice.reasoning((at, "compaction"), "encrypted")
        choice.draft.fact(
            reasoning.opaque, "encrypted_content", item.get("encrypted_content"), (*path, "encrypted_content")
        )
    elif done:
        choice.raw(kind if isinstance(kind, str) else None, path, item)


def _message(choice: ChoiceDraft, at: Any, item: Item, path: Path, *, done: bool) -> None:
    content = item.get("content")
    for place, part in enumerate(content if isinstance(content, list) and done else []):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "output_text":
            text = says(choice, (at, "text", place), part.get("text"))
            if not text.opaque.values:
                choice.draft.fact(
                    text.opaque,
                    "annotations",
                    part.get("annotations"),
                    (*path, "content", place, "annotations"),
                )
        elif kind == "refusal":
            says(choice, (at, "text", place), part.get("refusal"), refusal=True)
        else:
            choice.raw(kind, (*path, "content", place), part)


def says(choice: ChoiceDraft, key: tuple[Any, ...], whole: Any, *, refusal: bool = False) -> TextDraft:
    """Take a text that is sent whole, and return where it stands."""
    text = choice.text(key, "refusal" if refusal else "text")
    settle(choice, text, whole)
    return text


def settle(choice: ChoiceDraft, item: TextDraft | ReasoningDraft, whole: Any) -> None:
    """Hold the whole text against its pieces; take it where there were none."""
    if not isinstance(whole, str) or not whole:
        return
    if not item.words.size:
        item.words.add(whole)
    elif not item.words.is_cut and item.words.text() != whole:
        choice.draft.note("text-differs-from-done")


def _reasoning(choice: ChoiceDraft, at: Any, item: Item, path: Path, *, done: bool) -> None:
    if not done:
        return
    for key, form in (("content", "text"), ("summary", "summary")):
        parts = item.get(key)
        for place, part in enumerate(parts if isinstance(parts, list) else []):
            if isinstance(part, dict) and part.get("text"):
                settle(choice, choice.reasoning((at, key, place), form), part["text"])  # type: ignore[arg-type]  # one of two
    if item.get("encrypted_content"):
        first = choice.known((at, "content", 0)) or choice.known((at, "summary", 0))
        reasoning = first or choice.reasoning((at, "encrypted"), "encrypted")
        choice.draft.fact(
            reasoning.opaque, "encrypted_content", item["encrypted_content"], (*path, "encrypted_content")
        )


def _call(choice: ChoiceDraft, at: Any, item: Item, path: Path, *, done: bool) -> None:
    key = _CALLS[item["type"]]
    call = choice.call((at, "call"))
    call.wire_index = at if type(at) is int else None
    call.id, call.item_id = call.id or name_of(item.get("call_id")), call.item_id or name_of(item.get("id"))
    call.name = call.name or name_of(item.get("name"))
    if key == "input":
        call.arguments.form = "text"
    if done:
        settle_arguments(choice, call, item.get(key), (*path, key))


def settle_arguments(choice: ChoiceDraft, call: CallDraft | ServerToolDraft, whole: Any, path: Path) -> None:
    """Hold whole arguments against their pieces; take them where there were none."""
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


def _action(choice: ChoiceDraft, at: Any, item: Item, path: Path, *, done: bool) -> None:
    key = _ACTIONS[item["type"]]
    call = choice.call((at, "call"))
    call.wire_index = at if type(at) is int else None
    call.id, call.item_id = name_of(item.get("call_id")), name_of(item.get("id"))
    call.name = item["type"].removesuffix("_call")
    if done and key in item:
        settle_arguments(choice, call, item[key], (*path, key))
    elif done:
        choice.raw(item["type"], path, item)


def _server_tool(choice: ChoiceDraft, at: Any, item: Item, path: Path, *, done: bool) -> None:
    kind: str = item["type"]
    name = item.get("name") if isinstance(item.get("name"), str) else kind.removesuffix("_call")
    tool = choice.server_tool((at, "tool"), name)
    tool.id = tool.id or name_of(item.get("id"))
    tool.status = name_of(item.get("status")) or tool.status
    if done and isinstance(item.get("arguments"), str):
        settle_arguments(choice, tool, item["arguments"], (*path, "arguments"))
