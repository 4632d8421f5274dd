"""Destroying single parts: erased, revoked and not restored, or of a run whose retention was shortened.

    T1  one transaction: scope and buckets locked shared, run alone; state purging, reason, tombstones, purge leaf
        (from here on readers are refused)
    T2  the body row goes: wrapped secret, size, ciphertext
    T3  derived copies go: what waits in the queue, and the queue's file, which is rewritten
    T4  state purged; only now an erasure is answered as purged
    T5  the space that the row took is written anew, before T4 says so

Each step is idempotent, in small committed batches, and continued by the next run wherever a crash left it. Several
purgers share the work: what one has locked, another leaves alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.commitments import Identity, leaf
from store.db import Connection, Database
from store.keyring import Keyring
from store.queue import Queue
from store.services import marks
from store.services.duties import each_within
from store.services.reclaiming import reclaim_space
from store.tables import erasures, log_queue, purging, tombstones
from store.tables.erasures import Erasure
from store.tables.purging import Bodiless, ClosedSource, Marked, Target
from store.tables.scopes import policy_of

DUTY: Final = "purge"

# Of one run, one transaction, one lock: small enough that a writer of that run hardly notices.
_TARGETS: Final = 200
_BODIES: Final = 200
_DONE: Final = 2_000
_BUDGET_S: Final = 20.0
# No writer that began before a run expired is still at work so long after.
_QUIET_S: Final = 600.0

# Other reasons close and open again (a source can be restored); their parts' own rows refuse a repeat.
_MARKED: Final = frozenset({Reason.ERASED, Reason.RETENTION_EXPIRED})

Select = Callable[[Connection, int], Awaitable[list[Target]]]
Check = Callable[[Connection], Awaitable[bool]]


async def destroy_parts(
    connection: Connection, keyring: Keyring, targets: Sequence[Target], reason: Reason, *, wait: bool
) -> list[Marked]:
    """T1 of parts of one run, within the caller's transaction; return those that this changed.

    Without `wait` a run that somebody else has locked is left alone, and nothing is returned.
    """
    first = targets[0]
    await purging.lock_scope(connection, first.scope_id)
    await purging.lock_buckets(connection, first.scope_id, {target.bucket_id for target in targets})
    run = await purging.lock_run(connection, first.scope_id, first.run_uid, wait=wait)
    if run is None:
        return []
    evidence = [target.evidence for target in targets]
    marked = await purging.mark(connection, first.scope_id, first.run_uid, evidence, reason)
    await _leave_marks(connection, keyring, first.scope_id, run.run, marked, reason)
    leaves = [leaf("purge", t=part.now, of=None, p=part.evidence, w=reason.value) for part in marked]
    await log_queue.copy(connection, [(first.scope_id, each) for each in leaves])
    return marked


async def _leave_marks(
    connection: Connection, keyring: Keyring, scope: UUID, run: str, marked: Sequence[Marked], reason: Reason
) -> None:
    if reason not in _MARKED or not marked:
        return
    key = keyring.token_key("lookup")
    found = []
    for part in marked:
        identity = Identity(scope, run, part.exchange, part.attempt, part.kind)
        found += [marks.evidence_mark(key, scope, part.evidence), marks.identity_mark(key, identity)]
    await tombstones.leave(connection, scope, found, reason)


@dataclass(slots=True)
class Purge:
    """What the standing duty works with; `database` acts as the duties."""

    database: Database
    keyring: Keyring
    queue: Queue

    async def due(self) -> bool:
        """Say whether something was asked for, or is on its way out."""
        async with self.database.connection() as connection:
            return await purging.due(connection)

    async def run(self) -> Mapping[str, int]:
        """Do what is due, as far as the time allows: first close everything to readers, then destroy."""
        async with self.database.connection() as connection:
            await erasures.begin(connection)
        return {
            "erased": await self._standing(purging.of_erased_runs, Reason.ERASED),
            "expired": await self._shortened(),
            "revoked": await self._revoked(),
            "bodies": await self._bodies(),
            "purged": await self._finish(),
        }

    # --- T1

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
                changed += len(
                    await destroy_parts(connection, self.keyring, list(of_run), reason, wait=False)
                )
        return changed

    async def _shortened(self) -> int:
        """Destroy what would outlive its run, whose retention was shortened."""
        changed = await self._standing(purging.of_shortened_runs, Reason.RETENTION_EXPIRED)
        async with self.database.connection() as connection:
            await purging.shortened_done(connection, _QUIET_S)
        return changed

    async def _revoked(self) -> int:
        """Destroy what depends on sources that have been closed for as long as their scope says."""
        async with self.database.connection() as connection:
            closed = await purging.closed_sources(connection)
        return sum([await self._closed(each) for each in closed if _to_destroy(each)])

    async def _closed(self, closed: ClosedSource) -> int:
        reason = Reason.SOURCE_UNAVAILABLE if closed.version is None else Reason.DEPENDENCY_CHANGED
        changed = await self._standing(
            lambda connection, limit: purging.of_source(connection, closed, limit),
            reason,
            lambda connection: purging.still_closed(connection, closed),
        )
        async with self.database.transaction() as connection:
            if not await purging.of_source(connection, closed, 1):
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
                await purging.delete_bodies(connection, span_start, scope, evidence)
        return sum(map(len, by_span.values()))

    # --- T3, T5 and T4

    async def _finish(self) -> int:
        async with self.database.connection() as connection:
            scopes = await purging.scopes_purging(connection)
            found = {scope: await purging.without_bodies(connection, scope, _DONE) for scope in scopes}
            asked = await erasures.open_for_s(connection)
        others = _those(found, lambda part: part.reason is not Reason.ERASED)
        done = await self._say_done(await self._reclaimed(others))
        erased = _those(found, lambda part: part.reason is Reason.ERASED)
        return done + (await self._finish_erased(erased, asked) if erased or asked else 0)

    async def _finish_erased(
        self, erased: Mapping[UUID, Sequence[Bodiless]], asked: Mapping[Erasure, float]
    ) -> int:
        """Say of erased parts and of erasures that they are purged, once no copy of ours holds anything of them.

        A repeat may have been accepted just before T1. It dies at the writer, but it must have: hence nothing is said
        while the queue holds an entry that is older. Ages were read before the queue is asked, never after.
        """
        waiting_s = max((depth.oldest_age_s for depth in await self.queue.depth()), default=0.0)
        gone = await self._reclaimed(_those(erased, lambda part: part.age_s > waiting_s))
        held_up = {scope for scope, parts in erased.items() if len(parts) > len(gone.get(scope, ()))}
        answerable = [each for each, age_s in asked.items() if age_s > waiting_s and each[0] not in held_up]
        if not (gone or answerable):
            return 0
        await self.queue.rewrite_file()
        done = await self._say_done(gone)
        async with self.database.transaction() as connection:
            for erasure in answerable:
                await erasures.set_purged(connection, erasure)
        return done

    async def _reclaimed(self, found: Mapping[UUID, Sequence[Bodiless]]) -> dict[UUID, list[UUID]]:
        """T5: return those parts, by scope, whose space was written anew or freed, as their span's size allows."""
        left = await reclaim_space(
            self.database, {part.span_start for parts in found.values() for part in parts}
        )
        gone = {
            scope: [part.evidence for part in parts if part.span_start not in left]
            for scope, parts in found.items()
        }
        return {scope: evidence for scope, evidence in gone.items() if evidence}

    async def _say_done(self, gone: Mapping[UUID, Sequence[UUID]]) -> int:
        """T4."""
        done = 0
        for scope, evidence in gone.items():
            async with self.database.transaction() as connection:
                done += await purging.done(connection, scope, evidence)
        return done


def _run_of(target: Target) -> tuple[UUID, UUID]:
    return target.scope_id, target.run_uid


def _those(
    found: Mapping[UUID, Sequence[Bodiless]], which: Callable[[Bodiless], bool]
) -> dict[UUID, list[Bodiless]]:
    chosen = {scope: [part for part in parts if which(part)] for scope, parts in found.items()}
    return {scope: parts for scope, parts in chosen.items() if parts}


def _to_destroy(closed: ClosedSource) -> bool:
    after_s = policy_of(closed.policy).destroy_after_s
    return after_s is not None and closed.closed_at + timedelta(seconds=after_s) <= closed.now
