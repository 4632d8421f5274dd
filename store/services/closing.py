"""Closing a run: its sessions say how much they observed, and from then on only that is still taken, for a moment.

Of two numbers announced for one session the larger stays, as long as the run is closing: a smaller one would hide a
loss, a larger one can only show more of them. Once closed, nothing changes any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from policies.kinds import Mode, RunState, SaidBy
from policies.outcomes import Account, complete, reconcile
from policies.reasons import Reason
from store.db import Connection, Database
from store.errors import Malformed, Refused, Unavailable
from store.ids import ScopeId
from store.logging import logger
from store.queue import Queue, RunKey
from store.services.declaring import owned
from store.services.runs import RunBook
from store.tables import runs, sessions
from store.tables.runs import RunRow

# A session is a process of the runtime; whoever has more of them uses several runs.
MAX_SESSIONS: Final = 256
MAX_ANNOUNCED: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Closed:
    """How a run stands after a call to close it; `whole` None is unknown, also while something may still arrive."""

    row: RunRow
    accounts: Mapping[str, Account]
    whole: bool | None
    closing_until: datetime | None
    in_force: bool


class Closing:
    """Begins the end of runs. A duty ends them once nothing is on its way any more."""

    def __init__(self, database: Database, queue: Queue, book: RunBook, *, closing: timedelta) -> None:
        self._database = database
        self._queue = queue
        self._runs = book
        self._closing = closing

    async def close(
        self, key_id: str, scope: ScopeId, run: str, announced: Mapping[str, int | None]
    ) -> Closed:
        """Announce what sessions numbered and begin the closing; again it only answers how the run stands."""
        async with self._database.transaction() as connection:
            row = await runs.lock(connection, scope, run)
            if row is None:
                raise Refused(Reason.RUN_NOT_ADMITTED, "nobody declared this run")
            owned(row, key_id)
            if row.state is not RunState.CLOSED:
                await self._announce(connection, scope, row, announced)
                row = await runs.lock(connection, scope, run) or row
            named = await sessions.of_run(connection, scope, row.run_uid)
            accounts, whole = await _account(connection, scope, row, named)
        until = None if row.closing_at is None else row.closing_at + self._closing
        in_force = True
        if row.state is RunState.CLOSING and until is not None:
            in_force = await self._tell_queue(RunKey(scope, run), named, until)
        return Closed(row, accounts, whole, until, in_force)

    async def _announce(
        self, connection: Connection, scope: ScopeId, row: RunRow, announced: Mapping[str, int | None]
    ) -> None:
        # A temporary run leaves its id, its mode and counts, nothing else.
        if row.standing.mode is not Mode.TEMPORARY and announced:
            known = await sessions.of_run(connection, scope, row.run_uid)
            if len({*known, *announced}) > MAX_SESSIONS:
                raise Malformed(detail=f"a run has at most {MAX_SESSIONS} sessions")
            await sessions.announce(connection, scope, row.run_uid, announced)
        await runs.close(connection, scope, row.run_uid)

    async def _tell_queue(self, key: RunKey, named: Mapping[str, int | None], until: datetime) -> bool:
        numbers = {session: last for session, last in named.items() if last is not None}
        try:
            if (
                not await self._queue.close_run(key, numbers, until)
                and await self._runs.reopen(key) is not None
            ):
                await self._queue.close_run(key, numbers, until)
        except Unavailable as outage:
            logger().warning(
                "queue_not_told", reason=outage.reason.value, cause=outage.cause, scope_id=key.scope
            )
            return False
        finally:
            self._runs.forget(key)
        return True


async def _account(
    connection: Connection, scope: ScopeId, row: RunRow, named: Mapping[str, int | None]
) -> tuple[Mapping[str, Account], bool | None]:
    """Count what left a record so far. Before the end, only "everything is there" is known for good."""
    stored = await sessions.stored_numbers(connection, scope, row.run_uid)
    gaps = await sessions.gap_numbers(connection, scope, row.run_uid)
    accounts = reconcile(
        {session: last for session, last in named.items() if last is not None},
        stored,
        gaps.get(SaidBy.STORE, {}),
        gaps.get(SaidBy.CLIENT, {}),
    )
    whole = complete(accounts, await sessions.unnumbered_parts(connection, scope, row.run_uid))
    ended = row.state is RunState.CLOSED
    return accounts, whole if whole or ended else None
