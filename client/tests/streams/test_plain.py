"""SDKs' objects as they came over the wire: no key that was not sent, names as there, bytes as base64."""

import json
from collections import UserDict
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from client.tests.streams.wire import text
from custody_client.streams import Assembler
from custody_client.streams.plain import plain


class Word(str, Enum):  # noqa: UP042 -- as google-genai makes its own
    STOP = "STOP"


@dataclass
class Field:
    alias: str | None = None
    serialization_alias: str | None = None


class Model:
    """What pydantic's models are to a reader, without pydantic."""

    __slots__ = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__")
    __pydantic_fields__: ClassVar = {"finish_reason": Field(alias="finishReason"), "text": Field()}

    def __init__(self, sent: set[str], extra: dict[str, Any] | None, **values: Any) -> None:
        self.__dict__.update(values)
        self.__pydantic_fields_set__ = sent
        self.__pydantic_extra__ = extra


class Dumping:
    def model_dump(self) -> dict[str, int]:
        return {"a": 1}


def test_what_was_not_sent_is_not_there_and_names_are_those_of_the_wire():
    inner = Model({"text"}, {"new": b"\xff"}, text=None, finish_reason=None)
    sent = {"finish_reason", "text", "sdk_http_response"}
    made = Model(sent, None, finish_reason=Word.STOP, text=[inner], sdk_http_response={"headers": {"a": "b"}})
    assert plain(made) == {"finishReason": "STOP", "text": [{"text": None, "new": "/w=="}]}


def test_mappings_tuples_and_what_dumps_itself():
    assert plain(UserDict(a=(1, Dumping()))) == {"a": [1, {"a": 1}]}
    unknown = object()
    assert plain(unknown) is unknown


def test_what_changes_later_changes_nothing():
    delta: dict[str, Any] = {"content": "a"}
    made = Assembler("chat.completions")
    event = {"choices": [{"index": 0, "delta": delta}]}
    made.event(event)
    delta["content"] = "b"
    event.clear()
    assert text(made.output()) == "a"


def test_objects_that_nobody_knows_are_named_and_not_looked_into():
    class Secret:
        def __repr__(self) -> str:
            raise AssertionError("looked into")

    made = Assembler("chat.completions")
    made.event({"type": "of.tomorrow", "value": Secret()})
    made.event(Secret())
    kept = json.loads(made.encode())["unknown"]["kept"]
    assert [one["raw"] for one in kept] == ['{"type":"of.tomorrow","value":"<Secret>"}', '"<Secret>"']


def test_an_object_that_holds_itself_raises_nothing():
    loop: dict[str, Any] = {"choices": []}
    loop["self"] = loop
    made = Assembler("chat.completions")
    made.event(loop)
    assert made.output().notes == ["assembly-failed:RecursionError"]


def test_events_may_come_as_text_or_bytes():
    event = '{"choices":[{"index":0,"delta":{"content":"a"}}]}'
    made = Assembler("chat.completions")
    made.event(event)
    made.event(event.encode())
    made.event("[DONE]")
    assert text(made.output()) == "aa"
    assert made.state == "completed"
