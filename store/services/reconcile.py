"""What is found by counting: runs are closed, what of 1…N has no record is `unaccounted`; a lost queue is noticed.

A run is closed only when nothing of it can be on its way any more: its time to take what was sent is over, and the
queue holds no entry that is older than that.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from policies.kinds import RunState, SaidBy
from policies.outcomes import Account, reconcile
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store import ids
from store.commitments import close_bytes, close_commitment, leaf
from store.db import Connection, Database
from store.logging import logger
from store.queue import Queue, RunKey
from store.services import gap_records
from store.services.duties import each_within
from store.services.gap_records import Gap
from store.tables import closings, gaps, log_queue, queue_shards, runs, sessions
from store.tables.runs import DueRun, RunRow

DUTY: Final = "reconcile"

# The end of a closing is decided by Redis' clock and looked at by Postgres'.
_APART_S: Final = 2.0
_RUNS: Final = 100
# Most of the time that a closing takes is waiting for Redis and Postgres.
_AT_ONCE: Final = 4
_SCOPES: Final = 200
_BUDGET_S: Final = 20.0
_OPENING_BYTES: Final = 32


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
            await _write_account(connection, scope, row, never=never)
        await self.queue.forget_run(key)
        return True


async def _write_account(connection: Connection, scope: UUID, row: RunRow, *, never: bool) -> None:
    named = await sessions.of_run(connection, scope, row.run_uid)
    stored = await sessions.stored_numbers(connection, scope, row.run_uid)
    said = await sessions.gap_numbers(connection, scope, row.run_uid)
    announced = {session: last for session, last in named.items() if last is not None}
    accounts = reconcile(announced, stored, said.get(SaidBy.STORE, {}), said.get(SaidBy.CLIENT, {}))
    missing = [_unaccounted(scope, row, session, account) for session, account in accounts.items()]
    await gap_records.record(connection, [gap for gap in missing if gap.numbers], [], set())
    opening = ids.secret(_OPENING_BYTES)
    record = close_bytes(
        scope,
        row.run,
        sessions=announced,
        stored=await closings.parts_of_run(connection, scope, row.run_uid),
        not_captured=await _not_captured(connection, scope, row.run_uid, stored),
        unaccounted=sum(account.unaccounted.count for account in accounts.values()),
    )
    await runs.set_closed(connection, scope, row.run_uid, opening, never_closed=never)
    entry = leaf("close", t=row.now, m=close_commitment(opening, record), r=row.run_uid)
    await log_queue.copy(connection, [(scope, entry)])


def _unaccounted(scope: UUID, row: RunRow, session: str, account: Account) -> Gap:
    return Gap(
        run=(scope, row.run_uid), said_by=SaidBy.COUNT.value, reason=Reason.UNACCOUNTED, at=row.now, again=False,
        session=session, numbers=account.unaccounted,
    )  # fmt: skip


async def _not_captured(
    connection: Connection, scope: UUID, run: UUID, stored: Mapping[str, SequenceSet]
) -> Mapping[str, int]:
    """Count losses by reason: numbers that were not stored after all, what was merged, and names without a number."""
    counts = Counter(await closings.names_without_numbers(connection, scope, run))
    for key, row in (await gaps.ranges(connection, [(scope, run)])).items():
        if key.said_by != SaidBy.COUNT:
            kept = stored.get(key.session or "", SequenceSet())
            counts[key.reason] += row.sequences.minus(kept).count + row.merged
    return {reason: count for reason, count in sorted(counts.items()) if count}
