"""What is found by counting: runs are closed, what of 1…N has no record is `unaccounted`; a lost queue is noticed.

A run is closed only when nothing of it can be on its way any more: its time to take what was sent is over, and the
queue holds no entry that is older than that.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from policies.kinds import RunState
from policies.reasons import Reason
from store.db import Database
from store.logging import logger
from store.queue import Queue, RunKey
from store.services import accounting
from store.services.duties import each_within
from store.tables import closings, queue_shards, runs
from store.tables.runs import DueRun

DUTY: Final = "reconcile"

# The end of a closing is decided by Redis' clock and looked at by Postgres'.
_APART_S: Final = 2.0
_RUNS: Final = 100
# Most of the time that a closing takes is waiting for Redis and Postgres.
_AT_ONCE: Final = 4
_SCOPES: Final = 200
_BUDGET_S: Final = 20.0


@dataclass(slots=True)
class Reconcile:
    """What reconciling works with; `database` acts as the duties."""

    database: Database
    queue: Queue
    closing: timedelta
    never_closed: timedelta

    async def due(self) -> bool:
        """Say whether the time of some closing is over."""
        async with self.database.connection() as connection:
            return await closings.closing_over(connection, self.closing.total_seconds())

    async def run(self) -> Mapping[str, int]:
        """Look after the queue's shards, then close what is due."""
        lost = await self._epochs()
        recounted = await self._recount()
        waiting_s = await self._longest_wait_s()
        closed, never = 0, 0
        scopes = await self._scopes()
        for scope in scopes:
            closed += await each_within(_BUDGET_S / len(scopes), partial(self._close_some, scope, waiting_s))
            never += await each_within(_BUDGET_S / len(scopes), partial(self._give_up_some, scope, waiting_s))
        return {"lost_shards": lost, "recounted": recounted, "closed": closed, "never_closed": never}

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

    async def _longest_wait_s(self) -> float:
        return max((depth.oldest_age_s for depth in await self.queue.depth()), default=0.0)

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

    async def _close_some(self, scope: UUID, waiting_s: float) -> int:
        """Close runs whose closing ended before the oldest entry of the queue came in."""
        ended_s = self.closing.total_seconds() + waiting_s + (_APART_S if waiting_s else 0.0)
        async with self.database.connection() as connection:
            due = await runs.closing_due(connection, scope, ended_s, _RUNS)
        return await self._close_all(scope, due, never=False)

    async def _give_up_some(self, scope: UUID, waiting_s: float) -> int:
        """End runs that nobody closed and of which there was no sign for long."""
        silence_s = self.never_closed.total_seconds() + waiting_s
        async with self.database.connection() as connection:
            due = await runs.never_closed_due(connection, scope, silence_s, _RUNS)
        return await self._close_all(scope, due, never=True)

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
        async with self.database.transaction() as connection:
            row = await runs.lock(connection, scope, due.run)
            if row is None or row.state is RunState.CLOSED:
                return False
            await accounting.close(connection, scope, row, never=never)
        await self.queue.forget_run(key)
        return True
