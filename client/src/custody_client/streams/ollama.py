"""Ollama's own chat: JSON lines, each with the next piece of a message."""

from typing import Any

from custody_client.streams import calls, usage
from custody_client.streams.draft import Draft
from custody_client.streams.errors import take_error
from custody_client.streams.names import role_of


def take(draft: Draft, event: dict[str, Any]) -> bool:
    """Take one line; False if it is none."""
    failed = take_error(draft, event)
    message = event.get("message")
    if not isinstance(message, dict) and "done" not in event:
        return failed
    draft.head(None, event.get("model"))
    choice = draft.choice()
    if isinstance(message, dict):
        choice.role = choice.role or role_of(message.get("role"))
        if isinstance(message.get("thinking"), str) and message["thinking"]:
            choice.reasoning(("reasoning",)).words.add(message["thinking"])
        if isinstance(message.get("content"), str) and message["content"]:
            choice.text(("text",)).words.add(message["content"])
        if message.get("tool_calls"):
            # Each comes whole, and most without index and id.
            calls.take_all(choice, message["tool_calls"], ("message", "tool_calls"), streamed=False)
    if event.get("done") is True:
        reason = event.get("done_reason")
        choice.finished(str(reason)[:96] if reason else None)
        draft.terminal = "done"
        draft.usage.take(event, usage.OLLAMA)
    return True


def take_whole(draft: Draft, body: dict[str, Any]) -> bool:
    """Take an answer that did not stream; False if it is none."""
    known = take(draft, body)
    draft.terminal = None
    return known
