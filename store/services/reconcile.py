"""What is found by counting: runs are closed, what of 1…N has no record is `unaccounted`; a lost queue is noticed.

A run is closed only when nothing of it can be on its way any more: its time to take what was sent is over, and the
queue holds no entry of it. What waits of other runs keeps none from being closed.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from policies.kinds import RunState
from policies.reasons import Reason
from store.clock import monotonic
from store.db import Database
from store.logging import logger
from store.queue import Queue, RunKey
from store.services import accounting
from store.services.duties import each_of
from store.tables import closings, queue_shards, runs
from store.tables.runs import DueRun

DUTY: Final = "reconcile"

_RUNS: Final = 100
# Most of the time that a closing takes is waiting for Redis and Postgres.
_AT_ONCE: Final = 4
_SCOPES: Final = 200
_BUDGET_S: Final = 20.0
# Runs may be declared without end, and the queue's memory is everybody's. While Postgres is away nothing is forgotten,
# but what was is not admitted either: hence only after some hours, unless there are very many.
_IDLE: Final = timedelta(hours=6)
_CROWDED: Final = timedelta(minutes=15)
_IDLE_EVERY_S: Final = 50.0


@dataclass(slots=True)
class Reconcile:
    """What reconciling works with; `database` acts as the duties."""

    database: Database
    queue: Queue
    closing: timedelta
    never_closed: timedelta
    idle_from: float = float("-inf")

    async def due(self) -> bool:
        """Say whether the time of some closing is over."""
        async with self.database.connection() as connection:
            return await closings.closing_over(connection, self.closing.total_seconds())

    async def run(self) -> Mapping[str, int]:
        """Look after the queue's shards, then close what is due."""
        lost = await self._epochs()
        recounted = await self._recount()
        closed, never = 0, 0
        scopes = await self._scopes()
        for scope in scopes:
            closed += await each_of(self._closing(scope), _BUDGET_S / len(scopes))
            never += await each_of(self._silent(scope), _BUDGET_S / len(scopes))
        return {
            "lost_shards": lost, "recounted": recounted, "closed": closed, "never_closed": never,
            "idle": await self._forget_idle(),
        }  # fmt: skip

    # --- the queue

    async def _epochs(self) -> int:
        """Notice shards whose epoch is gone or another: whatever was queued there is lost, and receipts will say so."""
        epochs = await self.queue.epochs()
        async with self.database.connection() as connection:
            known = await queue_shards.all_shards(connection)
        lost = 0
        for shard, epoch in epochs.items():
            before = known.get(shard)
            if before is not None and before.epoch == epoch:
                continue
            now = epoch or await self.queue.ensure_epoch(shard)
            async with self.database.connection() as connection:
                if before is None:
                    await queue_shards.begin(connection, shard, now)
                    continue
                await queue_shards.lose(connection, shard, before.epoch, now)
            lost += 1
            logger().error("queue_lost", duty=DUTY, shard=shard)
        return lost

    async def _recount(self) -> int:
        """Repair reservations that say something else than the stream holds; with nothing waiting that is cheap."""
        wrong = 0
        for depth in await self.queue.depth():
            idle = depth.stream_length == 0
            if idle and (depth.parts or depth.bytes or depth.notes):
                wrong += await self.queue.recount(depth.shard)
                logger().warning("reservations_recounted", duty=DUTY, shard=depth.shard, count=wrong)
        return wrong

    async def _forget_idle(self) -> int:
        """Forget runs in the queue, once a minute: Postgres answered just now, and who asks for one finds it there."""
        if monotonic() < self.idle_from:
            return 0
        self.idle_from = monotonic() + _IDLE_EVERY_S
        return await self.queue.forget_idle(_IDLE, _CROWDED)

    # --- runs

    async def _scopes(self) -> list[UUID]:
        found: list[UUID] = []
        while True:
            async with self.database.connection() as connection:
                more = await closings.scopes_unclosed(
                    connection, found[-1] if found else UUID(int=0), _SCOPES
                )
            found += more
            if len(more) < _SCOPES:
                return found

    async def _closing(self, scope: UUID) -> AsyncIterator[int]:
        """Close runs whose closing has lasted as long as it may and of which nothing waits, page by page."""
        closing_s, after = self.closing.total_seconds(), runs.FIRST
        while True:
            async with self.database.connection() as connection:
                due = await runs.closing_due(connection, scope, closing_s, _RUNS, after)
            yield await self._close_all(scope, await self._idle(scope, due), never=False)
            if len(due) < _RUNS:
                return
            after = due[-1].since, due[-1].run_uid

    async def _silent(self, scope: UUID) -> AsyncIterator[int]:
        """End runs that nobody closed and of which there was no sign for long; what waits is one."""
        silence_s, after = self.never_closed.total_seconds(), runs.FIRST
        while True:
            async with self.database.connection() as connection:
                due = await runs.never_closed_due(connection, scope, silence_s, _RUNS, after)
            yield await self._close_all(scope, await self._idle(scope, due), never=True)
            if len(due) < _RUNS:
                return
            after = due[-1].since, due[-1].run_uid

    async def _idle(self, scope: UUID, due: Sequence[DueRun]) -> list[DueRun]:
        """Return those of which nothing waits: not even a gap that came late, which the account would not know of."""
        waits_s = await self.queue.runs_wait_s([RunKey(scope, run.run) for run in due])
        return [run for run in due if not waits_s[RunKey(scope, run.run)]]

    async def _close_all(self, scope: UUID, due: Sequence[DueRun], *, never: bool) -> int:
        """Close a few runs at a time; nothing is under way any more when this ends, however it ends."""
        closed = 0
        for few in (due[first : first + _AT_ONCE] for first in range(0, len(due), _AT_ONCE)):
            ended = await asyncio.gather(
                *(self._close(scope, run, never=never) for run in few), return_exceptions=True
            )
            for each in ended:
                if isinstance(each, BaseException):
                    raise each
                closed += each
        return closed

    async def _close(self, scope: UUID, due: DueRun, *, never: bool) -> bool:
        key = RunKey(scope, due.run)
        # First for every guard, then in the row: what came in between would be on its way to a closed run.
        await self.queue.narrow_run(key, state=Reason.RUN_CLOSED.value)
        if (await self.queue.runs_wait_s([key]))[key]:
            # It came before that word did, and after the queue was looked at: the account would not know of it.
            await self._begin_closing(scope, due, never=never)
            return False
        async with self.database.transaction() as connection:
            row = await runs.lock(connection, scope, due.run)
            if row is None or row.state is RunState.CLOSED:
                return False
            await accounting.close(connection, scope, row, never=never)
        await self.queue.forget_run(key)
        return True

    async def _begin_closing(self, scope: UUID, due: DueRun, *, never: bool) -> None:
        """Leave the run to a later round; a silent one takes no more either, but what came is a sign of it."""
        if never:
            async with self.database.connection() as connection:
                await runs.close_silent(connection, scope, due.run_uid)
