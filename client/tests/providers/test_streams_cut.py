"""Streams cut at every tenth byte: nothing raises, and how far each came is read from its last words."""

import base64
import json
from collections.abc import Callable, Iterator

import pytest

from client.tests.providers import recorded
from client.tests.providers.recorded import BINARY, Recorded
from client.tests.streams.test_formats import ERRORS
from custody_client.streams import Assembler

STREAMS = [answer for answer in recorded.answers() if answer.streamed]
EACH = pytest.mark.parametrize("answer", STREAMS, ids=lambda answer: f"{answer.api}-{answer.id}")
STEP = 10
Events = Iterator[tuple[int, bytes]]


def events(answer: Recorded) -> Events:
    """Each event's data, and how many bytes of the stream it takes to have it: read by other means than ours."""
    if answer.content_type == BINARY:
        yield from _frames(answer.data)
        return
    end = 0
    for line in answer.data.splitlines(keepends=True):
        end += len(line)
        if line.startswith(b"data:"):
            data = line.removeprefix(b"data:").strip()
            yield end - len(line) + len(line.rstrip()), data


def _frames(data: bytes) -> Events:
    at = 0
    while at < len(data):
        length, headers = int.from_bytes(data[at : at + 4]), int.from_bytes(data[at + 4 : at + 8])
        head, payload = data[at + 12 : at + 12 + headers], data[at + 12 + headers : at + length - 4]
        inner = json.loads(payload).get("bytes")
        kind = head.partition(b":event-type\x07")[2]
        name = kind[2 : 2 + int.from_bytes(kind[:2])]
        yield at + length, base64.b64decode(inner) if inner else b'{"%s":%s}' % (name, payload)
        at += length


class Progress:
    """What each wire format says of the end, told from one event after the other."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._finished: set[int] = set()
        self.terminal = False

    def take(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.terminal = True
            return
        event = json.loads(data)
        for choice in [*event.get("choices", []), *event.get("candidates", [])]:
            self._open.add(choice.get("index", 0))
            if choice.get("finish_reason") or choice.get("finishReason"):
                self._finished.add(choice.get("index", 0))
        if "candidates" in event:
            self.terminal = self._open == self._finished
        self._take_typed(event)

    def _take_typed(self, event: dict[str, object]) -> None:
        delta = event.get("delta")
        if event.get("type") == "message_delta" and isinstance(delta, dict) and delta.get("stop_reason"):
            self._open = self._finished = {0}
        if event.get("type") in {"message_stop", "response.completed"} or "messageStop" in event:
            self.terminal = True
        if event.get("completionReason"):
            self.terminal = True

    @property
    def state(self) -> str:
        if self.terminal:
            return "completed"
        return "finished-no-terminal" if self._open and self._open == self._finished else "interrupted"


def told(answer: Recorded) -> Callable[[int], str]:
    """Return what tells the state after so many bytes; to be asked in their order."""
    progress, coming = Progress(), events(answer)
    following = next(coming, None)

    def state(count: int) -> str:
        nonlocal following
        while following is not None and following[0] <= count:
            progress.take(following[1])
            following = next(coming, None)
        return progress.state

    return state


@EACH
def test_cut_at_every_tenth_byte_each_stream_is_as_far_as_it_came(answer):
    made, expected = Assembler(answer.api), told(answer)
    seen = set()
    for at in range(0, len(answer.data), STEP):
        assert made.state == expected(at), at
        seen.add(made.state)
        made.feed(answer.data[at : at + STEP])
    assert made.state == expected(len(answer.data)) == "completed"
    assert "interrupted" in seen
    assert not [note for note in made.output().notes if note.startswith("assembly-failed")]


@EACH
def test_a_stream_that_is_cut_off_encodes_and_says_the_same_as_bit_by_bit(answer):
    """At a hundred places: whole outputs cost more than states."""
    made = Assembler(answer.api)
    size = max(STEP, len(answer.data) // 100)
    for at in range(0, len(answer.data), size):
        made.feed(answer.data[at : at + size])
        cut = Assembler(answer.api)
        cut.feed(answer.data[: at + size])
        assert cut.encode() == made.encode()


@EACH
def test_an_error_within_stays_one(answer):
    ends = [end for end, _ in events(answer)]
    for at in {0, len(ends) // 2, len(ends) - 1}:
        made = Assembler(answer.api)
        made.feed(answer.data[: ends[at]] + (b"" if answer.content_type == BINARY else b"\n\n"))
        made.feed(ERRORS[answer.api])
        assert made.state == "error", at
        made.feed(answer.data[ends[at] :])
        made.cancelled()
        assert made.state == "error", at
        assert made.completeness == "interrupted"
