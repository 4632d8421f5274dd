"""Saying of destroyed parts that they are: T3, T5 and T4 of `purge`, after the others and with time of their own.

What is said is true of every copy of ours: the queue holds nothing older of the same run, its file was written anew,
the space of the bodies too, and what wrapped them with others got another key.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.db import Database
from store.queue import Queue, RunKey
from store.services.duties import Budget
from store.services.reclaiming import reclaim_space
from store.tables import erasures, held_bodies, purging
from store.tables.erasures import Uncleared
from store.tables.held_bodies import HELD
from store.tables.purging import Bodiless

# In one run, as much as is held in memory, and told to the queue one run after another; in one transaction.
_AT_ONCE: Final = 50_000
_DONE: Final = 2_000

Found = Mapping[UUID, Sequence[Bodiless]]


@dataclass(frozen=True, slots=True)
class Acknowledging:
    """`database` acts as the duties."""

    database: Database
    queue: Queue

    async def run(self, scopes: Sequence[UUID], budget: Budget) -> tuple[int, int]:
        """Say what can be said; return of how many parts, and how many of the scopes, in their order, were come to."""
        found = await self._found(scopes)
        async with self.database.connection() as connection:
            asked = await erasures.uncleared(connection)
        others = _those(found, lambda part: part.reason is not Reason.ERASED)
        await self._say_destroyed(await self._reclaimed(others, budget.part(2)))
        erased = _those(found, lambda part: part.reason is Reason.ERASED)
        if erased or asked:
            await self._finish_erased(erased, asked, budget)
        return await self._say_done(scopes, budget), len(found)

    async def _found(self, scopes: Sequence[UUID]) -> Found:
        """Return parts after T2 of as many scopes, in their order, as one run can do."""
        found, left = dict[UUID, Sequence[Bodiless]](), _AT_ONCE
        for scope in scopes:
            if not left:
                break
            async with self.database.connection() as connection:
                found[scope] = await purging.without_bodies(connection, scope, left)
            left -= len(found[scope])
        return found

    async def _finish_erased(self, erased: Found, asked: Sequence[Uncleared], budget: Budget) -> None:
        """Say of erased parts that they are destroyed, once no copy of ours holds anything of them.

        A repeat may have been accepted just before T1. It dies at the writer, but it must have: hence nothing is said
        while the queue holds an entry of the same run that is older. Ages were read before the queue is asked, never
        after.
        """
        settled = await self._settled(erased)
        cleared = await self._cleared(asked)
        gone = await self._reclaimed(settled, budget)
        if not (gone or cleared):
            return
        await self._forget_sums({scope: {part.run for part in settled[scope]} for scope in gone})
        await self.queue.rewrite_file()
        await self._say_destroyed(gone)
        async with self.database.transaction() as connection:
            for each in cleared:
                await erasures.set_cleared(connection, each.scope_id, each.erasure_id)

    async def _settled(self, erased: Found) -> Found:
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

    async def _reclaimed(self, found: Found, budget: Budget) -> dict[UUID, list[UUID]]:
        """T5: return those parts, by scope, whose space was written anew or freed, as their span's size allows."""
        spans = {part.span_start for parts in found.values() for part in parts}
        left = await reclaim_space(self.database, spans, budget)
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
            for some in (evidence[at : at + _DONE] for at in range(0, len(evidence), _DONE)):
                async with self.database.transaction() as connection:
                    await purging.set_destroyed_parts(connection, scope, some)

    async def _say_done(self, scopes: Sequence[UUID], budget: Budget) -> int:
        """T4: of parts, and then of the erasures that asked for them. Every scope has a batch, whatever the time."""
        done, waiting = 0, deque(scopes)
        while waiting:
            scope = waiting.popleft()
            async with self.database.connection() as connection:
                some = await purging.done(connection, scope, _DONE)
            done += some
            if some == _DONE and not budget.over:
                waiting.append(scope)
        async with self.database.connection() as connection:
            await erasures.settle(connection)
        return done


def _those(found: Found, which: Callable[[Bodiless], bool]) -> Found:
    chosen = {scope: [part for part in parts if which(part)] for scope, parts in found.items()}
    return {scope: parts for scope, parts in chosen.items() if parts}
