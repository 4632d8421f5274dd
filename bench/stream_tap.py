"""`stream_tap`: what the tap and its assembler add to a chunk of a stream of 1,000, µs of the reader's processor time.

The stream comes out of memory, so that nothing but reading it is measured: by httpx alone, and by httpx tapped.
"""

import json
import statistics
import time
from collections.abc import Iterator
from typing import Final

import httpx

from bench.capturing import admitted, client, delivered
from bench.figures import Figure
from bench.setting import Setting
from custody_client import Custody
from custody_client.adapters.transports import tap

ROUNDS: Final = 21
CHUNKS: Final = 1_000
_URL: Final = "http://provider.invalid/v1/chat/completions"
_ASKED: Final = b'{"model":"large-3","stream":true,"messages":[{"role":"user","content":"Who was here?"}]}'


class Chunks(httpx.SyncByteStream):
    """A stream that is already there."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)


async def measure(setting: Setting) -> list[Figure]:
    """Return the median of the rounds' differences."""
    chunks = _chunks(setting.contents.one(8 * CHUNKS).decode("utf-8", "replace"))
    async with client(setting) as custody:
        rounds = [_round(custody, chunks, at) for at in range(setting.rounds(ROUNDS))]
    tapped, plain = zip(*rounds, strict=True)
    value = statistics.median(ours - alone for ours, alone in rounds)
    ours, alone = statistics.median(tapped), statistics.median(plain)
    told = f"a chunk {ours:.1f} µs tapped, {alone:.1f} alone; {len(rounds)} rounds"
    return [Figure("stream_tap", value, told)]


def _round(custody: Custody, chunks: list[bytes], at: int) -> tuple[float, float]:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Chunks(chunks))

    run = admitted(custody, f"tap-{at}")
    before = custody.counters().delivered
    with httpx.Client(transport=tap(httpx.MockTransport(answer), run=run)) as http:
        ours = _chunk_us(http, len(chunks))
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        alone = _chunk_us(http, len(chunks))
    # Request and output: had the tap not seen the stream, there would be nothing to measure.
    delivered(custody, before, 2)
    run.close()
    return ours, alone


def _chunk_us(http: httpx.Client, count: int) -> float:
    with http.stream("POST", _URL, content=_ASKED) as response:
        began = time.thread_time_ns()
        for _ in response.iter_bytes():
            pass
        return (time.thread_time_ns() - began) / count / 1000


def _chunks(text: str) -> list[bytes]:
    """Cut a text into the events of a stream of chat completions."""
    pieces = [text[at * 8 : at * 8 + 8] for at in range(CHUNKS - 3)]
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces)]
    said = [_event(delta, None) for delta in deltas]
    return [*said, _event({}, "stop"), b"data: [DONE]\n\n"]


def _event(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "large-3",
        "system_fingerprint": "fp_1",
        "choices": [choice],
    }
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"
