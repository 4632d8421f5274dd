"""Spans, partitions, buckets and their keys, made ahead so that no write ever waits for one.

Order: key, partition, row. A writer that finds the row finds everything; one that finds none leaves its part queued.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from policies.retention import span_of
from store import ids
from store.db import Database
from store.errors import ConfigFaults, Unavailable
from store.keyring import Keyring
from store.services.hold_buckets import ensure_hold_buckets, hold_buckets_due
from store.tables import buckets, spans
from store.tables.buckets import Bucket, MissingBucket
from store.tables.spans import Span

# How many spans there are beyond the longest retention: time for somebody to notice that the duty does not run.
SPARE_SPANS: Final = 7
# Every statement on bodies plans over all partitions; far more of them than this would cost each one dearly.
MOST_SPANS: Final = 2_000

_CHUNK: Final = 512
_PARTITIONS_A_TRANSACTION: Final = 16
# A key costs two or more fsyncs; side by side the file system settles many with one flush.
_KEYS_AT_ONCE: Final = 16
_LOCK_TRIES: Final = 50
_LOCK_PAUSE_S: Final = 0.2
_BUSY: Final = frozenset({"LockNotAvailableError", "DeadlockDetectedError"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Made:
    """What one run had to make."""

    partitions: int
    buckets: int


def longest_retention_s(span_s: int) -> int:
    """Return the longest retention that spans of this length can serve."""
    return (MOST_SPANS - SPARE_SPANS) * span_s


async def buckets_due(database: Database, *, span_s: int) -> bool:
    """Say cheaply whether some scope runs short of buckets: it is new, or retentions grew, or time passed."""
    async with database.connection() as connection:
        # Half of the spare ones may be used up before it is worth a run of its own.
        short = await buckets.short_of_buckets(connection, SPARE_SPANS // 2 * span_s)
    return short or await hold_buckets_due(database)


async def ensure_buckets(database: Database, keyring: Keyring, *, span_s: int) -> Made:
    """Make what is missing for every scope and every span from now to the longest retention plus seven spans.

    `database` acts as the duties. Raises ConfigFaults where the settings ask for more spans than are sensible.
    """
    async with database.connection() as connection:
        now = await spans.database_now(connection)
        longest_s = await buckets.longest_retention_s(connection)
        existing = await spans.attached(connection)
    if longest_s is None:
        return Made(0, 0)
    await ensure_hold_buckets(database, keyring)
    wanted = planned_spans(now, longest_s, span_s, existing)
    have = {span.span_start for span in existing if not span.leaving}
    lacking = [span for span in wanted if span.span_start not in have]
    return Made(len(lacking), await _make_buckets(database, keyring, wanted, lacking))


async def _make_buckets(
    database: Database, keyring: Keyring, wanted: Sequence[Span], lacking: Sequence[Span]
) -> int:
    made, full = 0, True
    while full:
        missing = await _missing(database, wanted)
        fresh = [_fresh(each) for each in missing]
        await _make_keys(keyring, fresh)
        await _make_partitions(database, lacking)
        lacking = []
        made += await _insert(database, keyring, fresh)
        full = len(missing) == _CHUNK
    return made


def planned_spans(now: datetime, longest_s: int, span_s: int, existing: Sequence[Span]) -> list[Span]:
    """Tile the time from now to the longest retention plus the spare spans.

    Spans that exist stay as they are, whatever length is set today; new ones are aligned to the epoch and cut where
    they would overlap one that exists.
    """
    if longest_s > longest_retention_s(span_s):
        fault = (
            f"a longest retention of {longest_s} s in spans of {span_s} s needs more than {MOST_SPANS} spans: "
            "make the bucket span longer or the retentions shorter"
        )
        raise ConfigFaults([fault])
    until = now + timedelta(seconds=longest_s + SPARE_SPANS * span_s)
    taken = sorted(existing, key=_start)
    found, at = [], now
    while at <= until:
        span = _span_at(at, span_s, taken)
        found.append(span)
        at = span.span_end
    return found


def _span_at(instant: datetime, span_s: int, taken: Sequence[Span]) -> Span:
    after = bisect_right(taken, instant, key=_start)
    start, end = span_of(instant, span_s)
    if after > 0:
        before = taken[after - 1]
        if instant < before.span_end:
            return before
        start = max(start, before.span_end)
    if after < len(taken):
        end = min(end, taken[after].span_start)
    return Span(start, end)


def _start(span: Span) -> datetime:
    return span.span_start


async def _missing(database: Database, wanted: Sequence[Span]) -> list[MissingBucket]:
    async with database.connection() as connection:
        pairs = [(span.span_start, span.span_end) for span in wanted]
        return await buckets.missing(connection, pairs, _CHUNK)


def _fresh(missing: MissingBucket) -> Bucket:
    return Bucket(missing.scope_id, ids.new_bucket_id(), missing.span_start, missing.span_end, "live")


async def _make_keys(keyring: Keyring, fresh: Sequence[Bucket]) -> None:
    gate = asyncio.Semaphore(_KEYS_AT_ONCE)

    async def make(bucket: Bucket) -> None:
        async with gate:
            await asyncio.to_thread(keyring.create_bucket_key, bucket.scope_id, bucket.bucket_id)

    await asyncio.gather(*(make(bucket) for bucket in fresh))


async def _make_partitions(database: Database, lacking: Sequence[Span]) -> None:
    for first in range(0, len(lacking), _PARTITIONS_A_TRANSACTION):
        batch = lacking[first : first + _PARTITIONS_A_TRANSACTION]
        await when_unlocked(partial(_make_some, database, batch))


async def _make_some(database: Database, batch: Sequence[Span]) -> None:
    async with database.transaction() as connection:
        await spans.wait_shortly(connection)
        for span in batch:
            await spans.create(connection, span)


async def _insert(database: Database, keyring: Keyring, fresh: Sequence[Bucket]) -> int:
    async with database.transaction() as connection:
        inserted = await buckets.insert(connection, fresh)
    # Somebody else made the row meanwhile: our key was never used and opens nothing.
    for bucket in fresh:
        if bucket.bucket_id not in inserted:
            keyring.destroy_bucket_key(bucket.scope_id, bucket.bucket_id)
    return len(inserted)


async def when_unlocked(act: Callable[[], Awaitable[T]]) -> T:
    """Try again while somebody else holds the lock that `act` needs; each try waits 200 ms for it at most.

    Who waits for a lock on a table makes everybody behind it wait too: hence short waits, and many.
    """
    for _ in range(_LOCK_TRIES - 1):
        try:
            return await act()
        except Unavailable as fault:
            if fault.cause not in _BUSY:
                raise
        await asyncio.sleep(_LOCK_PAUSE_S)
    return await act()
