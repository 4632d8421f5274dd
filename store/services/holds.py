"""Holds: what they cover is not destroyed. Placed and released here; ended, after a grace, by the duty `purge`.

Placing one writes the hold and its leaf and nothing else. Its locks shut out whoever destroys, so that its answer is
the truth: what is still there is kept from the commit on, and what is gone stays gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from policies import holds as policy
from policies.holds import Placing, Reach
from store import ids
from store.commitments import leaf
from store.db import Connection, Database
from store.errors import Malformed, NotFound
from store.ids import ScopeId
from store.tables import holds, log_queue, operator_actions, purging
from store.tables.holds import HoldRow, Standing

MOST_REASON: Final = 500
MOST_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class OnPart:
    """One stored part."""

    evidence: UUID


@dataclass(frozen=True, slots=True)
class OnRun:
    """Everything that a run has stored and will store."""

    run: str


@dataclass(frozen=True, slots=True)
class OnScope:
    """Everything."""


On = OnPart | OnRun | OnScope


@dataclass(frozen=True, slots=True)
class Page:
    """Holds, newest first; `next_id` is where the next page begins."""

    rows: list[HoldRow]
    next_id: UUID | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What a hold is on, under its locks, and what becomes of placing it."""

    reach: Reach
    run: UUID | None
    evidence: UUID | None
    answer: Placing


class Holds:
    """What operators place and release; `database` acts as the service."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def place(self, scope: UUID, on: On, reason: str, by: str) -> HoldRow:
        """Place a hold and say what it found; several on one thing stand beside each other.

        NotFound where there is nothing of that name; the same for what is another scope's.
        """
        if not (1 <= len(reason) <= MOST_REASON and reason.isprintable()):
            raise Malformed(
                detail=f"say in `reason`, in 1 to {MOST_REASON} printable characters, what it is for"
            )
        hold = ids.new_id()
        async with self._database.transaction() as connection:
            found = await _found(connection, scope, on)
            now = await holds.insert(
                connection, scope, hold, reach=found.reach, run=found.run, evidence=found.evidence,
                reason=reason, answer=found.answer, by=by,
            )  # fmt: skip
            subject = found.evidence or found.run or scope
            entry = leaf("hold", h=hold, op="place", si=subject, sk=found.reach.value, t=now)
            await log_queue.copy(connection, [(scope, entry)])
            await operator_actions.insert(connection, ScopeId(scope), by, "hold_placed", hold.hex)
            return await _row(connection, scope, hold)

    async def release(self, scope: UUID, hold: UUID, by: str) -> HoldRow:
        """Let a hold go: when the grace is over, what is due and nothing else keeps is destroyed. Again is the same."""
        async with self._database.transaction() as connection:
            found = await holds.lock(connection, scope, hold)
            if found is None:
                raise NotFound
            if found.released_at is None:
                await holds.release(connection, scope, hold, by)
                subject = found.evidence or found.run_uid or scope
                entry = leaf("hold", h=hold, op="release", si=subject, sk=found.reach.value, t=found.now)
                await log_queue.copy(connection, [(scope, entry)])
                await operator_actions.insert(connection, ScopeId(scope), by, "hold_released", hold.hex)
            return await _row(connection, scope, hold)

    async def one(self, scope: UUID, hold: UUID) -> HoldRow:
        """Return one hold."""
        async with self._database.connection() as connection:
            return await _row(connection, scope, hold)

    async def page(self, scope: UUID, before: UUID | None, limit: int) -> Page:
        """Return the newest holds, or those before an id."""
        async with self._database.connection() as connection:
            rows = await holds.latest(connection, scope, before, limit + 1)
        return Page(rows[:limit], rows[limit - 1].hold_id if len(rows) > limit else None)


async def _found(connection: Connection, scope: UUID, on: On) -> _Found:
    if isinstance(on, OnScope):
        await holds.lock_scope_alone(connection, scope)
        await holds.lock_live_buckets(connection, scope)
        # Whatever is gone already: what is there and what comes is kept.
        return _Found(Reach.SCOPE, None, None, Placing.PLACED)
    if isinstance(on, OnRun):
        run = await purging.run_named(connection, scope, on.run)
        if run is None:
            raise NotFound
        await _lock_run(connection, scope, run)
        standings = await holds.standings_of_run(connection, scope, run)
        takes = await holds.takes_parts(connection, scope, run)
        return _Found(Reach.RUN, run, None, Placing.PLACED if takes else _answer(standings))
    target = await purging.part_of(connection, scope, on.evidence)
    if target is None:
        raise NotFound
    await holds.lock_buckets(connection, scope, {target.bucket_id})
    await purging.lock_run(connection, scope, target.run_uid, wait=True)
    standing = await holds.standing_of_part(connection, scope, on.evidence)
    if standing is None:
        raise NotFound
    return _Found(Reach.PART, target.run_uid, on.evidence, _answer([standing]))


async def _lock_run(connection: Connection, scope: UUID, run: UUID) -> None:
    """Lock a run's live buckets, then the run; then those to which it was narrowed, or written, in between.

    Nobody who holds a bucket alone waits for a run, so that a bucket may still be shared when the run is locked.
    """
    buckets = await holds.buckets_of_run(connection, scope, run)
    await holds.lock_buckets(connection, scope, buckets)
    await purging.lock_run(connection, scope, run, wait=True)
    since = await holds.buckets_of_run(connection, scope, run) - buckets
    if since:
        await holds.lock_buckets(connection, scope, since)


def _answer(standings: Iterable[Standing]) -> Placing:
    """Say what a hold found: anything that is still there is kept."""
    answers = {
        policy.place(each.state, bucket_expired=each.bucket_expired, in_hold_bucket=each.in_hold_bucket)
        for each in standings
    }
    return Placing.PLACED if Placing.PLACED in answers else Placing.TOO_LATE


async def _row(connection: Connection, scope: UUID, hold: UUID) -> HoldRow:
    row = await holds.by_id(connection, scope, hold)
    if row is None:
        raise NotFound
    return row
