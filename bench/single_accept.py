"""`single_accept`: one part a request at 64 connections, against a handler that reads the same body and returns.

No writer runs meanwhile: what is compared is what the api adds to a request. What was accepted is written in between.
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
# A run for each connection; 31 parts of each are within what it may have waiting (32).
PARTS: Final = 31 * CONNECTIONS


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of accepted parts a second to answers a second of the bare handler."""
    store = await setting.store()
    rounds = setting.rounds(ROUNDS)
    async with store.api() as api, store.stack.served(f"{rivals.__name__}:create_bare", {}) as bare:

        async def sent_to(port: int, name: str) -> float:
            runs = in_turn(await declare(store, api, CONNECTIONS, name), PARTS)
            requests = map(put_part, runs, setting.contents.some(PARTS))
            file = write_requests(setting.file(name), requests)
            return (await drive(Job(port, str(file), CONNECTIONS))).rate(202)

        async def ours(at: int) -> float:
            rate = await sent_to(api.port, f"single-{at}")
            await store.drain()
            return rate

        async def rival(at: int) -> float:
            return await sent_to(bare.port, f"bare-{at + 1}")

        await rival(-1)
        found = await alternate(rounds, ours, rival)
    return [Figure("single_accept", found.ratio, found.told("parts/s", "bare handler"))]
