"""What LiteLLM logs of a call (its `StandardLoggingPayload`), as the contents of a call's two parts.

LiteLLM has turned the answer into the shape of OpenAI's, put a stream together itself, and filled in what was not
there: a finish reason of a stream that ended without one, tokens that nobody counted. `notes` say so.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from custody_client.adapters.logical_request import of_options
from custody_client.adapters.routes import Route
from custody_client.streams import Assembler, Output

# Kinds of call that ask a model to answer, and the shape that LiteLLM gives the answer.
APIS: Final[Mapping[str, str]] = {
    "completion": "chat.completions",
    "acompletion": "chat.completions",
    "text_completion": "chat.completions",
    "atext_completion": "chat.completions",
    "responses": "responses",
    "aresponses": "responses",
    "anthropic_messages": "anthropic.messages",
    "generate_content": "gemini",
    "agenerate_content": "gemini",
    "generate_content_stream": "gemini",
    "agenerate_content_stream": "gemini",
}
_REDACTED: Final = "redacted-by-litellm"

Payload = Mapping[str, Any]


def redacted(payload: Payload) -> bool:
    """Whether LiteLLM was told to keep the messages from its loggers (`turn_off_message_logging`)."""
    messages = payload.get("messages")
    if not isinstance(messages, list):
        return messages is None or messages == _REDACTED
    return any(isinstance(each, Mapping) and each.get("content") == _REDACTED for each in messages)


def request(payload: Payload) -> dict[str, Any]:
    """Give the logical request: what LiteLLM was asked for, which need not be what it sent."""
    call_type = payload["call_type"]
    route = Route(host(payload), APIS[call_type], payload.get("custom_llm_provider") or "")
    asked = "input" if route.api == "responses" else "messages"
    body = {
        "model": payload.get("model"),
        asked: payload.get("messages"),
        **(payload.get("model_parameters") or {}),
    }
    notes = ["observed-by-litellm", "not-the-wire"]
    return {**of_options(route, body, "gateway"), "call_type": call_type, "notes": notes}


def output(payload: Payload) -> Output:
    """Give the answer as LiteLLM put it together."""
    streamed = bool(payload.get("stream"))
    assembler = Assembler(
        APIS[payload["call_type"]],
        provider=payload.get("custom_llm_provider") or "",
        host=host(payload),
        vantage="gateway",
        streamed=streamed,
    )
    if response := payload.get("response"):
        assembler.answer(response)
    failed = payload.get("status") == "failure"
    if failed:
        assembler.failed(_kind(payload))
    return _as_told(assembler.output(), streamed=streamed, failed=failed)


def host(payload: Payload) -> str:
    """Name the host that was called; an address may hold credentials."""
    try:
        return urlsplit(str(payload.get("api_base") or "")).hostname or ""
    except ValueError:
        return ""


def _as_told(found: Output, *, streamed: bool, failed: bool) -> Output:
    """Take back what LiteLLM may have made up."""
    notes = [*found.notes, "observed-by-litellm", "assembled-by-litellm"]
    state, source = found.stream.state, found.usage.source
    if streamed:
        notes += ["finish-reason-perhaps-filled-in", "usage-perhaps-estimated"]
        state = "finished-no-terminal" if state == "completed" else state
        source = "none" if source == "none" else "estimated"
    return msgspec.structs.replace(
        found,
        stream=msgspec.structs.replace(found.stream, state="error" if failed else state),
        usage=msgspec.structs.replace(found.usage, source=source),
        notes=notes,
    )


def _kind(payload: Payload) -> str:
    """Name the error's class; its text may hold anything."""
    return str((payload.get("error_information") or {}).get("error_class") or "unknown")
