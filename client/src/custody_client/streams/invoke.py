"""Bedrock's invoke: each model in its own words, of which those are read that are text families or known formats."""

import base64
from typing import Any, Final

from custody_client.streams import chat, converse, messages, usage
from custody_client.streams.draft import Draft
from custody_client.streams.errors import take_error

Event = dict[str, Any]

# Text, and the word for why it ended, by model family: Titan, Llama, Claude's older form, Cohere, Jurassic.
_FAMILIES: Final = (
    ("outputText", "completionReason"),
    ("generation", "stop_reason"),
    ("completion", "stop_reason"),
    ("text", "finish_reason"),
)
_SEVERAL: Final = ("results", "outputs", "generations")
_METRICS: Final = "amazon-bedrock-invocationMetrics"


def take(draft: Draft, event: Event) -> bool:
    """Take one event or one answer; False if nothing here knows its shape."""
    known = _take(draft, event)
    draft.usage.fill(event.get(_METRICS), usage.INVOKE)
    return known or _METRICS in event


def take_whole(draft: Draft, body: Event) -> bool:
    """Take an answer that did not stream; False if it is none."""
    known = take(draft, body)
    draft.terminal = None
    return known


def unpacked(value: object) -> bytes | None:
    """Return the bytes inside a `chunk` event: base64 on the wire, bytes where an SDK decoded them."""
    inner = value.get("bytes") if isinstance(value, dict) else None
    if isinstance(inner, bytes):
        return inner
    try:
        return base64.b64decode(inner, validate=True) if isinstance(inner, str) else None
    except ValueError:
        return None


def _take(draft: Draft, event: Event) -> bool:
    if "type" in event:
        return messages.take(draft, event)
    if "choices" in event:
        return chat.take(draft, event)
    several = next((event[key] for key in _SEVERAL if isinstance(event.get(key), list)), None)
    if several is not None:
        return _several(draft, several)
    for text, reason in _FAMILIES:
        if isinstance(event.get(text), str):
            return _family(draft, event, text, reason)
    return converse.take(draft, event) or take_error(draft, event)


def _several(draft: Draft, results: list[Any]) -> bool:
    known = False
    for at, result in enumerate(results):
        if isinstance(result, dict):
            text, reason = (
                ("outputText", "completionReason") if "outputText" in result else ("text", _why(result))
            )
            if isinstance(result.get(text), str):
                known = _family(draft, {"index": at, **result}, text, reason)
    return known


def _why(result: Event) -> str:
    return "stop_reason" if "stop_reason" in result else "finish_reason"


def _family(draft: Draft, event: Event, text: str, reason: str) -> bool:
    choice = draft.choice(event.get("index"))
    if event[text]:
        choice.text(("text",)).words.add(event[text])
    if event.get(reason):
        choice.finished(str(event[reason])[:96])
        draft.terminal = reason
    return True
