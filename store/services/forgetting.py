"""When metadata is kept no longer: of each identity a keyed hash stays, so that it is never taken again; the rest goes.

A run goes as a whole: when it has been closed for as long as its scope keeps metadata, its retention is over, and
nothing of it is held, readable or on its way out. From then on it is `not_found`, whatever it is asked by. The log
keeps its leaves, which name nothing but ids of ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.commitments import Identity
from store.db import Connection, Database
from store.keyring import Keyring
from store.services import marks
from store.services.duties import each_within
from store.services.pacing import DAY_S, horizon
from store.tables import forgetting, holds, leases, purging, tombstones
from store.tables.forgetting import DueRun, LeftPart, LookedAt

DUTY: Final = "metadata"

_RUNS: Final = 200
_PARTS: Final = 2_000
_SETS_AT_ONCE: Final = 5_000
_BUDGET_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What the duty works with; `database` acts as the duties, who may delete nothing by themselves."""

    database: Database
    keyring: Keyring
    span_s: int = DAY_S

    async def run(self) -> Mapping[str, int]:
        """Forget runs as far as the time allows, then what nobody refers to any more."""
        until = await horizon(self.database, DUTY, self.span_s)
        if until is None:
            return {"clock_back": 1}
        runs = await each_within(_BUDGET_S, partial(self._some, until))
        async with self.database.connection() as connection:
            reasons = await holds.forget_reasons(connection)
        return {"runs": runs, "reasons": reasons, "sets": await self._sets()}

    async def _sets(self) -> int:
        """Look at some sets, however many there are, from where the last run came to; forget those that nobody uses."""
        async with self.database.connection() as connection:
            before = await leases.place(connection, DUTY)
            scopes = await forgetting.scopes(connection)
        begin, beyond = _read(before)
        forgotten, left, at = 0, _SETS_AT_ONCE, None
        for scope in (each for each in scopes if each >= begin):
            page = await self._page(scope, beyond if scope == begin else b"", left)
            forgotten, left = forgotten + page.gone, left - page.seen
            if left <= 0 and page.last is not None:
                at = f"{scope.hex} {page.last.hex()}"
                break
        if at != before:
            async with self.database.connection() as connection:
                await leases.keep_place(connection, DUTY, at)
        return forgotten

    async def _page(self, scope: UUID, beyond: bytes, limit: int) -> LookedAt:
        async with self.database.connection() as connection:
            return await forgetting.forget_source_sets(connection, scope, beyond, limit)

    async def _some(self, until: datetime) -> int:
        async with self.database.connection() as connection:
            due = await forgetting.due_runs(connection, until, _RUNS)
        return sum([await self._forget(run) for run in due])

    async def _forget(self, run: DueRun) -> bool:
        """Forget a run, some parts at a time; one that somebody else has now is left for the next time."""
        while True:
            async with self.database.transaction() as connection:
                await purging.lock_scope(connection, run.scope_id)
                locked = await purging.lock_run(connection, run.scope_id, run.run_uid, wait=False)
                if locked is None or not await forgetting.may(connection, run):
                    return False
                parts = await forgetting.parts_of_run(connection, run, _PARTS)
                if not parts:
                    await self._leave_run_s_mark(connection, run)
                    await forgetting.forget_run(connection, run)
                    return True
                await self._leave_marks(connection, run, parts)
                await forgetting.forget_parts(connection, run, [part.evidence for part in parts])

    async def _leave_run_s_mark(self, connection: Connection, run: DueRun) -> None:
        """Leave what tells the log's leaves about a run that was forgotten from those about one that was taken away."""
        mark = marks.evidence_mark(self.keyring.token_key("lookup"), run.scope_id, run.run_uid)
        await tombstones.leave(connection, run.scope_id, [mark], Reason.RETENTION_EXPIRED)

    async def _leave_marks(self, connection: Connection, run: DueRun, parts: Sequence[LeftPart]) -> None:
        """Leave what makes a late write impossible; a mark of before keeps its reason."""
        key = self.keyring.token_key("lookup")
        for reason in (Reason.ERASED, Reason.RETENTION_EXPIRED):
            found = []
            for part in parts:
                if (part.purge_reason is Reason.ERASED) != (reason is Reason.ERASED):
                    continue
                identity = Identity(run.scope_id, run.run, part.exchange, part.attempt, part.kind)
                found += [
                    marks.evidence_mark(key, run.scope_id, part.evidence),
                    marks.identity_mark(key, identity),
                ]
            await tombstones.leave(connection, run.scope_id, found, reason)


def _read(place: str | None) -> tuple[UUID, bytes]:
    scope, _, beyond = (place or UUID(int=0).hex).partition(" ")
    return UUID(scope), bytes.fromhex(beyond)
