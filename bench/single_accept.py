"""`single_accept`: one part a request at 64 connections, against a handler that reads the same body and returns.

No writer runs meanwhile: what is compared is what the api adds to a request. What was accepted is written between rounds.
"""

from typing import Final

from bench import rivals
from bench.figures import Figure, alternate
from bench.load import Job, drive
from bench.runs import declare, in_turn
from bench.setting import Setting
from bench.wire import put_part, write_requests

CONNECTIONS: Final = 64
ROUNDS: Final = 5
# Within what a scope may have waiting (4,096), and its runs (32 each).
PARTS: Final = 3_000
RUNS: Final = 128


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of accepted parts a second to answers a second of the bare handler."""
    store = await setting.store()
    rounds = setting.rounds(ROUNDS)
    async with store.api() as api, store.stack.served(f"{rivals.__name__}:create_bare", {}) as bare:
        runs = await declare(store, api, RUNS, "single")

        def job(port: int, name: str) -> Job:
            contents = setting.contents.some(PARTS)
            requests = (put_part(run, body) for run, body in zip(in_turn(runs, PARTS), contents, strict=True))
            return Job(port, str(write_requests(setting.file(name), requests)), CONNECTIONS)

        async def ours(_: int) -> float:
            sent = await drive(job(api.port, "single"))
            await store.drain()
            return sent.rate(202)

        async def rival(_: int) -> float:
            return (await drive(job(bare.port, "bare"))).rate(202)

        await rival(-1)
        found = await alternate(rounds, ours, rival)
    return [Figure("single_accept", found.ratio, found.told("parts/s", "bare handler"))]
