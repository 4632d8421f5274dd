"""`page_flat`: for every offered filter set, the time of a metadata page at 1,000,000 parts against that at 10,000.

Pages begin at random runs and times, so that what is measured is not one page that rests in every cache.
"""

import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final
from urllib.parse import urlencode

import asyncpg

from bench.figures import Figure, number
from bench.load import Job, Sent, drive
from bench.seeds import RUNS_A_LABEL, seed_parts
from bench.setting import Setting
from bench.wire import get, write_requests
from store import clock
from store.tables.pages import OFFERED

MANY: Final = 1_000_000
FEW: Final = 10_000
PAGES: Final = 30
ROUNDS: Final = 5

_DAYS: Final = 9


@dataclass(frozen=True, slots=True)
class _Library:
    """A store with so many parts, and how to ask it."""

    port: int
    key: str
    runs: int


async def measure(setting: Setting) -> list[Figure]:
    """Return the worst ratio of all sets."""
    async with AsyncExitStack() as exits:
        many = await _library(setting, exits, MANY)
        few = await _library(setting, exits, FEW)
        times: dict[str, list[float]] = {}
        for at in range(setting.rounds(ROUNDS)):
            for named, filters in _sets():
                first, second = (many, few) if at % 2 == 0 else (few, many)
                found = {
                    side.port: await _median_ms(setting, side, filters, seed=at) for side in (first, second)
                }
                times.setdefault(named, []).append(found[many.port] / found[few.port])
                times.setdefault(f"{named} ms", []).append(found[many.port])
    ratios = {name: statistics.median(each) for name, each in times.items() if not name.endswith(" ms")}
    worst = max(ratios, key=lambda name: ratios[name])
    told = (
        f"worst of {len(ratios)}: {worst}, {number(statistics.median(times[f'{worst} ms']))} ms a page of 50 "
        f"at {MANY} parts; the median set: {number(statistics.median(ratios.values()))}"
    )
    return [Figure("page_flat", ratios[worst], told)]


def _sets() -> Sequence[tuple[str, frozenset[str]]]:
    return [("+".join(sorted(each.filters)) or "none", each.filters) for each in OFFERED]


async def _library(setting: Setting, exits: AsyncExitStack, parts: int) -> _Library:
    store = await exits.enter_async_context(setting.stack.store())
    connection = await asyncpg.connect(store.owner_url)
    runs = await seed_parts(connection, store.scopes[0].scope_id, parts)
    await connection.close()
    api = await exits.enter_async_context(store.api())
    return _Library(api.port, store.reviewers[0], runs)


async def _median_ms(setting: Setting, library: _Library, filters: frozenset[str], seed: int) -> float:
    """Ask for pages one after the other; return the median of their times."""
    random = Random(seed)
    requests = [get(f"/v1/parts?{_query(library, filters, random)}", library.key) for _ in range(PAGES)]
    file = write_requests(setting.file("pages"), requests)
    sent: Sent = await drive(Job(library.port, str(file), 1, marks=True))
    sent.rate(200)
    return statistics.median((answered - asked) * 1000 for asked, answered in sent.marks)


def _query(library: _Library, filters: frozenset[str], random: Random) -> str:
    run = random.randrange(library.runs)
    said = {
        "run": f"run-{run}",
        "exchange": f"call-{random.randrange(64)}",
        "attempt": "physical-1",
        "kind": random.choice(("logical-request", "observable-output")),
        "label": f"batch={run // RUNS_A_LABEL}",
    }
    query = {name: said[name] for name in filters}
    if "run" not in filters and "label" not in filters:
        ago = timedelta(days=1 + random.random() * (_DAYS - 1))
        query["to"] = _text(clock.utc_now() - ago)
    return urlencode(query | {"order": random.choice(("newest", "oldest")), "limit": "50"})


def _text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()
