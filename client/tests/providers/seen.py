"""What should have been seen of the fake provider's one answer, whichever way it came."""

import json
from typing import Any

from client.tests.providers.answers import ARGUMENTS, TEXT


def text(attempt: Any) -> str:
    """The text of an attempt's output."""
    items = attempt.output.content["choices"][0]["items"]
    return "".join(item["text"] for item in items if item["type"] == "text")


def arguments(attempt: Any) -> Any:
    """The arguments of its only tool call, as a value: Gemini's and Anthropic's are objects on the wire."""
    items = attempt.output.content["choices"][0]["items"]
    (call,) = [item for item in items if item["type"] == "tool_call"]
    return json.loads(call["arguments"]["raw"])


def state(attempt: Any) -> str:
    """How far the answer came."""
    told: str = attempt.output.content["stream"]["state"]
    return told


def is_whole(attempt: Any) -> None:
    """Assert that all of the answer was seen."""
    assert text(attempt) == TEXT
    assert arguments(attempt) == json.loads("".join(ARGUMENTS))
    assert state(attempt) == "completed"
    usage = attempt.output.content["usage"]
    assert (usage["input"], usage["output"]) == (11, 7)
    assert (attempt.dispatch, attempt.settlement) == ("dispatched", "completed")
