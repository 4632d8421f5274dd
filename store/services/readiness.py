"""Whether this process can work now, and what a metrics collector sees of the whole. Each question has a deadline."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from store.db import Database
from store.errors import Unavailable
from store.keyring import Keyring
from store.log_tree.facts import facts
from store.migrate import schema_faults
from store.queue import Depth, Queue
from store.services.overview import Overview
from store.tables import buckets, held_bodies, holds, leases, log, log_reads
from store.tables.buckets import BucketKey
from store.tables.completeness import Day
from store.tables.leases import LeaseRow
from store.tables.log import Backlog
from store.tables.log_reads import LogGauges

DEADLINE_S: Final = 2.0
CANARY: Final = "canary"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is missing (nothing: ready), how old the last canary that came back is, and why reads are closed, if so.

    While they are closed a process is ready all the same: captures go on.
    """

    missing: Sequence[str]
    canary_age_s: float | None
    reads_closed: str | None = None


@dataclass(slots=True)
class Gauges:
    """What could be asked; what could not is named in `unanswered`."""

    depths: Sequence[Depth] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    duties: Sequence[LeaseRow] = ()
    expiry_lag_s: float | None = None
    log_backlog: Backlog | None = None
    recent: Sequence[Day] = ()
    # By scope: holds that keep something, and parts that only a hold keeps, since their bucket is gone.
    holds: Mapping[str, int] = field(default_factory=dict)
    held_parts: Mapping[str, int] = field(default_factory=dict)
    log: LogGauges | None = None
    unanswered: list[str] = field(default_factory=list)


async def readiness(database: Database, queue: Queue, keyring: Keyring, reads_lease: timedelta) -> Readiness:
    """Ask Postgres, Redis and the key directory whether they are as they must be."""
    postgres, redis = await asyncio.gather(_postgres(database, keyring, reads_lease), _redis(queue))
    return replace(postgres, missing=[*postgres.missing, *redis])


async def gauges(database: Database, queue: Queue, overview: Overview, reads_lease: timedelta) -> Gauges:
    """Gather what a collector wants to see; an outage shows as what could not be answered."""
    found = Gauges()
    await asyncio.gather(
        _ask_queue(found, queue),
        _ask_database(found, database, reads_lease),
        _ask_overview(found, overview),
    )
    return found


def backlog_age_s(backlog: Backlog) -> float:
    """Return how long ago the leaf that waits longest for the log was made; what is no leaf tells no time."""
    if backlog.oldest is None:
        return 0.0
    try:
        made_at = facts(backlog.oldest).t
    except ValueError:
        return 0.0
    return max(0.0, backlog.now.timestamp() - made_at)


async def _postgres(database: Database, keyring: Keyring, reads_lease: timedelta) -> Readiness:
    try:
        async with asyncio.timeout(DEADLINE_S), database.connection() as connection:
            faults = await schema_faults(connection)
            if faults:
                return Readiness(faults, None)
            canary_age_s = _canary_age_s(await leases.all_leases(connection))
            key = await buckets.next_to_expire(connection)
            closed = await log_reads.closed(connection, reads_lease.total_seconds())
    except (Unavailable, TimeoutError):
        return Readiness(["Postgres does not answer"], None)
    missing = [] if key is None else await _keys(keyring, key)
    return Readiness(missing, canary_age_s, closed)


async def _keys(keyring: Keyring, key: BucketKey) -> list[str]:
    """Look for the key of one live bucket: where there is none, the directory is another store's or not mounted."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            if await asyncio.to_thread(keyring.has_bucket_key, *key):
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


async def _ask_database(found: Gauges, database: Database, reads_lease: timedelta) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S), database.connection() as connection:
            found.log = await log_reads.gauges(connection, reads_lease.total_seconds())
            found.duties = await leases.all_leases(connection)
            found.log_backlog = await log.backlog(connection)
            oldest = await buckets.oldest_undestroyed(connection)
            now = found.duties[0].now if found.duties else None
            found.expiry_lag_s = 0.0 if oldest is None or now is None else (now - oldest).total_seconds()
            # Last: where very much is held, counting it takes longer than there is time, and alarms hang on the rest.
            found.holds = await holds.live_counts(connection)
            found.held_parts = await held_bodies.counts(connection)
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
