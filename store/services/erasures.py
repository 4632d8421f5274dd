"""Erasures: asked for here, closed to readers before the answer, destroyed by the duty `purge`.

Not yet here: holds, which defer an erasure.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store import ids
from store.commitments import Identity
from store.db import Connection, Database
from store.errors import NotFound, Unavailable
from store.keyring import Keyring
from store.logging import logger
from store.queue import Queue, RunKey
from store.services import marks
from store.services.purge import destroy_parts
from store.tables import erasures, operator_actions, purging, tombstones
from store.tables.erasures import ErasureRow

MOST_LISTED: Final = 200

_ACCEPTED: Final = "accepted"
_PURGING: Final = "purging"


@dataclass(frozen=True, slots=True)
class WholeRun:
    """Everything of a run, what still waits in the queue included."""

    run: str


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One part, by its evidence reference."""

    evidence: UUID


@dataclass(frozen=True, slots=True)
class Named:
    """One part, by its identity: also one that still waits in the queue."""

    run: str
    exchange: str
    attempt: str
    kind: str


Asked = WholeRun | StoredPart | Named


@dataclass(frozen=True, slots=True)
class Page:
    """Erasures, newest first; `next_id` is where the next page begins."""

    rows: list[ErasureRow]
    next_id: UUID | None


class Erasures:
    """What operators ask for; `database` acts as the service."""

    def __init__(self, database: Database, keyring: Keyring, queue: Queue) -> None:
        self._database = database
        self._keyring = keyring
        self._queue = queue

    async def ask(self, scope: UUID, asked: Asked, by: str) -> ErasureRow:
        """Close what is asked for to readers and keep the erasure; the same again is the same one.

        NotFound where there is nothing of that name; its absence is the same for what is another scope's.
        """
        if isinstance(asked, StoredPart):
            return await self._part(scope, asked.evidence, by)
        if isinstance(asked, WholeRun):
            return await self._run(scope, asked.run, by)
        return await self._named(scope, asked, by)

    async def one(self, scope: UUID, erasure: UUID) -> ErasureRow:
        """Return one erasure."""
        async with self._database.connection() as connection:
            row = await erasures.by_id(connection, scope, erasure)
        if row is None:
            raise NotFound
        return row

    async def page(self, scope: UUID, before: UUID | None, limit: int) -> Page:
        """Return the newest erasures, or those before an id."""
        async with self._database.connection() as connection:
            rows = await erasures.latest(connection, scope, before, limit + 1)
        more = len(rows) > limit
        return Page(rows[:limit], rows[limit - 1].erasure_id if more else None)

    async def _part(self, scope: UUID, evidence: UUID, by: str) -> ErasureRow:
        async with self._database.transaction() as connection:
            target = await purging.part_of(connection, scope, evidence)
            if target is None:
                raise NotFound
            await destroy_parts(connection, self._keyring, [target], Reason.ERASED, wait=True)
            return await _kept(connection, scope, target.run_uid, evidence, by)

    async def _run(self, scope: UUID, run: str, by: str) -> ErasureRow:
        async with self._database.transaction() as connection:
            run_uid = await purging.run_named(connection, scope, run)
            if run_uid is None:
                raise NotFound
            await purging.lock_run(connection, scope, run_uid, wait=True)
            await purging.set_run_erased(connection, scope, run_uid)
            row = await _kept(connection, scope, run_uid, None, by)
        await self._tell_queue(RunKey(scope, run))
        return row

    async def _tell_queue(self, key: RunKey) -> None:
        """Lower the run for every guard; where Redis is away the writer, who reads the row, still refuses."""
        try:
            await self._queue.narrow_run(key, state=Reason.ERASED.value)
        except Unavailable as outage:
            logger().warning(
                "queue_not_told", reason=outage.reason.value, cause=outage.cause, scope_id=key.scope
            )

    async def _named(self, scope: UUID, named: Named, by: str) -> ErasureRow:
        """Erase by identity. What waits gets its tombstone under the run's lock, after the row was looked for.

        A writer has either committed before (then the row is found) or will find the mark.
        """
        identity = (named.exchange, named.attempt, named.kind)
        waiting = await self._queue.identity(RunKey(scope, named.run), *identity)
        async with self._database.transaction() as connection:
            run_uid = await purging.run_named(connection, scope, named.run)
            if run_uid is None:
                raise NotFound
            await purging.lock_run(connection, scope, run_uid, wait=True)
            target = await purging.part_named(connection, scope, run_uid, *identity)
            if target is not None:
                await destroy_parts(connection, self._keyring, [target], Reason.ERASED, wait=True)
                return await _kept(connection, scope, run_uid, target.evidence, by)
            if waiting is None or waiting.evidence is None:
                raise NotFound
            await self._mark_waiting(connection, scope, named, waiting.evidence)
            return await _kept(connection, scope, run_uid, waiting.evidence, by)

    async def _mark_waiting(self, connection: Connection, scope: UUID, named: Named, evidence: UUID) -> None:
        key = self._keyring.token_key("lookup")
        identity = Identity(scope, named.run, named.exchange, named.attempt, named.kind)
        found = [marks.evidence_mark(key, scope, evidence), marks.identity_mark(key, identity)]
        await tombstones.leave(connection, scope, found, Reason.ERASED)


async def _kept(
    connection: Connection, scope: UUID, run_uid: UUID, evidence: UUID | None, by: str
) -> ErasureRow:
    before = await erasures.of_target(connection, scope, run_uid, evidence)
    if before is not None:
        return before
    erasure = ids.new_id()
    state = _ACCEPTED if evidence is None else _PURGING
    await erasures.insert(connection, scope, erasure, run_uid, evidence, state, by)
    target = run_uid if evidence is None else evidence
    await operator_actions.insert(connection, ids.ScopeId(scope), by, "erasure_asked", target.hex)
    row = await erasures.by_id(connection, scope, erasure)
    if row is None:
        raise Unavailable(Reason.STORE_UNAVAILABLE, "an erasure vanished")
    return row
