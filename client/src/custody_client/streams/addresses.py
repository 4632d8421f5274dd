"""Which wire format an address speaks."""

import re
from typing import Final

# Path (without query) to wire format. Hosts decide nothing: gateways and proxies speak the formats of others.
_PATHS: Final = (
    (re.compile(r"/chat/completions/?$|/text/chatcompletion_v2/?$"), "chat.completions"),
    (re.compile(r"/responses/?$"), "responses"),
    (
        re.compile(r"/messages/?$|/publishers/anthropic/models/[^/]+:(?:streamR|r)awPredict$"),
        "anthropic.messages",
    ),
    (re.compile(r":(?:streamGenerateContent|generateContent)$"), "gemini"),
    (re.compile(r"/model/.+/converse(?:-stream)?$"), "bedrock.converse"),
    (re.compile(r"/model/.+/invoke(?:-with-response-stream)?$"), "bedrock.invoke"),
    (re.compile(r"/api/chat/?$"), "ollama.chat"),
)
_TYPES: Final = frozenset(
    {
        "",
        "application/json",
        "application/x-ndjson",
        "application/vnd.amazon.eventstream",
        "text/event-stream",
        "text/plain",  # what proxies make of an event stream
    }
)


def api_of(host: str, path: str, content_type: str = "") -> str | None:  # noqa: ARG001 -- part of the surface
    """Name the wire format of a model call to this address, or None where it is none that can be read."""
    if content_type.partition(";")[0].strip().lower() not in _TYPES:
        return None
    plain = path.partition("?")[0]
    return next((api for pattern, api in _PATHS if pattern.search(plain)), None)
