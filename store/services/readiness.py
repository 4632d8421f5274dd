"""Whether this process can work now, and what a metrics collector sees of the whole. Each question has a deadline."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from store.db import Database
from store.errors import Unavailable
from store.keyring import Keyring
from store.migrate import schema_faults
from store.queue import Depth, Queue
from store.services.overview import Overview
from store.tables import buckets, leases
from store.tables.buckets import Bucket
from store.tables.completeness import Day
from store.tables.leases import LeaseRow

DEADLINE_S: Final = 2.0
CANARY: Final = "canary"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is missing (nothing: ready), and how old the last canary that came back is."""

    missing: Sequence[str]
    canary_age_s: float | None


@dataclass(slots=True)
class Gauges:
    """What could be asked; what could not is named in `unanswered`."""

    depths: Sequence[Depth] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    duties: Sequence[LeaseRow] = ()
    expiry_lag_s: float | None = None
    recent: Sequence[Day] = ()
    unanswered: list[str] = field(default_factory=list)


async def readiness(database: Database, queue: Queue, keyring: Keyring) -> Readiness:
    """Ask Postgres, Redis and the key directory whether they are as they must be."""
    (postgres, canary_age_s), redis = await asyncio.gather(_postgres(database, keyring), _redis(queue))
    return Readiness([*postgres, *redis], canary_age_s)


async def gauges(database: Database, queue: Queue, overview: Overview) -> Gauges:
    """Gather what a collector wants to see; an outage shows as what could not be answered."""
    found = Gauges()
    await asyncio.gather(
        _ask_queue(found, queue), _ask_database(found, database), _ask_overview(found, overview)
    )
    return found


async def _postgres(database: Database, keyring: Keyring) -> tuple[list[str], float | None]:
    try:
        async with asyncio.timeout(DEADLINE_S), database.connection() as connection:
            faults = await schema_faults(connection)
            if faults:
                return faults, None
            canary_age_s = _canary_age_s(await leases.all_leases(connection))
            bucket = await buckets.next_to_expire(connection)
    except (Unavailable, TimeoutError):
        return ["Postgres does not answer"], None
    return [] if bucket is None else await _keys(keyring, bucket), canary_age_s


async def _keys(keyring: Keyring, bucket: Bucket) -> list[str]:
    """Look for the key of one live bucket: where there is none, the directory is another store's or not mounted."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            if await asyncio.to_thread(keyring.has_bucket_key, bucket.scope_id, bucket.bucket_id):
                return []
    except (Unavailable, TimeoutError):
        pass
    return ["the key directory has no key of a live bucket: is it this store's, and mounted?"]


async def _redis(queue: Queue) -> list[str]:
    try:
        async with asyncio.timeout(DEADLINE_S):
            return await queue.check()
    except (Unavailable, TimeoutError):
        return ["Redis does not answer"]


async def _ask_queue(found: Gauges, queue: Queue) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            found.depths = await queue.depth()
            found.outcomes = await queue.outcomes()
    except (Unavailable, TimeoutError):
        found.unanswered.append("queue")


async def _ask_database(found: Gauges, database: Database) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S), database.connection() as connection:
            found.duties = await leases.all_leases(connection)
            oldest = await buckets.oldest_undestroyed(connection)
            now = found.duties[0].now if found.duties else None
            found.expiry_lag_s = 0.0 if oldest is None or now is None else (now - oldest).total_seconds()
    except (Unavailable, TimeoutError):
        found.unanswered.append("database")


async def _ask_overview(found: Gauges, overview: Overview) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            found.recent = await overview.recent()
    except (Unavailable, TimeoutError):
        found.unanswered.append("completeness")


def _canary_age_s(rows: Sequence[LeaseRow]) -> float | None:
    ages = [
        (row.now - row.last_success).total_seconds()
        for row in rows
        if row.duty == CANARY and row.last_success
    ]
    return ages[0] if ages else None
