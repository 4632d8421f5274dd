"""What the benchmarks of the client share: admitted runs of a real service, and contents as a runtime holds them.

They measure processor time of the caller's thread: what a capture takes from the program that makes it. The client's
own thread works meanwhile, as it would.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from bench.content import Supply
from bench.setting import Setting
from custody_client import Custody, Run

SIZE: Final = 4096
# What one run may have waiting in the service (32), less a few.
A_RUN: Final = 24
_WAIT_S: Final = 2.0


class NotAsMeant(Exception):
    """What was measured is not what should be measured."""


def asked(contents: Supply, size: int = SIZE) -> dict[str, Any]:
    """Return what a runtime hands to its SDK: an object of messages whose JSON is about so large."""
    text = contents.one(size - 256).decode("utf-8", "replace").replace('"', "'").replace("\\", " ")
    step = max(1, len(text) // 6)
    said = [text[at : at + step] for at in range(0, len(text), step)]
    messages = [{"role": "user" if at % 2 else "assistant", "content": each} for at, each in enumerate(said)]
    return {"model": "large-3", "messages": messages, "temperature": 0.2, "max_tokens": 800}


@asynccontextmanager
async def client(setting: Setting) -> AsyncIterator[Custody]:
    """Serve the api, and make a client of it; what it delivered is written at the end."""
    store = await setting.store()
    async with store.api() as api:
        custody = Custody(f"http://127.0.0.1:{api.port}", store.runtimes[0])
        try:
            yield custody
        finally:
            custody.close()
            await store.drain()


def admitted(custody: Custody, name: str) -> Run:
    """Declare a run, and wait for its admission."""
    run = custody.run(name, wait=_WAIT_S)
    if not run.admits("logical-request"):
        raise NotAsMeant(f"{name} was not admitted: {custody.counters()}")
    return run


def delivered(custody: Custody, before: int, count: int) -> None:
    """Wait until that many parts more were delivered."""
    custody.flush(5.0)
    after = custody.counters()
    if after.delivered != before + count:
        raise NotAsMeant(f"{after.delivered - before} of {count} parts were delivered: {after}")


def thread_us(do: Callable[[Any], object], each: Sequence[Any]) -> float:
    """Return the processor time of this thread for one call, µs."""
    began = time.thread_time_ns()
    for item in each:
        do(item)
    return (time.thread_time_ns() - began) / len(each) / 1000
