"""Chat completions, as OpenAI made them and many others speak them, each a little differently."""

from collections.abc import Callable
from typing import Any, Final

from custody_client.streams import calls, usage
from custody_client.streams.draft import ChoiceDraft, Draft
from custody_client.streams.errors import take_error
from custody_client.streams.names import role_of

Step = str | int
Path = tuple[Step, ...]

_TEXT: Final = ("text",)
_REFUSAL: Final = ("refusal",)
_REASONING: Final = ("reasoning",)
# What a chunk may hold besides choices; one with none of these is of a shape that is not known.
_HEADS: Final = frozenset(
    {
        "choices",
        "usage",
        "prompt_filter_results",
        "moderation",
        "x_groq",
        "prompt_annotations",
        "service_tier",
    }
)
_FACTS: Final = frozenset({"prompt_filter_results", "moderation"})
_CHOICE_FACTS: Final = frozenset(
    {"content_filter_results", "content_filter_offsets", "content_filter_result"}
)


def take(draft: Draft, event: dict[str, Any]) -> bool:
    """Take one chunk; False if it is none."""
    failed = "error" in event and take_error(draft, event)
    choices = event.get("choices")
    if not isinstance(choices, list):
        if not failed and event.keys().isdisjoint(_HEADS):
            return False
        choices = []
    draft.head(event.get("id"), event.get("model"))
    for at, choice in enumerate(choices):
        if isinstance(choice, dict):
            _choice(draft, choice, ("choices", at))
    _rest(draft, event)
    return True


def take_whole(draft: Draft, body: dict[str, Any]) -> bool:
    """Take an answer that did not stream; False if it is none."""
    return take(draft, body)


def _rest(draft: Draft, event: dict[str, Any]) -> None:
    counted = event.get("usage")
    if counted:
        draft.usage.take(counted, usage.CHAT)
    elif isinstance(event.get("x_groq"), dict):
        draft.usage.take(event["x_groq"].get("usage"), usage.CHAT)
    if not _FACTS.isdisjoint(event):
        for key in sorted(event.keys() & _FACTS):
            draft.fact(draft.facts, key, event[key], (key,))


def _choice(draft: Draft, event: dict[str, Any], path: Path) -> None:
    choice = draft.choice(event.get("index"))
    delta = event.get("delta")
    if isinstance(delta, dict):
        _delta(choice, delta, (*path, "delta"), streamed=True)
    elif isinstance(event.get("message"), dict) and choice.first("message"):
        # Beside a delta some send all of the message so far: that is not read. Here it is all there is.
        _delta(choice, event["message"], (*path, "message"), streamed=False)
    elif isinstance(event.get("text"), str):
        choice.text(_TEXT).words.add(event["text"])
    reason = event.get("finish_reason")
    if reason:  # some send "" until they know
        _finish(choice, reason)
    if not _CHOICE_FACTS.isdisjoint(event):
        for key in sorted(event.keys() & _CHOICE_FACTS):
            draft.fact(choice.facts, key, event[key], (*path, key))


def _finish(choice: ChoiceDraft, reason: object) -> None:
    choice.finished(str(reason)[:96])
    if choice.finish == ("stop", "stop") and choice.calls:
        choice.draft.note("finish-stop-with-tool-calls")


def _delta(choice: ChoiceDraft, delta: dict[str, Any], path: Path, *, streamed: bool) -> None:
    for key, value in delta.items():
        if not value:
            continue
        if key == "content" and type(value) is str:
            choice.text(_TEXT).words.add(value)
        elif key == "role":
            choice.role = choice.role or role_of(value)
        elif key == "tool_calls":
            calls.take_all(choice, value, (*path, key), streamed=streamed)
        elif key == "function_call":
            calls.take_function(choice, value, (*path, key))
        else:
            _OTHERS.get(key, _unknown)(choice, delta, key, path)


def _content(choice: ChoiceDraft, delta: dict[str, Any], key: str, path: Path) -> None:
    """Take content that is a list of parts."""
    value = delta[key]
    if not isinstance(value, list):
        choice.raw(key, (*path, key), value)
        return
    for at, part in enumerate(value):
        _part(choice, part, (*path, key, at))


def _part(choice: ChoiceDraft, part: Any, path: Path) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in {"text", "output_text"} and isinstance(part.get("text"), str):
        choice.text(_TEXT).words.add(part["text"])
    elif kind == "thinking":
        thoughts = part.get("thinking")
        for thought in thoughts if isinstance(thoughts, list) else [{"text": thoughts}]:
            if isinstance(thought, dict) and isinstance(thought.get("text"), str):
                choice.reasoning(_REASONING).words.add(thought["text"])
    else:
        choice.raw(kind if isinstance(kind, str) else None, path, part)


def _refusal(choice: ChoiceDraft, delta: dict[str, Any], key: str, path: Path) -> None:
    if isinstance(delta[key], str):
        choice.text(_REFUSAL, "refusal").words.add(delta[key])
    else:
        choice.raw(key, (*path, key), delta[key])


def _reasoning(choice: ChoiceDraft, delta: dict[str, Any], key: str, path: Path) -> None:
    """Take reasoning under one of its names: `reasoning_content`, else `reasoning`, never both."""
    value = delta[key]
    if not isinstance(value, str):
        choice.raw(key, (*path, key), value)
        return
    if key == "reasoning" and delta.get("reasoning_content"):
        choice.draft.note("reasoning-twice")
        return
    choice.reasoning(_REASONING).words.add(value)


def _reasoning_details(choice: ChoiceDraft, delta: dict[str, Any], key: str, path: Path) -> None:
    """Take OpenRouter's list: text only if it is nowhere else, and all that has more than text."""
    elsewhere = delta.get("reasoning_content") or delta.get("reasoning")
    details = delta[key] if isinstance(delta[key], list) else []
    for at, detail in enumerate(details):
        if not isinstance(detail, dict):
            continue
        reasoning = choice.reasoning(_REASONING)
        text = detail.get("text") or detail.get("summary")
        if isinstance(text, str) and not elsewhere:
            reasoning.words.add(text)
        if detail.get("signature") or detail.get("data"):
            choice.draft.more(reasoning.opaque, key, detail, (*path, key, at))


def _thinking_blocks(choice: ChoiceDraft, delta: dict[str, Any], key: str, path: Path) -> None:
    """Keep LiteLLM's blocks for their signatures; their text is in `reasoning_content`."""
    blocks = delta[key] if isinstance(delta[key], list) else []
    for at, block in enumerate(blocks):
        if isinstance(block, dict) and (block.get("signature") or block.get("data")):
            choice.draft.more(choice.reasoning(_REASONING).opaque, key, block, (*path, key, at))


def _audio(choice: ChoiceDraft, delta: dict[str, Any], key: str, _: Path) -> None:
    audio = delta[key] if isinstance(delta[key], dict) else {}
    if isinstance(audio.get("data"), str) and audio["data"]:
        choice.media(("audio",), "audio").add(audio["data"])
    if isinstance(audio.get("transcript"), str) and audio["transcript"]:
        choice.draft.note("audio-transcript")
        choice.text(("transcript",)).words.add(audio["transcript"])


def _fact(choice: ChoiceDraft, delta: dict[str, Any], key: str, path: Path) -> None:
    choice.draft.fact(choice.facts, key, delta[key], (*path, key))


def _unknown(choice: ChoiceDraft, delta: dict[str, Any], key: str, path: Path) -> None:
    """Keep what a delta holds under a name that is not known."""
    choice.draft.note(f"unknown-delta:{key}")
    choice.draft.fact(choice.facts, key[:96], delta[key], (*path, key))


_OTHERS: Final[dict[str, Callable[[ChoiceDraft, dict[str, Any], str, Path], None]]] = {
    "content": _content,
    "refusal": _refusal,
    "reasoning_content": _reasoning,
    "reasoning": _reasoning,
    "reasoning_details": _reasoning_details,
    "thinking_blocks": _thinking_blocks,
    "audio": _audio,
    "annotations": _fact,
    "provider_specific_fields": _fact,
    "citations": _fact,
    "images": _fact,
    "executed_tools": _fact,
}
