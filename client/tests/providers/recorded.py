"""Answers to hold against providers' own programs: recorded ones where a file of them is named, else made ones."""

import base64
import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from client.tests.streams.made import ALL
from custody_client.streams import api_of

CORPUS = "CUSTODY_TEST_CORPUS"
EVENTS, BINARY = "text/event-stream", "application/vnd.amazon.eventstream"


@dataclass(frozen=True)
class Recorded:
    """The answer to one call: its bytes, and the wire format in which they are."""

    id: str
    api: str
    content_type: str
    status: int
    data: bytes

    @property
    def streamed(self) -> bool:
        return self.content_type in {EVENTS, BINARY}


def is_named() -> bool:
    return CORPUS in os.environ


def answers() -> list[Recorded]:
    """All answers of a wire format that is known; made ones if no file is named."""
    if not is_named():
        return list(_made())
    path = Path(os.environ[CORPUS])
    if not path.is_file():
        raise FileNotFoundError(f"{CORPUS} names {path}, which is no file of recorded calls")
    return list(_read(path))


def _made() -> Iterator[Recorded]:
    for stream in ALL.values():
        if stream.api == "ollama.chat":
            continue  # a program of its own, which nobody here asks
        kind = BINARY if stream.api.startswith("bedrock") else EVENTS
        yield Recorded(f"made-{stream.api}", stream.api, kind, 200, stream.data)


def _read(path: Path) -> Iterator[Recorded]:
    with gzip.open(path) as lines:
        for line in lines:
            call = json.loads(line)
            kind = call["content_type"].partition(";")[0]
            api = api_of(call["provider"], call["path"], kind)
            if api is not None:
                yield Recorded(call["id"], api, kind, call["status"], _bytes(call["response"]))


def _bytes(body: dict[str, str]) -> bytes:
    return body["text"].encode() if "text" in body else base64.b64decode(body["base64"])
