"""Erasures: asked for here, closed to readers before the answer, destroyed by the duty `purge`.

What a hold keeps is closed all the same; its destruction is deferred until the last hold ends.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store import ids
from store.commitments import Identity, leaf, lookup_hash
from store.db import Connection, Database
from store.errors import NotFound, Unavailable
from store.keyring import Keyring
from store.queue import Queue, RunKey
from store.services import marks, subjects
from store.services.destroying import destroy_parts
from store.tables import erasures, log_queue, operator_actions, purging, sources, tombstones
from store.tables import subjects as subject_rows
from store.tables.erasures import ErasureRow, Target
from store.tables.subjects import Subject

MOST_LISTED: Final = 200

_ACCEPTED: Final = "accepted"
_PURGING: Final = "purging"
_DEFERRED: Final = "deferred"
_HOLD: Final = "hold"


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


@dataclass(frozen=True, slots=True)
class WholeSource:
    """Everything that depends on a source, in whatever version; it is closed for good."""

    source: str


@dataclass(frozen=True, slots=True)
class WholeSubject:
    """Everything about a subject of which runs have been declared until now. Its text is kept nowhere."""

    subject: str


Asked = WholeRun | StoredPart | Named | WholeSource | WholeSubject


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
        if isinstance(asked, WholeSource):
            return await self._source(scope, asked.source, by)
        if isinstance(asked, WholeSubject):
            return await self._subject(scope, asked.subject, by)
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
            return await self._close_part(connection, scope, target, by)

    async def _close_part(
        self, connection: Connection, scope: UUID, part: purging.Target, by: str
    ) -> ErasureRow:
        done = await destroy_parts(connection, self._keyring, [part], Reason.ERASED, wait=True)
        state = _DEFERRED if done.deferred else _PURGING
        return await _kept(connection, scope, Target("part", part.run_uid, part.evidence), by, state)

    async def _run(self, scope: UUID, run: str, by: str) -> ErasureRow:
        async with self._database.transaction() as connection:
            run_uid = await purging.run_named(connection, scope, run)
            if run_uid is None:
                raise NotFound
            await purging.lock_run(connection, scope, run_uid, wait=True)
            await purging.set_run_erased(connection, scope, run_uid)
            row = await _kept(connection, scope, Target("run", run_uid), by)
        await subjects.tell_queue(self._queue, RunKey(scope, run))
        return row

    async def _source(self, scope: UUID, source: str, by: str) -> ErasureRow:
        """Close the source for good; what depends on it is destroyed without the time that a revocation leaves."""
        async with self._database.transaction() as connection:
            found = await sources.lock(connection, scope, source, None)
            if found is None:
                raise NotFound
            if not found.closed:
                await sources.set_closed(connection, scope, source, None, closed=True)
                told = leaf("revoke", op="revoke", si=found.source_uid, sv=None, t=found.at)
                await log_queue.copy(connection, [(scope, told)])
            await sources.set_erased(connection, scope, source)
            return await _kept(connection, scope, Target("source", source=source), by)

    async def _subject(self, scope: UUID, subject: str, by: str) -> ErasureRow:
        key = self._keyring.token_key("lookup")
        named = lookup_hash(key, "subject", scope, subject.encode())
        target = Target("subject", subject=named)
        async with self._database.transaction() as connection:
            if not await subject_rows.known(connection, scope, named):
                raise NotFound
            before = await erasures.of_target(connection, scope, target)
            # One that was asked for before is about what had been declared by then, and may wait for a hold for long.
            covered = before is not None and not await subject_rows.declared_since(
                connection, Subject(scope, named, before.requested_at)
            )
            row = before if before is not None and covered else await _new(connection, scope, target, by)
        await subjects.close(self._database, self._queue, Subject(scope, named, row.requested_at))
        return row

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
                return await self._close_part(connection, scope, target, by)
            if waiting is None or waiting.evidence is None:
                raise NotFound
            await self._mark_waiting(connection, scope, named, waiting.evidence)
            return await _kept(connection, scope, Target("part", run_uid, waiting.evidence), by, _PURGING)

    async def _mark_waiting(self, connection: Connection, scope: UUID, named: Named, evidence: UUID) -> None:
        key = self._keyring.token_key("lookup")
        identity = Identity(scope, named.run, named.exchange, named.attempt, named.kind)
        found = [marks.evidence_mark(key, scope, evidence), marks.identity_mark(key, identity)]
        await tombstones.leave(connection, scope, found, Reason.ERASED)


async def _kept(
    connection: Connection, scope: UUID, target: Target, by: str, state: str = _ACCEPTED
) -> ErasureRow:
    before = await erasures.of_target(connection, scope, target)
    return before if before is not None else await _new(connection, scope, target, by, state)


async def _new(
    connection: Connection, scope: UUID, target: Target, by: str, state: str = _ACCEPTED
) -> ErasureRow:
    erasure = ids.new_id()
    waits_for = _HOLD if state == _DEFERRED else None
    await erasures.insert(connection, scope, erasure, target, state=state, waits_for=waits_for, by=by)
    await operator_actions.insert(
        connection, ids.ScopeId(scope), by, "erasure_asked", _named(target, erasure)
    )
    row = await erasures.by_id(connection, scope, erasure)
    if row is None:
        raise Unavailable(Reason.STORE_UNAVAILABLE, "an erasure vanished")
    return row


def _named(target: Target, erasure: UUID) -> str:
    """Name in the record what was asked for: by ids of ours, of a subject only the erasure's."""
    return (target.evidence or target.run_uid or erasure).hex if target.source is None else target.source
