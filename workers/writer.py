"""The writer: takes a batch from the queue, has it stored, and only then settles it.

Two lanes a shard, so that one batch is sealed while another commits. An outage settles nothing and loses nothing: the
batch is held and tried again. Several writers side by side share the streams; whatever one leaves, another takes over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from policies.scope_policy import MAX_PART_BYTES
from store.clock import monotonic
from store.config import Settings
from store.db import Database
from store.errors import Unavailable
from store.ids import new_id, secret
from store.keyring import Keyring
from store.logging import logger
from store.queue import Entry, Queue, Settlement
from store.services.persist import Persister
from store.services.write_batch import BatchWriter, Written
from workers.suspects import GRACE, Suspects

# How long what was begun may take once the writer is told to stop.
FINISH_S: Final = 10.0

# A transaction locks and reads anew whatever its parts have in common, so that under load larger ones cost less. They
# are only made of small parts: what is taken is held in memory several times over.
_MOST_BATCHES: Final = 4
_LARGE_BYTES: Final = 2 * 1024 * 1024

_LANES: Final = 2
_BLOCK_MS: Final = 1_000
_SHORTEST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0

Write = Callable[[Sequence[Entry]], Awaitable[Written]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is taken at once, when another writer takes an entry over, and after how many times it is a suspect.

    `grace` is after how long a suspect's writer is taken for dead.
    """

    batch: int
    reclaim_idle: timedelta
    max_deliveries: int
    grace: timedelta = GRACE

    @property
    def reclaim_every_s(self) -> float:
        """How often to look for what others have left."""
        return min(5.0, self.reclaim_idle.total_seconds() / 2)


class Pause:
    """Growing pauses between tries of what is away: jittered, so that writers do not come back all at once."""

    def __init__(self) -> None:
        self._next_s = _SHORTEST_PAUSE_S

    def reset(self) -> None:
        """Begin with short pauses again: something worked."""
        self._next_s = _SHORTEST_PAUSE_S

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait, at least half and at most the whole of the pause, or until told to stop."""
        share = 0.5 + secret(1)[0] / 510
        pause_s, self._next_s = self._next_s * share, min(self._next_s * 2, _LONGEST_PAUSE_S)
        await _stopped_within(stop, pause_s)


class Writer:
    """All lanes of one process."""

    def __init__(self, queue: Queue, batches: BatchWriter, pace: Pace) -> None:
        self._queue = queue
        self._batches = batches
        self._pace = pace

    @classmethod
    def of(cls, settings: Settings, database: Database, keyring: Keyring, queue: Queue) -> Self:
        """Put a writer together."""
        persister = Persister(database, keyring, most_bytes=MAX_PART_BYTES, most_facts=settings.run_facts)
        batches = BatchWriter(persister, max_deliveries=settings.max_deliveries)
        return cls(
            queue, batches, Pace(settings.writer_batch, settings.reclaim_idle, settings.max_deliveries)
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Write until told to stop, then finish what was begun, for at most ten seconds. The rest stays queued."""
        name = new_id().hex
        lanes = [
            asyncio.create_task(
                Lane(self._queue, self._batches, self._pace, shard, f"{name}.{lane}").run(stop)
            )
            for shard in self._queue.shards
            for lane in range(_LANES)
        ]
        stopping = asyncio.create_task(stop.wait())
        try:
            # A lane ends early only by a bug; then the process ends too, and is started again.
            await asyncio.wait([stopping, *lanes], return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            await asyncio.wait(lanes, timeout=FINISH_S)
        finally:
            await _end([stopping, *lanes])
        logger().info("writer_stopped", count=len(lanes))


class Lane:
    """One batch after the other, from one shard."""

    def __init__(self, queue: Queue, batches: BatchWriter, pace: Pace, shard: int, consumer: str) -> None:
        self._queue = queue
        self._batches = batches
        self._suspects = Suspects(queue, batches, shard, pace.grace)
        self._pace = pace
        self._shard = shard
        self._consumer = consumer
        self._reclaim_at = monotonic()
        self._many = pace.batch

    async def run(self, stop: asyncio.Event) -> None:
        """Take and write until told to stop."""
        pause = Pause()
        while not stop.is_set():
            try:
                entries = await self._next()
            except Unavailable as outage:
                self._warn("queue_away", outage)
                await pause.wait(stop)
                continue
            pause.reset()
            if entries:
                await self._write(entries, stop)
        await self._leave()

    async def _next(self) -> list[Entry]:
        """Return what others have left, now and then, or else what is new."""
        if monotonic() >= self._reclaim_at:
            idle_ms = int(self._pace.reclaim_idle.total_seconds() * 1000)
            entries = await self._queue.reclaim(self._shard, self._consumer, idle_ms, self._pace.batch)
            # As long as there is more of it, go on.
            if len(entries) < self._pace.batch:
                self._reclaim_at = monotonic() + self._pace.reclaim_every_s
            if entries:
                return entries
        entries = await self._queue.take(self._shard, self._consumer, self._many, _BLOCK_MS)
        self._many = self._how_many_next(entries)
        return entries

    def _how_many_next(self, entries: Sequence[Entry]) -> int:
        """Return up to twice as many as were taken, while so many wait and are small; else as many as usual."""
        usual = self._pace.batch
        if len(entries) < self._many:
            return usual
        size_bytes = sum(len(entry.sealed or b"") for entry in entries) or 1
        fitting = len(entries) * _LARGE_BYTES // size_bytes
        return max(usual, min(2 * self._many, _MOST_BATCHES * usual, fitting))

    async def _write(self, entries: Sequence[Entry], stop: asyncio.Event) -> None:
        usual = [entry for entry in entries if entry.deliveries <= self._pace.max_deliveries]
        if usual:
            await self._write_some(usual, self._batches.write, stop)
        for entry in entries:
            if entry.deliveries > self._pace.max_deliveries and not stop.is_set():
                await self._write_some([entry], self._suspects.write, stop)

    async def _write_some(self, entries: Sequence[Entry], write: Write, stop: asyncio.Event) -> None:
        """Write entries, again and again while something of ours is away; told to stop, leave the rest pending."""
        pause = Pause()
        waiting: list[Entry] = []
        while entries:
            started = monotonic()
            written = await write(entries)
            settled = await self._settle(written.settlements, stop)
            self._log(written, settled=settled, seconds=monotonic() - started)
            waiting += written.waiting
            entries = written.left
            if written.settlements:
                pause.reset()
            if entries:
                if stop.is_set():
                    break
                await pause.wait(stop)
        await self._excuse([*waiting, *entries])

    async def _settle(self, settlements: Sequence[Settlement], stop: asyncio.Event) -> bool:
        """Settle what is committed. If the queue stays away it is delivered again, which changes nothing."""
        pause = Pause()
        while settlements:
            try:
                await self._queue.settle(self._shard, settlements)
            except Unavailable as outage:
                self._warn("queue_away", outage)
                if stop.is_set():
                    return False
                await pause.wait(stop)
            else:
                break
        return True

    async def _excuse(self, entries: Sequence[Entry]) -> None:
        """Say that these were left pending through no fault of theirs."""
        try:
            await self._queue.excuse(self._shard, self._consumer, [entry.id for entry in entries])
        except Unavailable as outage:
            self._warn("queue_away", outage)

    async def _leave(self) -> None:
        try:
            await self._queue.leave(self._shard, self._consumer)
        except Unavailable as outage:
            self._warn("queue_away", outage)

    def _log(self, written: Written, *, settled: bool, seconds: float) -> None:
        outcomes = [each.outcome for each in written.settlements]
        logger().info(
            "batch_written",
            shard=self._shard,
            count=len(outcomes),
            outcome=[f"{word} {outcomes.count(word)}" for word in sorted(set(outcomes))],
            state="settled" if settled else "committed",
            duration_ms=round(seconds * 1000, 1),
        )
        if written.outage is not None:
            self._warn("store_away", written.outage)
        if written.waiting:
            logger().warning("no_bucket_yet", shard=self._shard, count=len(written.waiting))

    def _warn(self, event: str, outage: Unavailable) -> None:
        logger().warning(event, shard=self._shard, reason=outage.reason.value, cause=outage.cause)


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await stop.wait()
    except TimeoutError:
        return False


async def _end(tasks: Sequence["asyncio.Task[object]"]) -> None:
    """End tasks that are left, and raise what one of them died of."""
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
