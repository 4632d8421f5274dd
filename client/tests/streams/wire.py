"""Streams made for tests, and what tests ask of outputs."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from custody_client.streams import Assembler, Limits, Output
from custody_client.streams.output import Text, ToolCall

DEVIATIONS = Path(__file__).parent / "deviations"
DONE = b"data: [DONE]\n\n"


def written(event: object) -> bytes:
    return event if isinstance(event, bytes) else json.dumps(event, separators=(",", ":")).encode()


def sse(*events: object, line: bytes = b"\n") -> bytes:
    return b"".join(b"data: " + written(event) + line + line for event in events)


def named(*events: dict[str, Any]) -> bytes:
    """Events as Anthropic and Responses send them: each with its type as a name."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), written(event)) for event in events)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if delta is not None:
        choice["delta"] = delta
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "model-a"}
    return {**head, "choices": [choice], **more}


def tools(*pieces: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return chunk({"tool_calls": list(pieces)}, finish)


def frame(kind: str, payload: object, message: str = "event") -> bytes:
    """A frame of the binary event stream, written by the format's description."""
    names = {":message-type": message, ":content-type": "application/json"}
    names[":event-type" if message == "event" else ":exception-type"] = kind
    headers = b"".join(_header(name, value) for name, value in names.items())
    body = written(payload)
    prelude = (16 + len(headers) + len(body)).to_bytes(4) + len(headers).to_bytes(4)
    whole = prelude + crc32(prelude).to_bytes(4) + headers + body
    return whole + crc32(whole).to_bytes(4)


def _header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2) + value.encode()


def deviation(name: str) -> bytes:
    """A stream of which one JSON event stands on each line of a file."""
    lines = (DEVIATIONS / f"{name}.jsonl").read_bytes().splitlines()
    return sse(*lines) + DONE


def assembler(api: str, *pieces: bytes, limits: Limits | None = None) -> Assembler:
    made = Assembler(api, limits=limits or Limits())
    for piece in pieces:
        made.feed(piece)
    return made


def output(api: str, *pieces: bytes, limits: Limits | None = None) -> Output:
    """What becomes of a stream; held against its own JSON on the way."""
    made = assembler(api, *pieces, limits=limits)
    given = made.output()
    again = msgspec.json.decode(made.encode(), type=Output)
    assert msgspec.json.encode(again) == made.encode()
    return given


def chat(*pieces: bytes) -> Output:
    return output("chat.completions", *pieces)


def text(given: Output, choice: int = 0) -> str:
    return "".join(item.text for item in given.choices[choice].items if isinstance(item, Text))


def calls(given: Output, origin: str = "structured") -> list[ToolCall]:
    found = [item for choice in given.choices for item in choice.items if isinstance(item, ToolCall)]
    return [call for call in found if call.origin == origin]


def brief(given: Output, origin: str = "structured") -> list[tuple[str | None, str | None, str]]:
    return [(call.id, call.name, call.arguments.raw) for call in calls(given, origin)]


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Cut bytes at these places."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[begin:end] for begin, end in pairwise(edges)]
