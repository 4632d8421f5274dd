"""Gemini's `generateContent`: each chunk is a whole answer, of which the parts go on where the last ones ended."""

from typing import Any, Final

from custody_client.streams import usage
from custody_client.streams.draft import ChoiceDraft, Draft
from custody_client.streams.errors import take_error
from custody_client.streams.items import ItemDraft, ReasoningDraft, TextDraft
from custody_client.streams.names import name_of, role_of

Path = tuple[str | int, ...]
Event = dict[str, Any]

_HEADS: Final = frozenset({"candidates", "promptFeedback", "usageMetadata"})
_SERVER_TOOLS: Final = frozenset({"executableCode", "codeExecutionResult", "toolCall", "toolResponse"})
_FACTS: Final = frozenset(
    {"finishMessage", "safetyRatings", "citationMetadata", "groundingMetadata", "urlContextMetadata"}
)


def take(draft: Draft, event: Event) -> bool:
    """Take one chunk; False if it is none."""
    root: Path = ()
    if isinstance(event.get("response"), dict):  # as Code Assist wraps it
        event, root = event["response"], ("response",)
    failed = take_error(draft, event)
    if event.keys().isdisjoint(_HEADS):
        return failed
    draft.head(event.get("responseId"), event.get("modelVersion"))
    candidates = event.get("candidates")
    for at, candidate in enumerate(candidates if isinstance(candidates, list) else []):
        if isinstance(candidate, dict):
            _candidate(draft, candidate, (*root, "candidates", at))
    draft.usage.take(event.get("usageMetadata"), usage.GEMINI)
    _feedback(draft, event.get("promptFeedback"), (*root, "promptFeedback"))
    return True


def take_whole(draft: Draft, body: Event) -> bool:
    """Take an answer that did not stream; False if it is none."""
    known = take(draft, body)
    draft.terminal = None
    return known


def _feedback(draft: Draft, feedback: Any, path: Path) -> None:
    """Take why a prompt was refused: then there is no candidate at all."""
    draft.fact(draft.facts, "promptFeedback", feedback, path)
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        draft.choice().finished(str(feedback["blockReason"])[:96], "content_filter")
        draft.terminal = "promptFeedback"


def _candidate(draft: Draft, candidate: Event, path: Path) -> None:
    choice = draft.choice(candidate.get("index"))
    content = candidate.get("content")
    if isinstance(content, dict):
        choice.role = choice.role or role_of(content.get("role"))
        parts = content.get("parts")
        for at, part in enumerate(parts if isinstance(parts, list) else []):
            _part(choice, part, (*path, "content", "parts", at))
    if not _FACTS.isdisjoint(candidate):
        for key in sorted(candidate.keys() & _FACTS):
            draft.fact(choice.facts, key, candidate[key], (*path, key))
    reason = candidate.get("finishReason")
    if reason and reason != "FINISH_REASON_UNSPECIFIED":
        choice.finished(str(reason)[:96])
        draft.terminal = "finishReason" if draft.finished else draft.terminal
        if reason == "STOP" and choice.calls:
            draft.note("finish-stop-with-tool-calls")


def _part(choice: ChoiceDraft, part: Any, path: Path) -> None:
    if not isinstance(part, dict):
        choice.raw(None, path, part)
        return
    item = _item(choice, part, path)
    signature = part.get("thoughtSignature")
    if item is not None and isinstance(signature, str):
        item.opaque.put("thoughtSignature", choice.draft.exact((*path, "thoughtSignature"), signature))


def _item(choice: ChoiceDraft, part: Event, path: Path) -> Any:
    """Take what a part holds; return the item that can carry its signature."""
    if isinstance(part.get("text"), str):
        return _text(choice, part["text"], thought=bool(part.get("thought")))
    if isinstance(part.get("functionCall"), dict):
        return _call(choice, part["functionCall"], (*path, "functionCall"))
    if isinstance(part.get("inlineData"), dict):
        _media(choice, part["inlineData"])
        return None
    tool = next((key for key in part if key in _SERVER_TOOLS), None)
    if tool is not None:
        used = choice.server_tool((len(choice.items), tool), tool)
        outcome = part[tool].get("outcome") if isinstance(part[tool], dict) else None
        used.status = outcome if isinstance(outcome, str) else None
        return None
    if part.get("thoughtSignature") and not part.keys() - {"thoughtSignature", "thought"}:
        return _text(choice, "", thought=bool(part.get("thought")))
    choice.raw(next(iter(part), None), path, part)
    return None


def _text(choice: ChoiceDraft, piece: str, *, thought: bool) -> ItemDraft:
    """Go on with the last item if it is of the same kind, else begin one."""
    last = choice.items[-1] if choice.items else None
    if type(last) is (ReasoningDraft if thought else TextDraft):
        item: Any = last
    else:
        key = (choice.draft.seq, len(choice.items), choice.draft.dropped_items)
        item = choice.reasoning(key) if thought else choice.text(key)
    item.words.add(piece)
    return item  # type: ignore[no-any-return]  # one of the two kinds above


def _call(choice: ChoiceDraft, function: Event, path: Path) -> ItemDraft:
    draft, last = choice.draft, choice.calls[-1] if choice.calls else None
    name, call_id = function.get("name"), function.get("id")
    goes_on = last is not None and last.arguments.will_continue and not name
    call = (
        last
        if goes_on and last is not None
        else choice.call((draft.seq, "call", len(choice.items), draft.dropped_items))
    )
    call.name = call.name or name_of(name)
    call.id = call.id or name_of(call_id)
    if isinstance(function.get("partialArgs"), list):
        # Values by their paths: JSON only when all are put together, which is not ours to do.
        draft.note("partial-arguments")
        call.arguments.form = "text"
        draft.add_arguments(
            call.arguments, draft.exact((*path, "partialArgs"), function["partialArgs"]).decode()
        )
    if function.get("args") is not None:
        draft.add_object(call.arguments, (*path, "args"), function["args"])
    call.arguments.will_continue = bool(function.get("willContinue"))
    return call


def _media(choice: ChoiceDraft, data: Event) -> None:
    kind = data.get("mimeType")
    media = choice.media(
        (choice.draft.seq, "media", len(choice.items)), kind if isinstance(kind, str) else None
    )
    if isinstance(data.get("data"), str):
        media.add(data["data"])
