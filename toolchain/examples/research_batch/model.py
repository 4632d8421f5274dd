"""The model of this example: answers of chat completions that were recorded, whole or as chunks of a stream."""

from pathlib import Path
from typing import Any, Final

import msgspec

from custody_toolchain.intake import Dialect, Result, permitting, read_answer, read_stream

API: Final = "chat.completions"
MODEL: Final = "recorded-1"
_FOLDER: Final = Path(__file__).parent / "recorded"
# This model is known to speak DSML at times. Whatever else looks like a call in its text stays text.
_OPTIONS: Final = permitting(dialects=[Dialect.DSML], types={"read_page": {"offset": "json", "size": "json"}})


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came back: a whole `body`, or the `chunks` of a stream, the last of which is the text `[DONE]`."""

    body: dict[str, Any] | None = None
    chunks: list[Any] | None = None

    def understood(self) -> Result:
        """Read it by intake: all calls that it asks for, or a refusal and none."""
        if self.chunks is not None:
            return read_stream(API, self.chunks, _OPTIONS)
        return read_answer(API, self.body, _OPTIONS)

    def message(self) -> dict[str, Any]:
        """Return what the model said as a message for its next request, with its calls as it wrote them."""
        if self.body is not None:
            said: dict[str, Any] = self.body["choices"][0]["message"]
            return said
        calls = [
            {"id": each.call_id, "type": "function", "function": {"name": each.name, "arguments": each.raw}}
            for each in self.understood().actions
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}


def ask(task: str, turn: int) -> Answer:
    """Return the recorded answer of a turn, from 1; LookupError where none was recorded."""
    answers = msgspec.json.decode((_FOLDER / f"{task}.json").read_bytes(), type=list[Answer])
    if turn > len(answers):
        raise LookupError(f"of task {task} no answer {turn} was recorded")
    return answers[turn - 1]
