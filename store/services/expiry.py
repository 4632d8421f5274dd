"""Scheduled expiry: one act per bucket, whatever it holds.

Reads have refused by the clock already. Scope by scope what is held moves out, the bucket is marked and one `expire`
leaf queued; when every bucket of the span says expired its partition goes, once; then the keys, which makes it final in
every backup too. Rows of `parts` are not touched, but for held ones. A crash anywhere is continued by the next run.

A scope that has no place for what is held keeps its own bucket, and with it the partition. The others' keys are
destroyed all the same, later spans go on, and the run says in the end that it failed.

Time: nothing is destroyed while the database's clock is behind what was seen before, and a clock that is far ahead
finds its spans let go one by one, at most one a minute, with an alarm.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from store.commitments import leaf
from store.db import Database
from store.keyring import Keyring
from store.logging import logger
from store.queue import Queue, RunKey
from store.services.buckets import MOST_SPANS, when_unlocked
from store.services.duties import each_within
from store.services.hold_buckets import BATCH, NoPlace, move_some
from store.tables import bucket_keys, buckets, leases, log_queue, spans
from store.tables.buckets import Bucket, DueSpan
from store.tables.spans import Span

DUTY: Final = "expiry"

# A clock that is set in small steps is not one that jumps.
_BACK: Final = timedelta(seconds=1)
_PACE_S: Final = 60.0
_RUNS: Final = 1_000
# What is not moved in this time is moved by the next run: a bucket with very much that is held waits for it.
_BUDGET_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Went:
    """How many buckets of a span went, and what kept another, if anything did."""

    buckets: int
    kept_by: NoPlace | None


@dataclass(frozen=True, slots=True)
class Expiry:
    """What scheduled expiry works with; `database` acts as the duties."""

    database: Database
    keyring: Keyring
    queue: Queue
    span_s: int

    async def due(self) -> bool:
        """Say whether the end of some span has come."""
        async with self.database.connection() as connection:
            return bool(await buckets.due_spans(connection, 1))

    async def run(self) -> Mapping[str, int]:
        """Let the oldest span that is due and can go do so, if the clock can be trusted.

        NoPlace where some bucket had to stay, once all the others went.
        """
        async with self.database.transaction() as connection:
            seen = await leases.see(connection, DUTY)
            due = await buckets.due_spans(connection, MOST_SPANS)
        if seen.before is not None and seen.now < seen.before - _BACK:
            behind = (seen.before - seen.now).total_seconds()
            logger().error("clock_went_back", duty=DUTY, lag_s=round(behind))
            return {"clock_back": 1}
        if not due:
            return {"expired": 0, "leftovers": await self._drop_leftovers(seen.now)}
        if len(due) > 1:
            logger().error(
                "expiry_behind", duty=DUTY, lag_s=round((seen.now - due[0].span_end).total_seconds())
            )
        return await self._let_some_go(due, seen.now)

    async def _let_some_go(self, due: Sequence[DueSpan], now: datetime) -> Mapping[str, int]:
        """Go on with what was begun, and begin one span; raise in the end what kept some bucket."""
        went: list[_Went] = []
        may_begin = await self._may_begin(now)
        for span in due:
            if not span.begun and not may_begin:
                continue
            went.append(await self._let_go(span))
            if not span.begun:
                # One of which nothing could go takes no other's turn.
                may_begin = went[-1].buckets == 0 and went[-1].kept_by is not None
        for each in went:
            if each.kept_by is not None:
                raise each.kept_by
        return {"expired": sum(each.buckets for each in went)} if went else {"waiting": 1}

    async def _may_begin(self, now: datetime) -> bool:
        """Say whether a span may begin: one a minute (or half a span, where spans are shorter)."""
        least = timedelta(seconds=min(_PACE_S, self.span_s / 2))
        async with self.database.connection() as connection:
            last = await leases.paced_at(connection, DUTY)
        return last is None or not timedelta(0) <= now - last < least

    async def _let_go(self, span: DueSpan) -> _Went:
        async with self.database.connection() as connection:
            rows = await buckets.of_span(connection, span.span_start)
        ready, kept_by = await self._cleared([bucket for bucket in rows if bucket.state == "live"])
        if ready and not span.begun:
            async with self.database.connection() as connection:
                await leases.pace(connection, DUTY)
        for bucket in ready:
            await when_unlocked(partial(self._expire, bucket))
        return _Went(await self._destroy(span.span_start, rows), kept_by)

    async def _cleared(self, live: Sequence[Bucket]) -> tuple[list[Bucket], NoPlace | None]:
        """Move out what is held; return the buckets that can expire now, and what keeps one if something does."""
        ready, kept_by = [], None
        for bucket in live:
            try:
                await each_within(_BUDGET_S, partial(self._move, bucket))
                # A few more may have come; a great many are left for the next run.
                if await self._move(bucket) < BATCH:
                    ready.append(bucket)
            except NoPlace as fault:
                kept_by = fault
        return ready, kept_by

    async def _destroy(self, span_start: datetime, rows: Sequence[Bucket]) -> int:
        """Destroy what has expired; the partition only with the span's last bucket, the keys in any case."""
        async with self.database.connection() as connection:
            alive = await buckets.alive_in_span(connection, span_start)
            # From now on nobody begins to change a key of theirs.
            doomed = set(await bucket_keys.of_expired(connection, span_start))
        gone = [bucket for bucket in rows if (bucket.scope_id, bucket.bucket_id) in doomed]
        if not gone:
            return 0
        # What was sealed by an intake key that still lives would rest in the queue's file. Redis may be away or slow:
        # that keeps nobody from destroying, but they are not done before.
        rewriting = asyncio.create_task(self._leave_queue(gone))
        try:
            if not alive:
                await self._drop(span_start)
            await asyncio.to_thread(self.keyring.destroy_bucket_keys, doomed)
            await rewriting
        finally:
            rewriting.cancel()
            await asyncio.gather(rewriting, return_exceptions=True)
        await self._say_destroyed(gone)
        event = "buckets_expired" if alive else "span_expired"
        logger().info(event, duty=DUTY, span=span_start.isoformat(), count=len(gone))
        return len(gone)

    async def _leave_queue(self, rows: Sequence[Bucket]) -> None:
        """Drop from the queue what it knows of runs that are over, whose sums would tell sizes; then from its file.

        Runs that were closed are not there any more.
        """
        for bucket in rows:
            last = UUID(int=0)
            while True:
                async with self.database.connection() as connection:
                    over = await buckets.runs_over(connection, bucket, last, _RUNS)
                for _, run in over:
                    await self.queue.forget_run(RunKey(bucket.scope_id, run))
                if len(over) < _RUNS:
                    break
                last = over[-1][0]
        await self.queue.rewrite_file()

    async def _move(self, bucket: Bucket) -> int:
        """Move some of what is held out of the bucket, while others go on placing and releasing holds."""
        async with self.database.transaction() as connection:
            return await move_some(
                connection, self.keyring, bucket.scope_id, bucket.bucket_id, bucket.span_start
            )

    async def _expire(self, bucket: Bucket) -> None:
        """Move the rest, mark the bucket and queue its leaf: writers and whoever places a hold are kept out."""
        async with self.database.transaction() as connection:
            await spans.wait_shortly(connection)
            locked = await buckets.lock_alone(connection, bucket.scope_id, bucket.bucket_id)
            now = await spans.database_now(connection)
            if locked is None or locked.state != "live" or now < locked.span_end:
                return
            while await move_some(
                connection, self.keyring, locked.scope_id, locked.bucket_id, locked.span_start
            ):
                pass
            stored = await buckets.part_leaves(connection, locked)
            await buckets.mark_expired(connection, locked)
            entry = leaf("expire", t=now, b=bucket.bucket_id, n=stored)
            await log_queue.copy(connection, [(bucket.scope_id, entry)])

    async def _drop(self, span_start: datetime) -> None:
        await when_unlocked(partial(self._detach, span_start))
        async with self.database.connection() as connection:
            await spans.drop(connection, span_start)

    async def _detach(self, span_start: datetime) -> None:
        """Detach the partition if it still is one; an interrupted detaching is found as `leaving` and finished."""
        async with self.database.connection() as connection:
            found = [span for span in await spans.attached(connection) if span.span_start == span_start]
            await spans.wait_shortly(connection, local=False)
            for span in found:
                await spans.detach(connection, span)

    async def _say_destroyed(self, rows: Sequence[Bucket]) -> None:
        async with self.database.transaction() as connection:
            for bucket in rows:
                await buckets.mark_destroyed(connection, bucket)

    async def _drop_leftovers(self, now: datetime) -> int:
        """Drop past partitions that no bucket names any more: of spans in which there was no scope."""
        async with self.database.connection() as connection:
            past = [span for span in await spans.attached(connection) if span.span_end <= now]
            strays = await spans.stray(connection)
            unnamed = [span for span in past if not await buckets.of_span(connection, span.span_start)]
        for span_start in {*(_start(span) for span in unnamed), *strays}:
            await self._drop(span_start)
        return len(unnamed) + len(strays)


def _start(span: Span) -> datetime:
    return span.span_start
