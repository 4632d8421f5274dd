"""Doing again what the log says happened after a backup, leaf by leaf and in its order.

Parts without a row were lost, and are kept as such; so are leaves of parts that a writer, who still had them in the
queue, has written again: another leaf counts then. Purged parts are closed and marked again, whatever holds say by
now: that they were destroyed has been published. With one that was erased or over go the facts of its run, since the
log does not say whether all of the run was; of a lost one nobody knows the run. Buckets expire as they did, holds are
placed and released, sources closed and opened. A run that was closed is closed again, of what there is; what its first
account was made of is lost.

How far it is goes with each transaction, so that whoever dies is followed by somebody who goes on there.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final
from uuid import UUID

from policies import holds as policy
from policies.holds import Placing, Reach
from policies.reasons import Reason
from store.db import Connection, Database
from store.errors import Corrupt
from store.keyring import Keyring
from store.services import marks
from store.services.destroying import MARKED, leave_marks
from store.services.restore_copy import Said, said
from store.services.restore_expiry import ExpiryAgain
from store.tables import facts, holds, log, purging, restores, tombstones
from store.tables.log import Entry
from store.tables.operator_actions import STORE_WIDE
from store.tables.restores import Changed, RestoreRow

# Who places and releases what a leaf says was placed and released: the log does not say who it was.
BY: Final = "restore"

_BATCH: Final = 1_000
_UNKNOWN: Final = Changed(unknown=1)
_AS_IT_WAS: Final = Changed()


class Replay:
    """`database` acts as the duties."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring
        self._expiry = ExpiryAgain(database, keyring)

    async def run(self, restore: RestoreRow) -> None:
        """Replay what was not replayed yet."""
        for first in range(restore.replayed_to, restore.to_index, _BATCH):
            end = min(first + _BATCH, restore.to_index)
            async with self._database.connection() as connection:
                entries = await log.entries(connection, first, end)
            if len(entries) != end - first:
                raise Corrupt(Reason.INTEGRITY_MISMATCH, "leaves are missing that were there")
            for stored, some in groupby(entries, key=lambda entry: entry.kind == "part"):
                if stored:
                    await self._stored(list(some))
                else:
                    for entry in some:
                        await self._happened(entry)

    async def _stored(self, entries: Sequence[Entry]) -> None:
        parts = []
        for entry in entries:
            told = said(entry.leaf)
            if told.p is not None and told.b is not None:
                parts.append((entry.scope_id, told.p, told.b, told.c, entry.idx))
        async with self._database.transaction() as connection:
            lost = await restores.lose(connection, parts)
            await restores.replayed(connection, entries[-1].idx + 1, Changed(lost=lost))

    async def _happened(self, entry: Entry) -> None:
        told = said(entry.leaf)
        if told.k == "expire" and told.b is not None:
            await self._expiry.move(entry.scope_id, told.b)
        async with self._database.transaction() as connection:
            changed = await self._one(connection, entry.scope_id, told)
            await restores.replayed(connection, entry.idx + 1, changed)

    async def _one(self, connection: Connection, scope: UUID, told: Said) -> Changed:
        if told.k in ("restore", "resume", "key"):
            return _AS_IT_WAS
        if told.k == "purge" and told.p is not None:
            return await self._purged(connection, scope, told.p, Reason(told.w or ""))
        if scope == STORE_WIDE:
            return _UNKNOWN
        if told.k == "expire" and told.b is not None:
            return Changed(expired=await self._expiry.expire(connection, scope, told.b, told.t))
        return await _of_scope(connection, scope, told)

    async def _purged(self, connection: Connection, scope: UUID, evidence: UUID, reason: Reason) -> Changed:
        target = await purging.part_of(connection, scope, evidence)
        if target is None:
            return await self._purged_lost(connection, scope, evidence, reason)
        await purging.lock_scope(connection, scope)
        await purging.lock_buckets(connection, scope, {target.bucket_id})
        run = await purging.lock_run(connection, scope, target.run_uid, wait=True)
        if run is None:
            return _UNKNOWN
        marked = await purging.mark(connection, scope, target.run_uid, [evidence], reason)
        await leave_marks(connection, self._keyring, scope, run.run, marked, reason)
        if reason in MARKED:
            await facts.end(connection, scope, target.run_uid)
        return Changed(purged=len(marked))

    async def _purged_lost(
        self, connection: Connection, scope: UUID, evidence: UUID, reason: Reason
    ) -> Changed:
        """Of a part without a row only its id is known, so that only its id can be marked."""
        if not await restores.purge_lost(connection, (scope, evidence), reason):
            return _UNKNOWN
        if reason in MARKED:
            mark = marks.evidence_mark(self._keyring.token_key("lookup"), scope, evidence)
            await tombstones.leave(connection, scope, [mark], reason)
        return Changed(purged=1)


async def _of_scope(connection: Connection, scope: UUID, told: Said) -> Changed:
    if told.k == "close" and told.r is not None:
        return Changed(closed=await restores.end_run(connection, (scope, told.r), told.t))
    if told.k == "revoke" and told.si is not None:
        return await _closed(connection, scope, told.si, told)
    return await _held(connection, scope, told)


async def _closed(connection: Connection, scope: UUID, source: UUID, told: Said) -> Changed:
    if told.sv is not None and not await restores.version_known(connection, (scope, source), told.sv):
        # Versions are no leaves: one that was added after the backup is not there.
        return _UNKNOWN
    closed = told.op != "restore"
    return Changed(
        closed=await restores.set_closed(connection, (scope, source), told.sv, told.t, closed=closed)
    )


async def _held(connection: Connection, scope: UUID, told: Said) -> Changed:
    if told.h is None or told.si is None or told.sk is None:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "a leaf of the log lacks what its kind has")
    hold = (scope, told.h)
    if told.op == "release":
        return Changed(held=1) if await restores.release(connection, hold, told.t, BY) else _UNKNOWN
    reach = Reach(told.sk)
    run, evidence = None, None
    if reach is Reach.PART:
        target = await purging.part_of(connection, scope, told.si)
        if target is None:
            return _UNKNOWN
        run, evidence = target.run_uid, told.si
        await holds.lock_buckets(connection, scope, {target.bucket_id})
    elif reach is Reach.RUN:
        run = told.si
    else:
        await holds.lock_scope_alone(connection, scope)
    if run is not None and await purging.lock_run(connection, scope, run, wait=True) is None:
        return _UNKNOWN
    answer = await _answer(connection, scope, run, evidence)
    placed = await restores.place(
        connection, hold, reach=reach, run=run, evidence=evidence, answer=answer, by=BY, at=told.t
    )
    return Changed(held=placed)


async def _answer(connection: Connection, scope: UUID, run: UUID | None, evidence: UUID | None) -> Placing:
    """Say what the hold finds, after everything that the log says happened before it."""
    if run is None or (evidence is None and await holds.takes_parts(connection, scope, run)):
        return Placing.PLACED
    if evidence is None:
        standings = await holds.standings_of_run(connection, scope, run)
    else:
        standing = await holds.standing_of_part(connection, scope, evidence)
        standings = [] if standing is None else [standing]
    answers = {
        policy.place(each.state, bucket_expired=each.bucket_expired, in_hold_bucket=each.in_hold_bucket)
        for each in standings
    }
    return Placing.PLACED if Placing.PLACED in answers else Placing.TOO_LATE
