"""Destroying single parts: erased, revoked and not restored, of a shortened run, or held until now and overdue.

    T1  one transaction: scope and buckets locked shared, run alone; holds asked again; state purging, reason,
        tombstones, purge leaf (from here on readers are refused)
    T2  the body row goes: wrapped secret, size, ciphertext
    T3  derived copies go: what waits in the queue, and the queue's file, which is rewritten
    T5  the space that the row took is written anew; what wrapped it with others gets another key
    T4  state purged, once all that is done and the purge leaf is published; only now an erasure is answered as purged

Each step is idempotent, in small committed batches, and continued by the next run wherever a crash left it. Several
purgers share the work: what one has locked, another leaves alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.db import Connection, Database
from store.keyring import Keyring
from store.queue import Queue, RunKey
from store.services import subjects
from store.services.destroying import destroy_parts
from store.services.duties import each_within
from store.services.hold_buckets import change_keys
from store.services.pacing import DAY_S, horizon
from store.services.reclaiming import reclaim_space
from store.tables import erasures, held_bodies, holds, purging
from store.tables.erasures import Uncleared
from store.tables.held_bodies import HELD
from store.tables.purging import Bodiless, ClosedSource, Target
from store.tables.scopes import policy_of

DUTY: Final = "purge"

# How long a released hold goes on keeping, unless the settings say otherwise.
GRACE_S: Final = 600.0
# Of one run, one transaction, one lock: small enough that a writer of that run hardly notices.
_TARGETS: Final = 200
_BODIES: Final = 200
_DONE: Final = 2_000
_BUDGET_S: Final = 20.0
# No writer that began before a run expired is still at work so long after.
_QUIET_S: Final = 600.0

Select = Callable[[Connection, int], Awaitable[list[Target]]]
Check = Callable[[Connection], Awaitable[bool]]


@dataclass(slots=True)
class Purge:
    """What the standing duty works with; `database` acts as the duties."""

    database: Database
    keyring: Keyring
    queue: Queue
    grace_s: float = GRACE_S
    span_s: int = DAY_S

    async def due(self) -> bool:
        """Say whether something was asked for, is on its way out, or is held no longer."""
        async with self.database.connection() as connection:
            return (
                await purging.due(connection)
                or await holds.end_due(connection, self.grace_s)
                or await held_bodies.due(connection)
            )

    async def run(self) -> Mapping[str, int]:
        """Do what is due, as far as the time allows: first close everything to readers, then destroy."""
        async with self.database.connection() as connection:
            await erasures.begin(connection)
            ended = await holds.end(connection, self.grace_s)
        await subjects.close_rest(self.database, self.queue)
        return {
            "ended": ended,
            "erased": await self._standing(purging.of_erasures, Reason.ERASED),
            **await self._by_the_clock(),
            "bodies": await self._bodies(),
            "keys": await change_keys(self.database, self.keyring),
            "purged": await self._finish(),
        }

    # --- T1

    async def _by_the_clock(self) -> Mapping[str, int]:
        """Destroy what time alone makes due, no faster than a clock that goes right would."""
        until = await horizon(self.database, DUTY, self.span_s)
        if until is None:
            return {"clock_back": 1}
        return {
            "released": await self._standing(held_bodies.overdue, Reason.RETENTION_EXPIRED),
            "expired": await self._shortened(until),
            "revoked": await self._revoked(until),
        }

    async def _standing(self, select: Select, reason: Reason, check: Check | None = None) -> int:
        return await each_within(_BUDGET_S, partial(self._mark_some, select, reason, check))

    async def _mark_some(self, select: Select, reason: Reason, check: Check | None) -> int:
        async with self.database.connection() as connection:
            targets = await select(connection, _TARGETS)
        changed = 0
        for _, of_run in groupby(sorted(targets, key=_run_of), key=_run_of):
            async with self.database.transaction() as connection:
                if check is not None and not await check(connection):
                    return changed
                done = await destroy_parts(connection, self.keyring, list(of_run), reason, wait=False)
                changed += len(done.marked)
        return changed

    async def _shortened(self, until: datetime) -> int:
        """Destroy what would outlive its run, whose retention was shortened."""
        changed = await self._standing(
            lambda connection, limit: purging.of_shortened_runs(connection, until, limit),
            Reason.RETENTION_EXPIRED,
        )
        async with self.database.connection() as connection:
            await purging.shortened_done(connection, _QUIET_S)
        return changed

    async def _revoked(self, until: datetime) -> int:
        """Destroy what depends on sources that have been closed for as long as their scope says."""
        async with self.database.connection() as connection:
            closed = await purging.closed_sources(connection)
        return sum([await self._closed(each) for each in closed if _to_destroy(each, until)])

    async def _closed(self, closed: ClosedSource) -> int:
        reason = Reason.SOURCE_UNAVAILABLE if closed.version is None else Reason.DEPENDENCY_CHANGED
        changed = await self._standing(
            lambda connection, limit: purging.of_source(connection, closed, limit),
            reason,
            lambda connection: purging.still_closed(connection, closed),
        )
        async with self.database.transaction() as connection:
            # What is held is still to be destroyed, and nothing that was can be opened again.
            if not await purging.of_source(connection, closed, 1, held=True):
                await purging.set_destroyed(connection, closed)
        return changed

    # --- T2

    async def _bodies(self) -> int:
        async with self.database.connection() as connection:
            scopes = await purging.scopes_purging(connection)
        return sum([await each_within(_BUDGET_S, partial(self._delete_some, scope)) for scope in scopes])

    async def _delete_some(self, scope: UUID) -> int:
        async with self.database.transaction() as connection:
            by_span = await purging.with_bodies(connection, scope, _BODIES)
            for span_start, evidence in by_span.items():
                wrapped_in = await purging.delete_bodies(connection, span_start, scope, evidence)
                if span_start == HELD:
                    await held_bodies.set_stale(connection, scope, sorted(wrapped_in))
        return sum(map(len, by_span.values()))

    # --- T3, T5 and T4

    async def _finish(self) -> int:
        async with self.database.connection() as connection:
            scopes = await purging.scopes_purging(connection)
            found = {scope: await purging.without_bodies(connection, scope, _DONE) for scope in scopes}
            asked = await erasures.uncleared(connection)
        others = _those(found, lambda part: part.reason is not Reason.ERASED)
        await self._say_destroyed(await self._reclaimed(others))
        erased = _those(found, lambda part: part.reason is Reason.ERASED)
        if erased or asked:
            await self._finish_erased(erased, asked)
        return await self._say_done(scopes)

    async def _finish_erased(
        self, erased: Mapping[UUID, Sequence[Bodiless]], asked: Sequence[Uncleared]
    ) -> None:
        """Say of erased parts that they are destroyed, once no copy of ours holds anything of them.

        A repeat may have been accepted just before T1. It dies at the writer, but it must have: hence nothing is said
        while the queue holds an entry of the same run that is older. Ages were read before the queue is asked, never
        after.
        """
        settled = await self._settled(erased)
        cleared = await self._cleared(asked)
        gone = await self._reclaimed(settled)
        if not (gone or cleared):
            return
        await self._forget_sums({scope: {part.run for part in settled[scope]} for scope in gone})
        await self.queue.rewrite_file()
        await self._say_destroyed(gone)
        async with self.database.transaction() as connection:
            for each in cleared:
                await erasures.set_cleared(connection, each.scope_id, each.erasure_id)

    async def _settled(self, erased: Mapping[UUID, Sequence[Bodiless]]) -> Mapping[UUID, Sequence[Bodiless]]:
        """Return those of whose runs nothing waits that came in before T1."""
        runs = [RunKey(scope, part.run) for scope, parts in erased.items() for part in parts]
        waits_s = await self.queue.runs_wait_s(runs)
        return {
            scope: [part for part in parts if part.age_s > waits_s[RunKey(scope, part.run)]]
            for scope, parts in erased.items()
        }

    async def _cleared(self, asked: Sequence[Uncleared]) -> list[Uncleared]:
        """Return those of whose run, or whose scope, nothing waits that came in before they were asked for."""
        runs = await self.queue.runs_wait_s(
            [RunKey(each.scope_id, each.run) for each in asked if each.run is not None]
        )
        scopes = await self.queue.scopes_wait_s([each.scope_id for each in asked if each.run is None])
        return [
            each
            for each in asked
            if each.age_s
            > (scopes[each.scope_id] if each.run is None else runs[RunKey(each.scope_id, each.run)])
        ]

    async def _forget_sums(self, gone: Mapping[UUID, set[str]]) -> None:
        """Drop what the queue knows of these runs: the sum of exact bytes would tell the size of what is not there.

        It is counted anew, without them, when it is asked for. Where something waits it stays until the run is closed.
        """
        for scope, names in gone.items():
            for run in sorted(names):
                await self.queue.forget_run(RunKey(scope, run))

    async def _reclaimed(self, found: Mapping[UUID, Sequence[Bodiless]]) -> dict[UUID, list[UUID]]:
        """T5: return those parts, by scope, whose space was written anew or freed, as their span's size allows."""
        left = await reclaim_space(
            self.database, {part.span_start for parts in found.values() for part in parts}
        )
        async with self.database.connection() as connection:
            # The key that wrapped them there is still to be changed.
            left |= {HELD} if await held_bodies.due(connection) else set()
        gone = {
            scope: [part.evidence for part in parts if part.span_start not in left]
            for scope, parts in found.items()
        }
        return {scope: evidence for scope, evidence in gone.items() if evidence}

    async def _say_destroyed(self, gone: Mapping[UUID, Sequence[UUID]]) -> None:
        for scope, evidence in gone.items():
            async with self.database.transaction() as connection:
                await purging.set_destroyed_parts(connection, scope, evidence)

    async def _say_done(self, scopes: Sequence[UUID]) -> int:
        """T4: of parts, and then of the erasures that asked for them."""
        done = 0
        for scope in scopes:
            async with self.database.connection() as connection:
                done += await purging.done(connection, scope, _DONE)
        async with self.database.connection() as connection:
            await erasures.settle(connection)
        return done


def _run_of(target: Target) -> tuple[UUID, UUID]:
    return target.scope_id, target.run_uid


def _those(
    found: Mapping[UUID, Sequence[Bodiless]], which: Callable[[Bodiless], bool]
) -> dict[UUID, list[Bodiless]]:
    chosen = {scope: [part for part in parts if which(part)] for scope, parts in found.items()}
    return {scope: parts for scope, parts in chosen.items() if parts}


def _to_destroy(closed: ClosedSource, until: datetime) -> bool:
    after_s = policy_of(closed.policy).destroy_after_s
    return after_s is not None and closed.closed_at + timedelta(seconds=after_s) <= until
