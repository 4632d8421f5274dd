"""Text, calls and usage of every answer, as we assemble them and as the provider's own program does."""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest

from client.tests.providers import recorded
from client.tests.providers.recorded import BINARY, EVENTS, Recorded
from client.tests.providers.sdk_views import Call, View, view
from custody_client.streams import Assembler
from custody_client.streams.output import Text, ToolCall

ANSWERS = recorded.answers()
STREAMS = [answer for answer in ANSWERS if answer.streamed]
# Botocore hands on the body of a plain invoke as it is: there is nothing to hold ours against.
WHOLE = [one for one in ANSWERS if not one.streamed and one.status == 200 and one.api != "bedrock.invoke"]
REFUSED = [one for one in ANSWERS if one.status >= 400]

# Recorded streams in which we differ: in what, why, and whose doing it is.
DIFFERENCES = {
    "1eefc5f00ff7": (
        "usage",
        "Groq counts under `x_groq.usage`, of which OpenAI's program knows nothing; the numbers are in the bytes",
        "theirs",
    ),
    "98b647c7d9d5": (
        "usage",
        "after the chunk with usage comes one about moderation with `usage: null`, which replaces it there",
        "theirs",
    ),
}
# Recorded answers that their program does not read at all: `finishReason` is a number, it wants a name.
UNREADABLE = {"1e4df9130518", "4473a76709cf", "66f3b4f48ec4", "8eb10f2eff3d", "983d76450fda"}


def ours(answer: Recorded) -> View:
    made = Assembler(answer.api, streamed=answer.streamed)
    (made.feed if answer.streamed else made.answer)(answer.data)
    given = made.output()
    seen = View()
    for choice in given.choices:
        seen.texts[choice.index] = "".join(item.text for item in choice.items if isinstance(item, Text))
        structured = [
            item for item in choice.items if isinstance(item, ToolCall) and item.origin == "structured"
        ]
        seen.calls += [(call.id, call.name, call.arguments.raw) for call in structured]
    numbers = msgspec.structs.asdict(given.usage)
    seen.usage = {name: number for name, number in numbers.items() if isinstance(number, int)}
    return seen


def differing(mine: View, theirs: View) -> list[str]:
    """What is not equal. Where their program decodes arguments, ours are decoded as well."""
    found = []
    if _said(mine) != _said(theirs):
        found.append("text")
    if _decoded(mine.calls, like=theirs.calls) != theirs.calls:
        found.append("calls")
    if mine.usage != theirs.usage:
        found.append("usage")
    return found


def _said(seen: View) -> dict[int, str]:
    return {choice: text for choice, text in seen.texts.items() if text}


def _decoded(calls: list[Call], like: list[Call]) -> list[Call]:
    if len(calls) != len(like):
        return calls
    pairs = zip(calls, like, strict=True)
    return [
        (*call[:2], call[2] if isinstance(their[2], str) else json.loads(call[2] or "{}"))
        for call, their in pairs
    ]


@pytest.mark.parametrize("answer", STREAMS, ids=lambda answer: f"{answer.api}-{answer.id}")
def test_a_stream_is_what_their_program_makes_of_it(answer):
    expected = [DIFFERENCES[answer.id][0]] if answer.id in DIFFERENCES else []
    assert differing(ours(answer), view(answer)) == expected


def test_nine_of_ten_streams_are_equal_and_each_other_one_is_judged():
    kinds = Counter(answer.content_type for answer in STREAMS)
    if recorded.is_named():
        assert kinds == {EVENTS: 68, BINARY: 27}
        assert {answer.id for answer in STREAMS} >= set(DIFFERENCES)
    assert len(DIFFERENCES) <= len(STREAMS) // 10 or not recorded.is_named()
    assert {whose for _, _, whose in DIFFERENCES.values()} <= {"ours", "theirs"}


def test_answers_that_did_not_stream_are_what_their_program_makes_of_them():
    found: dict[str, Any] = {}
    for answer in WHOLE:
        if answer.id not in UNREADABLE and (wrong := differing(ours(answer), view(answer))):
            found[answer.id] = wrong
    assert found == {}


def test_what_their_program_does_not_read_we_do():
    for answer in WHOLE:
        if answer.id in UNREADABLE:
            with pytest.raises(AttributeError, match="upper"):
                view(answer)
            made = Assembler(answer.api, streamed=False)
            made.answer(answer.data)
            assert made.output().choices[0].finish is not None


def test_refusals_are_errors():
    states = set()
    for answer in REFUSED:
        made = Assembler(answer.api, streamed=False)
        made.answer(answer.data)
        states.add(made.state)
    assert states <= {"error"}
