"""Declaring runs, over HTTP as a runtime does."""

import asyncio
from collections.abc import Sequence

import httpx

from bench.stack import Process, Store
from bench.wire import Run

_AT_ONCE = 8


async def declare(store: Store, api: Process, count: int, prefix: str) -> list[Run]:
    """Declare runs, in turn over the scopes."""
    gate = asyncio.Semaphore(_AT_ONCE)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{api.port}", timeout=30) as http:

        async def one(at: int) -> Run:
            key = store.runtimes[at % len(store.runtimes)]
            name = f"{prefix}-{at:05}"
            async with gate:
                answer = await http.put(
                    f"/v1/runs/{name}", json={}, headers={"Authorization": f"Bearer {key}"}
                )
            answer.raise_for_status()
            return Run(name, key, answer.json()["ticket"])

        return list(await asyncio.gather(*(one(at) for at in range(count))))


def in_turn(runs: Sequence[Run], count: int) -> list[Run]:
    """Return `count` turns, going round the runs."""
    return [runs[at % len(runs)] for at in range(count)]
