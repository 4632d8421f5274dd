"""Whether what is counted of closed runs still is what their last closing committed to.

Its record is held against the log elsewhere; here what readers are shown is held against it: numbers announced, parts
and gaps. Gaps that came after it make a run's account differ until the next closing, and so does a part that had been
counted as missing: such a run is passed over.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

from policies.kinds import RunState, SaidBy
from policies.sequences import SequenceSet
from store.db import Connection, Database
from store.services import accounting
from store.tables import closings, gaps, verify
from store.tables.closings import Accounted
from store.tables.verify import FIRST

SayOf = Callable[[str, UUID | None, object], None]
"""Takes what is wrong, of which scope, and where."""

# Each is a few questions, all of them in one snapshot.
_RUNS: Final = 100


class _Counts(msgspec.Struct):
    unaccounted: int


class _Record(msgspec.Struct):
    counts: _Counts


async def check(database: Database, say: SayOf) -> int:
    """Account for closed runs anew; return how many there were."""
    checked, last = 0, FIRST
    while True:
        async with database.transaction() as connection:
            await verify.from_one_instant(connection)
            rows = await closings.accounted_after(connection, last, _RUNS)
            for row in rows:
                if row.state != RunState.CLOSED:
                    say("run_reopened", row.scope_id, row.run_uid)
                if not await _stands(connection, row):
                    say("account_mismatch", row.scope_id, row.run_uid)
        checked += len(rows)
        if len(rows) < _RUNS:
            return checked
        last = rows[-1][:2]


async def _stands(connection: Connection, row: Accounted) -> bool:
    now = await accounting.account(connection, row.scope_id, row.run_uid, row.run)
    return now == row.record and (row.first is None or await _counted(connection, row, row.first))


async def _counted(connection: Connection, row: Accounted, first: bytes) -> bool:
    """Say whether what the first closing found missing by counting stands there as gaps, number by number."""
    try:
        missing = msgspec.json.decode(first, type=_Record).counts.unaccounted
    except msgspec.MsgspecError:
        return False
    found = await gaps.ranges(connection, [(row.scope_id, row.run_uid)])
    counted = {key.session: each for key, each in found.items() if key.said_by == SaidBy.COUNT}
    merged = sum(each.merged for each in counted.values())
    numbers = {session: each.sequences for session, each in counted.items()}
    accounts, _ = await accounting.accounts_of(connection, row.scope_id, row.run_uid)
    unsaid = sum(
        account.unaccounted.minus(numbers.get(session, SequenceSet())).count
        for session, account in accounts.items()
    )
    return sum(each.count for each in numbers.values()) + merged == missing and unsaid <= merged
