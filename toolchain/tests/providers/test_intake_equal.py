"""The calls that intake finds in every answer, with and without the client's assembler, and those its SDK finds."""

import base64
import json
import re
from collections import Counter
from typing import Any

import pytest

from client.tests.providers import recorded
from client.tests.providers.recorded import EVENTS, Recorded
from client.tests.providers.sdk_views import Call, view
from client.tests.providers.test_streams_equal import UNREADABLE
from custody_client.streams import Assembler
from custody_client.streams.frames import Frames
from custody_toolchain.intake import Limits, Result, Why, permitting, read_answer, read_output, read_stream

OPTIONS = permitting(limits=Limits(text_bytes=64 * 1024 * 1024, actions=1000))
ANSWERS = [answer for answer in recorded.answers() if answer.status == 200]
# Botocore hands on the body of a plain invoke as it is: there is nothing to hold ours against.
COMPARED = [
    one for one in ANSWERS if one.id not in UNREADABLE and (one.streamed or one.api != "bedrock.invoke")
]
FAILED = [answer for answer in recorded.answers() if answer.status >= 400]

# In an answer that holds one of these the model refuses: whatever their programs find beside it, intake gives nothing.
REFUSES = re.compile(rb'"type":\s*"refusal"|"refusal":\s*"[^"]|"stop_reason":\s*"refusal"')


def asked_for(answer: Recorded) -> tuple[list[Call], Why | None]:
    """The calls that intake is to find, and why there are none although their program has some."""
    theirs = view(answer).calls
    if theirs and REFUSES.search(answer.data):
        return [], Why.ANSWER_REFUSED
    return theirs, None


def from_recording(answer: Recorded) -> Result:
    made = Assembler(answer.api, streamed=answer.streamed)
    (made.feed if answer.streamed else made.answer)(answer.data)
    return read_output(made.encode(), OPTIONS)


def from_answer(answer: Recorded) -> Result:
    if answer.streamed:
        chunks = list(_events(answer) if answer.content_type == EVENTS else _frames(answer))
        return read_stream(_api(answer, chunks[0]), chunks, OPTIONS)
    return read_answer(_api(answer, answer.data), _one(answer.data), OPTIONS)


def _api(answer: Recorded, first: Any) -> str:
    """A plain invoke speaks as the model does: Claude as at home, Nova as Converse."""
    if answer.api != "bedrock.invoke":
        return answer.api
    value = first if isinstance(first, dict) else json.loads(first)
    return "anthropic.messages" if "type" in value else "bedrock.converse"


def _one(data: bytes) -> Any:
    """Gemini sends a list of answers where a stream was asked for, but no events."""
    value = json.loads(data) if data.lstrip()[:1] == b"[" else None
    return value[0] if isinstance(value, list) and len(value) == 1 else data


def _events(answer: Recorded) -> Any:
    for block in answer.data.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line.removeprefix("data:").strip() for line in block.split("\n") if line.startswith("data:")]
        if lines:
            yield "\n".join(lines)


def _frames(answer: Recorded) -> Any:
    for frame in Frames(1 << 24).feed(answer.data):
        value = json.loads(frame.payload)
        if "bytes" in value:
            yield json.loads(base64.b64decode(value["bytes"]))
        else:
            yield {str(frame.headers.get(":event-type") or frame.headers.get(":exception-type")): value}


def calls(result: Result, like: list[Call]) -> list[Call]:
    """What was found, with arguments as the other program has them: decoded, or as text."""
    theirs = [call[2] for call in like]
    if len(result.actions) != len(theirs):
        return [(one.call_id, one.name, one.arguments) for one in result.actions]
    found: list[Call] = []
    for action, their in zip(result.actions, theirs, strict=True):
        ours: Any = action.arguments
        if isinstance(their, str):
            ours = action.text if action.text is not None else action.raw
            assert action.text is not None or json.loads(their or "{}") == action.arguments
        found.append((action.call_id, action.name, ours))
    return found


@pytest.mark.parametrize(
    "answer", [one for one in COMPARED if one.streamed], ids=lambda one: f"{one.api}-{one.id}"
)
def test_a_stream_asks_for_the_calls_that_its_program_finds(answer):
    expected, why = asked_for(answer)
    for result in (from_answer(answer), from_recording(answer)):
        assert calls(result, expected) == expected
        assert result.refusal is None or not expected
        assert why is None or (result.refusal is not None and result.refusal.why is why)


def test_answers_that_did_not_stream_ask_for_the_calls_that_their_program_finds():
    wrong: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for answer in (one for one in COMPARED if not one.streamed):
        expected, _ = asked_for(answer)
        seen[answer.api] += len(expected)
        for result in (from_answer(answer), from_recording(answer)):
            if calls(result, expected) != expected or (result.refusal is not None and expected):
                wrong[answer.id] = (answer.api, len(expected), len(result.actions), str(result.refusal))
    assert wrong == {}
    if recorded.is_named():
        assert sum(seen.values()) > 300
        assert {api for api, count in seen.items() if count} == {
            "anthropic.messages",
            "bedrock.converse",
            "chat.completions",
            "gemini",
            "responses",
        }


def test_what_no_program_is_asked_about_is_the_same_with_and_without_the_assembler():
    for answer in ANSWERS:
        direct, through = from_answer(answer), from_recording(answer)
        assert [(one.call_id, one.name, one.arguments) for one in direct.actions] == [
            (one.call_id, one.name, one.arguments) for one in through.actions
        ], answer.id


def test_answers_that_are_errors_ask_for_nothing():
    for answer in FAILED:
        assert from_answer(answer).refusal is not None, answer.id
        assert from_recording(answer).refusal is not None, answer.id
