"""What a run's sessions counted, committed to: when the run is closed, and again when more becomes known after that.

A close leaf commits to the record's bytes under an opening of its own; the record is kept beside it. Gaps may arrive
until a run's retention ends: then it is accounted for again, at most once a day and once at the end. The last counts.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from policies.kinds import RunState, SaidBy
from policies.outcomes import Account, reconcile
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store import ids
from store.commitments import close_bytes, close_commitment, leaf
from store.db import Connection, Database
from store.services import gap_records
from store.services.duties import Budget
from store.services.gap_records import Gap
from store.tables import closings, completeness, gaps, leases, log_queue, runs, sessions
from store.tables.closings import Due
from store.tables.runs import RunRow

DUTY: Final = "accounts"

_OPENING_BYTES: Final = 32
_RUNS: Final = 100
_BUDGET_S: Final = 20.0
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NONE: Final = UUID(int=0)
# A gap waits for its run's turn for a day; it is looked for once more than that.
_LOOK_BACK: Final = timedelta(days=2)


async def close(connection: Connection, scope: UUID, row: RunRow, *, never: bool) -> None:
    """End a run whose row is locked: what has no record becomes `unaccounted`, and the account is committed to."""
    accounts, stored = await accounts_of(connection, scope, row.run_uid)
    missing = [_unaccounted(scope, row, session, account) for session, account in accounts.items()]
    await gap_records.record(connection, [gap for gap in missing if gap.numbers], [], set())
    await runs.set_closed(connection, scope, row.run_uid, None, never_closed=never)
    await completeness.count(connection, scope, row.run_uid)
    record = await _record(connection, scope, row.run_uid, row.run, accounts, stored)
    await _commit_to(connection, scope, row, record)


async def close_again(connection: Connection, scope: UUID, row: RunRow) -> bool:
    """Account again for a closed run whose row is locked; False if that says nothing new."""
    await completeness.count(connection, scope, row.run_uid)
    record = await account(connection, scope, row.run_uid, row.run)
    if record == await closings.last_record(connection, scope, row.run_uid):
        return False
    await _commit_to(connection, scope, row, record)
    return True


async def account(connection: Connection, scope: UUID, run_uid: UUID, run: str) -> bytes:
    """Return what a closing would commit to now."""
    accounts, stored = await accounts_of(connection, scope, run_uid)
    return await _record(connection, scope, run_uid, run, accounts, stored)


@dataclass(frozen=True, slots=True)
class Accounts:
    """The duty that looks for closed runs of which more became known; `database` acts as the duties."""

    database: Database

    async def run(self) -> Mapping[str, int]:
        """Account for them again by key, as far as the time allows; the next run goes on from there."""
        again, budget, over = 0, Budget(_BUDGET_S), False
        async with self.database.connection() as connection:
            place = await leases.place(connection, DUTY)
        since, after = await self._beginning() if place is None else _read(place)
        while not over:
            async with self.database.connection() as connection:
                due = await closings.due_again(connection, since, after, _RUNS)
            for each in due:
                again += await self._again(each)
                after = each.scope_id, each.run_uid
            over = len(due) < _RUNS
            if budget.over:
                break
        if not over or place is not None:
            async with self.database.connection() as connection:
                await leases.keep_place(connection, DUTY, None if over else _written(since, after))
        return {"again": again}

    async def _again(self, due: Due) -> bool:
        async with self.database.transaction() as connection:
            row = await runs.lock(connection, due.scope_id, due.run)
            if row is None or row.state is not RunState.CLOSED:
                return False
            return await close_again(connection, due.scope_id, row)

    async def _beginning(self) -> "_Place":
        """Return since when gaps are looked for, and before which run."""
        async with self.database.connection() as connection:
            rows = [row for row in await leases.all_leases(connection) if row.duty == DUTY]
        before = rows[0].last_success if rows else None
        return (_BEGINNING if before is None else before - _LOOK_BACK), (_NONE, _NONE)


_Place = tuple[datetime, tuple[UUID, UUID]]


def _written(since: datetime, after: tuple[UUID, UUID]) -> str:
    return f"{since.isoformat()} {after[0].hex} {after[1].hex}"


def _read(place: str) -> _Place:
    since, scope, run = place.split()
    return datetime.fromisoformat(since), (UUID(scope), UUID(run))


Numbers = Mapping[str, SequenceSet]


async def accounts_of(
    connection: Connection, scope: UUID, run: UUID
) -> tuple[Mapping[str, Account], Numbers]:
    """Return what became of every session's numbers, and which are stored."""
    announced = await _announced(connection, scope, run)
    stored = await sessions.stored_numbers(connection, scope, run)
    said = await sessions.gap_numbers(connection, scope, run)
    return reconcile(announced, stored, said.get(SaidBy.STORE, {}), said.get(SaidBy.CLIENT, {})), stored


async def _announced(connection: Connection, scope: UUID, run: UUID) -> dict[str, int]:
    named = await sessions.of_run(connection, scope, run)
    return {session: last for session, last in named.items() if last is not None}


async def _record(
    connection: Connection,
    scope: UUID,
    run_uid: UUID,
    run: str,
    accounts: Mapping[str, Account],
    stored: Numbers,
) -> bytes:
    return close_bytes(
        scope,
        run,
        sessions=await _announced(connection, scope, run_uid),
        stored=await closings.parts_of_run(connection, scope, run_uid),
        not_captured=await _not_captured(connection, scope, run_uid, stored),
        unaccounted=sum(account.unaccounted.count for account in accounts.values()),
    )


async def _commit_to(connection: Connection, scope: UUID, row: RunRow, record: bytes) -> None:
    opening = ids.secret(_OPENING_BYTES)
    await closings.keep(connection, scope, row.run_uid, row.now, opening, record)
    entry = leaf("close", t=row.now, m=close_commitment(opening, record), r=row.run_uid)
    await log_queue.copy(connection, [(scope, entry)])


def _unaccounted(scope: UUID, row: RunRow, session: str, account: Account) -> Gap:
    return Gap(
        run=(scope, row.run_uid), said_by=SaidBy.COUNT.value, reason=Reason.UNACCOUNTED, at=row.now, again=False,
        session=session, numbers=account.unaccounted,
    )  # fmt: skip


async def _not_captured(connection: Connection, scope: UUID, run: UUID, stored: Numbers) -> Mapping[str, int]:
    """Count losses by reason: numbers that were not stored after all, what was merged, and names without a number."""
    counts = Counter(await closings.names_without_numbers(connection, scope, run))
    for key, row in (await gaps.ranges(connection, [(scope, run)])).items():
        if key.said_by != SaidBy.COUNT:
            kept = stored.get(key.session or "", SequenceSet())
            counts[key.reason] += row.sequences.minus(kept).count + row.merged
    return {reason: count for reason, count in sorted(counts.items()) if count}
