"""Post every call of a corpus file: a request and an answer each, exact bytes, paced by receipts."""

import asyncio
import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from demo.agent import OUTPUT, REQUEST, Story
from demo.api import Api, Part, Run

# A run holds 128 parts and 16 MiB by default; forty calls of the corpus stay well within both.
_CALLS_A_RUN = 40
# Within what one run may have waiting: 32 parts and 4 MiB.
_PARTS_A_FLUSH = 16
_BYTES_A_FLUSH = 2 * 1024 * 1024
_PART_BYTES = 256 * 1024
_RUNS_AT_ONCE = 4


def calls(path: Path) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield (id, request bytes, answer bytes) of each line; bytes exactly as they were."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            call = json.loads(line)
            yield call["id"], _bytes(call["request"]), _bytes(call["response"])


async def post(runtime: Api, path: Path) -> Story:
    """Post the whole file in runs of forty calls, four runs at a time."""
    story = Story()
    gate = asyncio.Semaphore(_RUNS_AT_ONCE)

    async def one(number: int, some: Sequence[tuple[str, bytes, bytes]]) -> None:
        async with gate:
            await _post_run(await _declared(story, runtime, number), some)

    every = list(calls(path))
    await asyncio.gather(
        *(
            one(number, every[start : start + _CALLS_A_RUN])
            for number, start in enumerate(range(0, len(every), _CALLS_A_RUN))
        )
    )
    story.tell(f"{len(every)} real calls", f"{len(story.parts())} parts posted in {len(story.runs)} runs")
    return story


async def _declared(story: Story, runtime: Api, number: int) -> Run:
    run = await Run.declare(runtime, f"corpus-{number:03}", labels={"from": "corpus"})
    story.runs.append(run)
    return run


async def _post_run(run: Run, some: Sequence[tuple[str, bytes, bytes]]) -> None:
    parts = [
        run.part(call, "physical-1", kind, content)
        for call, request, answer in some
        for kind, content in ((REQUEST, request), (OUTPUT, answer))
    ]
    # What is too large goes by itself: its declared size is refused before a byte of it is sent.
    for part in parts:
        if len(part.content) > _PART_BYTES:
            await run.put(part)
    for flush in _flushes([part for part in parts if len(part.content) <= _PART_BYTES]):
        await run.flush(flush)
        await _until_taken(run, flush)
    await run.close()


async def _until_taken(run: Run, flush: list[Part]) -> None:
    """Wait for the receipts; a part that found no room is posted again once there is some."""
    await run.settled(flush)
    while full := [part for part in flush if part.receipt.get("reason") == "capacity_exceeded"]:
        await asyncio.sleep(0.05)
        for part in full:
            await run.put(part)
        await run.settled(full)


def _flushes(parts: list[Part]) -> Iterator[list[Part]]:
    flush: list[Part] = []
    size = 0
    for part in parts:
        if flush and (len(flush) == _PARTS_A_FLUSH or size + len(part.content) > _BYTES_A_FLUSH):
            yield flush
            flush, size = [], 0
        flush.append(part)
        size += len(part.content)
    if flush:
        yield flush


def _bytes(body: dict[str, Any]) -> bytes:
    if "base64" in body:
        return base64.b64decode(body["base64"])
    text: str = body["text"]
    return text.encode()
