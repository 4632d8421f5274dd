"""`run_page`: time to the first byte of the console's page of a run of 10,000 parts, against that of one of 100."""

import statistics
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from bench.figures import Figure, alternate, number
from bench.load import Job, drive
from bench.seeds import seed_parts, seed_run
from bench.setting import Setting
from bench.wire import request, write_requests

LONG: Final = 10_000
SHORT: Final = 100
# What else is there, so that neither run is most of its tables.
OTHERS: Final = 100_000
PAGES: Final = 20
ROUNDS: Final = 9

_COOKIE: Final = "custody-session"


async def measure(setting: Setting) -> list[Figure]:
    """Return the ratio of the medians."""
    async with setting.stack.store() as store:
        connection = await asyncpg.connect(store.owner_url)
        await seed_parts(connection, store.scopes[0].scope_id, OTHERS)
        for parts in (LONG, SHORT):
            await seed_run(connection, store.scopes[0].scope_id, _run(parts), parts)
        await connection.close()
        token = await store.services.console_sessions.sign_in(store.reviewers[0])
        async with store.console() as console:

            def side(parts: int) -> Callable[[int], Awaitable[float]]:
                async def once(_: int) -> float:
                    return await _median_ms(setting, console.port, token, parts)

                return once

            long, short = side(LONG), side(SHORT)
            await long(-1)
            await short(-1)
            found = await alternate(setting.rounds(ROUNDS), long, short)
    told = (
        f"{number(statistics.median(found.ours))} ms to the first byte of the page of {LONG} parts, "
        f"{number(statistics.median(found.rival))} ms of {SHORT}; {len(found.ours)} rounds of {PAGES} in a row"
    )
    return [Figure("run_page", found.ratio, told)]


def _run(parts: int) -> str:
    return f"run-of-{parts}"


async def _median_ms(setting: Setting, port: int, token: str, parts: int) -> float:
    """Open the page some times in a row; return the median of the times to its first byte."""
    page = request("GET", f"/runs/{_run(parts)}", {"Cookie": f"{_COOKIE}={token}"})
    file = write_requests(setting.file("run-page"), [page] * PAGES)
    sent = await drive(Job(port, str(file), 1, marks=True, first_byte=True))
    sent.rate(200)
    return statistics.median((answered - asked) * 1000 for asked, answered in sent.marks)
