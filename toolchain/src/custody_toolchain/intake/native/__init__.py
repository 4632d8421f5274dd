"""Providers' own ways of answering, whole and in chunks, each put together by rules that never guess."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from custody_toolchain.intake.draft import AnswerDraft
from custody_toolchain.intake.native import chat, converse, gemini, messages, ollama, responses

Take = Callable[[AnswerDraft, Mapping[str, Any]], None]


class Adapter(NamedTuple):
    """How one wire format is read: a whole answer, and one chunk of a stream."""

    whole: Take
    chunk: Take


ADAPTERS: Final[dict[str, Adapter]] = {
    "chat.completions": Adapter(chat.whole, chat.chunk),
    "responses": Adapter(responses.whole, responses.chunk),
    "anthropic.messages": Adapter(messages.whole, messages.chunk),
    "gemini": Adapter(gemini.whole, gemini.chunk),
    "bedrock.converse": Adapter(converse.whole, converse.chunk),
    "ollama.chat": Adapter(ollama.whole, ollama.chunk),
}
