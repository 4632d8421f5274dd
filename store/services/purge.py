"""Destroying single parts: erased, revoked and not restored, of a shortened run, or held until now and overdue.

    T1  one transaction: scope and buckets locked shared, run alone; holds asked again; state purging, reason,
        tombstones, purge leaf (from here on readers are refused)
    T2  the body row goes: wrapped secret, size, ciphertext
    T3  derived copies go: what waits in the queue, and the queue's file, which is rewritten
    T5  the space that the row took is written anew; what wrapped it with others gets another key
    T4  state purged, once all that is done and the purge leaf is published; only now an erasure is answered as purged

Each step is idempotent, in small committed batches, and continued by the next run wherever a crash left it. Several
purgers share the work: what one has locked, another leaves alone.

Before T1 the facts of runs that are erased or over go, where nothing holds their run: they hold no content, and leave
no leaf. An erasure is purged only once they are gone too.

A run has one budget. Scopes take turns, a batch each, and the next run begins where this one came to: neither a scope
with very much to destroy nor the number of scopes keeps one from its turn. T3 to T5 have time of their own.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.db import Connection, Database
from store.keyring import Keyring
from store.queue import Queue
from store.services import subjects
from store.services.acknowledging import Acknowledging
from store.services.destroying import destroy_parts
from store.services.duties import Budget
from store.services.ending_facts import EndingFacts
from store.services.hold_buckets import change_keys
from store.services.pacing import DAY_S, horizon
from store.tables import erasures, held_bodies, holds, leases, purging
from store.tables.held_bodies import HELD
from store.tables.purging import ClosedSource, Target
from store.tables.scopes import policy_of

DUTY: Final = "purge"

# How long a released hold goes on keeping, unless the settings say otherwise.
GRACE_S: Final = 600.0
# Of one run, one transaction, one lock: small enough that a writer of that run hardly notices.
_TARGETS: Final = 200
_BODIES: Final = 200
_BUDGET_S: Final = 60.0
# No writer that began before a run expired is still at work so long after.
_QUIET_S: Final = 600.0
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NONE: Final = UUID(int=0)

Select = Callable[[Connection, UUID, int], Awaitable[list[Target]]]
Check = Callable[[Connection], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
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
        """Do what is due, as far as the time allows: first close everything to readers, then destroy, then say so."""
        budget = Budget(_BUDGET_S)
        async with self.database.connection() as connection:
            await erasures.begin(connection)
            ended = await holds.end(connection, self.grace_s)
            after = await leases.place(connection, DUTY)
        await subjects.close_rest(self.database, self.queue, UUID(after or _NONE.hex), budget.part(4))
        until = await horizon(self.database, DUTY, self.span_s)
        scopes = await self._scopes(until, UUID(after or _NONE.hex))
        counts, begun = await self._destroy(scopes, until, budget.part(2))
        keys = await change_keys(self.database, self.keyring, budget.part(2))
        purged, told = await Acknowledging(self.database, self.queue).run(scopes, budget)
        await self._keep_place(scopes, min(begun, told), after)
        return {"ended": ended, **counts, "clock_back": int(until is None), "keys": keys, "purged": purged}

    async def _scopes(self, until: datetime | None, after: UUID) -> list[UUID]:
        """Return the scopes in which something is to be done, those first that the last run did not come to."""
        async with self.database.connection() as connection:
            scopes = await purging.scopes_due(connection, until or _BEGINNING)
        return sorted(scopes, key=lambda scope: (scope <= after, scope))

    async def _keep_place(self, scopes: Sequence[UUID], reached: int, before: str | None) -> None:
        """Remember how many of the scopes every step came to."""
        at = scopes[reached - 1].hex if 0 < reached < len(scopes) else None
        if at != before:
            async with self.database.connection() as connection:
                await leases.keep_place(connection, DUTY, at)

    async def _destroy(
        self, scopes: Sequence[UUID], until: datetime | None, budget: Budget
    ) -> tuple[Mapping[str, int], int]:
        """T1 and T2, a batch of each scope in turn, until nothing is left; return also how many scopes had a turn."""
        done, waiting, turns = Counter[str](), deque(scopes), 0
        facts = EndingFacts(self.database, until or _BEGINNING)
        while waiting and not (turns and budget.over):
            scope = waiting.popleft()
            some = await self._some(scope, facts, until, budget)
            done.update(some)
            turns += 1
            if some.total() or facts.left(scope):
                waiting.append(scope)
        async with self.database.connection() as connection:
            await purging.shortened_done(connection, _QUIET_S)
        names = ("erased", "released", "expired", "revoked", "bodies", "facts")
        return {name: done[name] for name in names}, min(turns, len(scopes))

    async def _some(
        self, scope: UUID, facts: EndingFacts, until: datetime | None, budget: Budget
    ) -> Counter[str]:
        """Do a batch of each kind; what time alone makes due goes no faster than a clock that goes right would."""
        some = Counter(facts=await facts.some(scope))
        some["erased"] = await self._mark_some(scope, purging.of_erasures, Reason.ERASED)
        if until is not None:
            expired, shortened = Reason.RETENTION_EXPIRED, partial(purging.of_shortened_runs, until=until)
            some["released"] = await self._mark_some(scope, held_bodies.overdue, expired)
            some["expired"] = await self._mark_some(scope, shortened, expired)
            some["revoked"] = await self._revoked(scope, until, budget)
        some["bodies"] = await self._delete_some(scope)
        return some

    # --- T1

    async def _mark_some(
        self, scope: UUID, select: Select, reason: Reason, check: Check | None = None
    ) -> int:
        async with self.database.connection() as connection:
            targets = await select(connection, scope, _TARGETS)
        changed = 0
        for _, of_run in groupby(sorted(targets, key=_run_of), key=_run_of):
            async with self.database.transaction() as connection:
                if check is not None and not await check(connection):
                    return changed
                done = await destroy_parts(connection, self.keyring, list(of_run), reason, wait=False)
                changed += len(done.marked)
        return changed

    async def _revoked(self, scope: UUID, until: datetime, budget: Budget) -> int:
        """Destroy what depends on sources that have been closed for as long as their scope says."""
        async with self.database.connection() as connection:
            closed = await purging.closed_sources(connection, scope)
        changed = 0
        for each in closed:
            if _to_destroy(each, until):
                changed += await self._closed(each)
                if budget.over:
                    break
        return changed

    async def _closed(self, closed: ClosedSource) -> int:
        reason = Reason.SOURCE_UNAVAILABLE if closed.version is None else Reason.DEPENDENCY_CHANGED
        changed = await self._mark_some(
            closed.scope_id,
            lambda connection, _, limit: purging.of_source(connection, closed, limit),
            reason,
            lambda connection: purging.still_closed(connection, closed),
        )
        if changed:
            return changed
        async with self.database.transaction() as connection:
            # What is held is still to be destroyed, and nothing that was can be opened again.
            if not await purging.of_source(connection, closed, 1, held=True):
                await purging.set_destroyed(connection, closed)
        return 0

    # --- T2

    async def _delete_some(self, scope: UUID) -> int:
        async with self.database.transaction() as connection:
            by_span = await purging.with_bodies(connection, scope, _BODIES)
            for span_start, evidence in by_span.items():
                wrapped_in = await purging.delete_bodies(connection, span_start, scope, evidence)
                if span_start == HELD:
                    await held_bodies.set_stale(connection, scope, sorted(wrapped_in))
        return sum(map(len, by_span.values()))


def _run_of(target: Target) -> tuple[UUID, UUID]:
    return target.scope_id, target.run_uid


def _to_destroy(closed: ClosedSource, until: datetime) -> bool:
    after_s = policy_of(closed.policy).destroy_after_s
    return after_s is not None and closed.closed_at + timedelta(seconds=after_s) <= until
