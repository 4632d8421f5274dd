"""Runs: declared here, looked at by every guard. What is narrowed goes to the row, to Redis, into the answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from policies.kinds import RunState
from policies.reasons import Reason
from store import clock, tickets
from store.db import Connection, Database
from store.errors import Unavailable
from store.ids import RunUid, ScopeId, new_id
from store.keyring import Keyring
from store.logging import logger
from store.queue import Queue, RunKey
from store.services.declaring import (
    Declaration,
    declared,
    narrowed,
    owned,
    queue_state,
    refusal,
    source_set,
)
from store.services.keys import Caller
from store.services.last_known import PATIENCE_S, LastKnown
from store.services.opening import Held, RunOpening, announced_of, held_of
from store.services.run_facts import RunFacts, facts_of, facts_told, narrower
from store.services.scopes import Scope, ScopeBook, scope_from
from store.services.together import Together
from store.tables import runs, scopes, source_sets
from store.tables.runs import RunRow

# What is remembered of a run takes 1.2 KiB with three sources, 6 KiB with 32 and 10 KiB where these have long names: at
# most 40 MiB. Of more runs than that some are read again each time, many by one question.
_REMEMBERED: Final = 4_096
# Who owns a run never changes and its sources only grow, of which every process is told; this is for a word unheard.
_ROW_AGE_S: Final = 5.0
# How often a database that was away is asked again for the sake of a capture, which must not wait for it.
_RETRY_S: Final = 1.0
# Rows that several flushes ask for at once are read by one statement; a second group need not wait for a slow first.
_MOST_TOGETHER: Final = 64
_LANES: Final = 2


class KeyOfScope(Protocol):
    """Whoever has a key."""

    @property
    def key_id(self) -> str:
        """The key."""
        ...


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a declaration. `in_force` is False where Redis could not be told and only the writer knows yet."""

    scope: Scope
    row: RunRow
    reason: Reason | None
    new: bool
    in_force: bool
    ticket: str | None
    ticket_expires_at: datetime | None


class RunBook:
    """The runs of every scope: declaring, and a view of each that is at most `view_age` old."""

    def __init__(
        self,
        database: Database,
        queue: Queue,
        keyring: Keyring,
        scope_book: ScopeBook,
        *,
        view_age: timedelta,
        ticket_lifetime: timedelta,
        closing: timedelta,
    ) -> None:
        self._database = database
        self._queue = queue
        self._keyring = keyring
        self._scopes = scope_book
        self._ticket_lifetime = ticket_lifetime
        self._opening = RunOpening(queue, keyring, closing)
        self._views: LastKnown[RunKey, RunFacts] = LastKnown(
            self._read_view, age_s=view_age.total_seconds(), size=_REMEMBERED
        )
        self._together: Together[RunKey, RunFacts | None] = Together(
            self._read_rows, most=_MOST_TOGETHER, lanes=_LANES
        )
        self._rows: LastKnown[RunKey, RunFacts] = LastKnown(
            self._together.ask, age_s=_ROW_AGE_S, grace_s=_for_good, size=_REMEMBERED
        )
        self._away_until = float("-inf")
        queue.on_narrowed(self.forget)

    async def declare(self, who: Caller, scope_id: ScopeId, run: str, said: Declaration) -> Admission:
        """Take a declaration; the strictest of all of them holds. PERMISSION_DENIED where another key owns the run."""
        key = RunKey(scope_id, run)
        async with self._database.transaction() as connection:
            scope = await _scope(connection, scope_id)
            row, new = await self._write(connection, scope, who, run, said)
            held = Held() if new else await held_of(connection, scope_id, row)
        in_force = await self._tell_queue(key, scope, row, held, new=new)
        self.forget(key)
        reason = refusal(row)
        if reason is not None:
            return Admission(scope, row, reason, new, in_force, None, None)
        ticket = self._ticket(who, scope, row)
        text = tickets.issue(self._keyring.token_key("ticket"), ticket)
        return Admission(scope, row, None, new, in_force, text, ticket.expires_at)

    async def view(self, key: RunKey) -> RunFacts | None:
        """Return the run as the queue knows it, None if nobody declared it; Unavailable where that cannot be told."""
        return self._views.settled(key) or await self._views.get(key)

    def settled(self, key: RunKey) -> RunFacts | None:
        """Return the run that `view` last gave, as long as nobody need ask for it again, else None."""
        return self._views.settled(key)

    async def reopen(self, key: RunKey) -> RunFacts | None:
        """Make the queue know a run that it lost or forgot, from the database; None if nobody declared it."""
        facts = await self._reopen(key)
        self.forget(key)
        return facts

    async def _reopen(self, key: RunKey) -> RunFacts | None:
        async with self._database.transaction() as connection:
            row = await runs.by_name(connection, key.scope, key.run)
            if row is None:
                return None
            scope = await _scope(connection, ScopeId(key.scope))
            held = await held_of(connection, key.scope, row)
        # Nothing is taken for a run past its retention, not even a gap: Redis need not hold it.
        if queue_state(row) != Reason.RETENTION_EXPIRED:
            await self._opening.open(key, scope, row, held)
        return facts_of(row)

    async def recordable(self, who: KeyOfScope, key: RunKey) -> UUID | None:
        """Return the run's uid if this key may leave a gap in it; Unavailable where that cannot be told now."""
        row = await self._known_row(key)
        if row is None and clock.monotonic() < self._away_until:
            raise Unavailable(Reason.STORE_UNAVAILABLE, "away a moment ago")
        return row.run_uid if row is not None and (row.shared or row.owner_key == who.key_id) else None

    def forget(self, key: RunKey) -> None:
        """Drop what this process remembers of a run; called at once when any process narrows it."""
        self._views.drop(key)
        self._rows.drop(key)

    async def _write(
        self, connection: Connection, scope: Scope, who: Caller, run: str, said: Declaration
    ) -> tuple[RunRow, bool]:
        present = await runs.lock(connection, scope.scope_id, run)
        if present is None:
            now = await runs.now(connection)
            row = declared(self._keyring, scope, who.key_id, run, said, now)
            await _put_sources(connection, scope.scope_id, row)
            if await runs.insert(connection, scope.scope_id, row):
                return row, True
            present = await runs.lock(connection, scope.scope_id, run)
        if present is None:
            raise Unavailable(Reason.STORE_UNAVAILABLE, "a run vanished while it was declared")
        return await self._narrow(connection, scope, who, owned(present, who.key_id), said), False

    async def _narrow(
        self, connection: Connection, scope: Scope, who: Caller, present: RunRow, said: Declaration
    ) -> RunRow:
        row = narrowed(self._keyring, scope, present, said)
        if row == present:
            await runs.renew(connection, scope.scope_id, row.run_uid)
            return row
        await _put_sources(connection, scope.scope_id, row)
        changed = row.standing != present.standing or row.erased != present.erased
        await runs.narrow(connection, scope.scope_id, row, narrowed=changed)
        if row.erased and not present.erased:
            await runs.request_erasure(connection, scope.scope_id, row.run_uid, new_id(), who.key_id)
        return row

    async def _tell_queue(self, key: RunKey, scope: Scope, row: RunRow, held: Held, *, new: bool) -> bool:
        try:
            await self._opening.open(key, scope, row, held)
            if not new:
                reason = refusal(row)
                await self._queue.narrow_run(
                    key,
                    state=None if reason is None else reason.value,
                    retain_until=row.standing.retain_until,
                )
        except Unavailable as outage:
            _log_not_told(outage, scope.scope_id, row.run_uid)
            return False
        return True

    def _ticket(self, who: Caller, scope: Scope, row: RunRow) -> tickets.Ticket:
        return tickets.Ticket(
            scope=scope.scope_id,
            key_id=who.key_id,
            shared=row.shared,
            run=row.run,
            run_uid=row.run_uid,
            kinds=row.standing.kinds,
            limits=scope.policy.run_limits,
            scope_limits=scope.policy.scope_limits,
            policy_version=scope.version,
            retain_until=row.standing.retain_until,
            # Tickets are judged by the clocks of api processes, not by the database's.
            expires_at=min(clock.utc_now() + self._ticket_lifetime, row.standing.retain_until),
            sources=row.sources,
        )

    async def _read_view(self, key: RunKey) -> RunFacts | None:
        view = await self._queue.run_view(key)
        if view is None:
            return await self._reopen(key)
        told, row = facts_told(view), await self._known_row(key)
        if row is None:
            return told
        facts = narrower(row, told)
        if facts.state != told.state or facts.retain_until < told.retain_until:
            await self._tell_again(key, facts)
        # Nearly always it is what the row says: one object is then remembered, not two.
        return row if facts == row else facts

    async def _tell_again(self, key: RunKey, facts: RunFacts) -> None:
        """Say what the queue has missed; while it cannot be told, it holds here all the same."""
        try:
            if facts.state == RunState.CLOSING:
                await self._tell_closing(key)
            await self._queue.narrow_run(key, state=facts.state, retain_until=facts.retain_until)
        except Unavailable as outage:
            _log_not_told(outage, key.scope, facts.run_uid)

    async def _tell_closing(self, key: RunKey) -> None:
        async with self._database.connection() as connection:
            row = await runs.by_name(connection, key.scope, key.run)
            announced = {} if row is None else await announced_of(connection, key.scope, row)
        if row is not None:
            await self._opening.close(key, row, announced)

    async def _known_row(self, key: RunKey) -> RunFacts | None:
        """Return the row, the last known or None where Postgres is away: declared runs go on, on what tickets say."""
        if clock.monotonic() < self._away_until:
            return self._rows.last(key)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._rows.get(key)
        except (Unavailable, TimeoutError):
            self._away_until = clock.monotonic() + _RETRY_S
            return self._rows.last(key)

    async def _read_rows(self, keys: Sequence[RunKey]) -> Sequence[RunFacts | None]:
        async with self._database.connection() as connection:
            rows = await runs.by_names(connection, [(key.scope, key.run) for key in keys])
        return [None if row is None else facts_of(row) for row in rows]


async def _scope(connection: Connection, scope_id: ScopeId) -> Scope:
    row = await scopes.by_id(connection, scope_id)
    if row is None:
        raise Unavailable(Reason.STORE_UNAVAILABLE, "a key's scope is not there")
    return scope_from(row)


async def _put_sources(connection: Connection, scope: ScopeId, row: RunRow) -> None:
    found = source_set(scope, row)
    if found is not None:
        await source_sets.put(connection, [found])


def _for_good(_: RunFacts) -> float:
    return float("inf")


def _log_not_told(outage: Unavailable, scope: UUID, run_uid: RunUid) -> None:
    logger().warning(
        "queue_not_told", reason=outage.reason.value, cause=outage.cause, scope_id=scope, run_uid=run_uid
    )
