"""Events as providers' programs hand them out, not bytes: the same output, but for what those programs swallow."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from client.tests.providers import recorded, sdk_views
from client.tests.providers.recorded import Recorded
from custody_client.streams import Assembler

STREAMS = [answer for answer in recorded.answers() if answer.streamed]
EACH = pytest.mark.parametrize("answer", STREAMS, ids=lambda answer: f"{answer.api}-{answer.id}")


def _chat() -> Any:
    return sdk_views._openai().chat.completions.create(model="m", messages=sdk_views.PROMPT, stream=True)


def _messages() -> Any:
    return sdk_views._anthropic().beta.messages.create(
        model="m", max_tokens=1, messages=sdk_views.PROMPT, stream=True
    )


def _converse() -> Any:
    messages = [{"role": "user", "content": [{"text": "?"}]}]
    return sdk_views._bedrock().converse_stream(modelId="m", messages=messages)["stream"]


EVENTS: dict[str, Callable[[], Iterable[Any]]] = {
    "chat.completions": _chat,
    "responses": lambda: sdk_views._openai().responses.create(model="m", input="?", stream=True),
    "anthropic.messages": _messages,
    "gemini": lambda: sdk_views._genai().models.generate_content_stream(model="m", contents="?"),
    "bedrock.converse": _converse,
    "bedrock.invoke": lambda: sdk_views._bedrock().invoke_model_with_response_stream(modelId="m", body=b"{}")[
        "body"
    ],
}


def decoded(answer: Recorded) -> dict[str, Any]:
    sdk_views.REPLAY.answer = answer
    made = Assembler(answer.api)
    for event in EVENTS[answer.api]():
        made.event(event)
    output: dict[str, Any] = json.loads(made.encode())
    return output


@EACH
def test_decoded_events_give_what_bytes_give(answer):
    made = Assembler(answer.api)
    made.feed(answer.data)
    raw, seen = json.loads(made.encode()), decoded(answer)
    if raw["stream"]["terminal"] == "[DONE]":
        # Their programs end with it, and hand out nothing: nobody can tell it from a connection that was closed.
        assert seen["stream"]["terminal"] in {None, "response.completed"}
        raw["stream"].update(terminal=seen["stream"]["terminal"], state=seen["stream"]["state"])
        raw["notes"] = [note for note in raw["notes"] if note != "finish-missing"]
    assert seen == raw


def test_the_assembler_imports_none_of_their_programs():
    said = (
        "import sys, custody_client.streams;"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " {'openai', 'anthropic', 'google', 'botocore', 'pydantic', 'httpx', 'httpx2'}])"
    )
    told = subprocess.run([sys.executable, "-c", said], check=True, capture_output=True, text=True)
    assert told.stdout == "[]\n"
