"""Gaps, written within their bounds: names for reading, numbers as ranges, and exact counts of whatever does not fit.

How many observations a reason took is the sum of all numbers and `merged` counts of its rows of ranges, and of `times`
of those names that have no number.

Numbers are a union, so that a report that comes twice changes nothing of them. Counts know no single report: of one
that may have been written before, the row's time tells, as far as it can. Where Redis itself goes back, by the second
that a power loss or a failover costs it, what was settled in that second comes as if for the first time, and counts
again: nothing tells it from what is new.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from policies.outcomes import NOTHING
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store.db import Connection
from store.ids import new_gap_id
from store.tables import gaps as table
from store.tables.gaps import Name, Named, RangeKey, Ranges, RunId, Stored

MOST_NAMES: Final = 256
"""Names in the gaps of one run."""
MOST_RANGES: Final = 64
"""Ranges of one session of a run, over all reasons."""
MOST_RANGE_ROWS: Final = 256
"""Rows of ranges of one run: sessions are named by callers, so that their number needs a bound too."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One report that something is not there. `again` says that it may have been written before."""

    run: RunId
    said_by: str
    reason: Reason
    at: datetime
    again: bool
    session: str | None = None
    numbers: SequenceSet = NOTHING
    identity: tuple[str, str, str] | None = None

    @property
    def count(self) -> int:
        """How many observations it is about."""
        return self.numbers.count or 1

    def bare(self) -> "Gap":
        """Return what may be kept of it where nothing may be named: that it was, and why."""
        return replace(self, session=None, identity=None)


async def record(
    connection: Connection, gaps: Sequence[Gap], stored: Sequence[Stored], bare: Collection[RunId]
) -> None:
    """Write gaps, and mark those whose part was stored after all. Runs in `bare` keep counts by reason only."""
    late = await table.superseded(connection, stored) if stored else []
    runs = {gap.run for gap in gaps} | {(gap.scope_id, gap.run_uid) for gap in late}
    if not runs:
        return
    await table.lock_runs(connection, runs)
    if gaps:
        kept = [gap.bare() if gap.run in bare else gap for gap in gaps]
        await _put_ranges(connection, await _put_names(connection, kept), bare)
        # What the store said of an identity that is stored by this very batch was not there to be found before.
        again = await table.superseded(connection, stored) if stored else []
        late = [gap for gap in again if (gap.scope_id, gap.run_uid) in runs]
    if late:
        await table.supersede(connection, late)


async def _put_names(connection: Connection, gaps: Sequence[Gap]) -> list[Gap]:
    """Write what is named, and return what remains to be counted."""
    said: dict[Name, list[Gap]] = {}
    rest: list[Gap] = []
    for gap in gaps:
        if gap.identity is not None:
            said.setdefault(Name(*gap.run, *gap.identity, gap.said_by, gap.reason.value), []).append(gap)
        if gap.identity is None or gap.numbers:
            rest.append(gap)
    if not said:
        return rest
    known = await table.named(connection, list(said))
    room = await _room(connection, said)
    rows: list[tuple[Name, Named]] = []
    for name in sorted(said):
        if name not in known:
            if not room[name[:2]]:
                rest += [gap.bare() for gap in said[name] if not gap.numbers]
                continue
            room[name[:2]] -= 1
        rows.append((name, _named(known.get(name), said[name])))
    if rows:
        await table.put_named(connection, rows)
    return rest


async def _room(connection: Connection, names: Iterable[Name]) -> dict[RunId, int]:
    runs = {name[:2] for name in names}
    counts = await table.named_counts(connection, runs)
    return {run: max(0, MOST_NAMES - counts.get(run, 0)) for run in runs}


def _named(row: Named | None, said: Sequence[Gap]) -> Named:
    fresh = [gap for gap in said if row is None or not _had(gap, row.last_at)]
    number = next((gap for gap in said if gap.numbers.count == 1), None)
    times = [gap.at for gap in said]
    if row is None:
        row = Named(new_gap_id(), None, None, 0, min(times), max(times))
    return row._replace(
        session=row.session or said[0].session,
        sequence=row.sequence or (number.numbers.ranges[0][0] if number else None),
        times=row.times + len(fresh),
        first_at=min(row.first_at, *times),
        last_at=max(row.last_at, *times),
    )


def _had(gap: Gap, last_at: datetime) -> bool:
    """Say whether a report that was delivered before is in the row already, as far as that can be told."""
    return gap.again and gap.at <= last_at


async def _put_ranges(connection: Connection, gaps: Sequence[Gap], bare: Collection[RunId]) -> None:
    if not gaps:
        return
    rows = await table.ranges(connection, {gap.run for gap in gaps})
    before = dict(rows)
    for gap in gaps:
        key = _range_key(gap, rows, bare)
        row = rows.get(key) or Ranges(new_gap_id(), SequenceSet(), 0, gap.at, gap.at)
        rows[key] = _counted(row, gap, key, rows, had=key in before and _had(gap, before[key].last_at))
    changed = [(key, row) for key, row in rows.items() if row != before.get(key)]
    if changed:
        await table.put_ranges(connection, changed)


def _range_key(gap: Gap, rows: Collection[RangeKey], bare: Collection[RunId]) -> RangeKey:
    key = RangeKey(*gap.run, gap.session, gap.said_by, gap.reason.value)
    full = key not in rows and sum(each[:2] == gap.run for each in rows) >= MOST_RANGE_ROWS
    return key._replace(session=None) if full or gap.run in bare else key


def _counted(row: Ranges, gap: Gap, key: RangeKey, rows: dict[RangeKey, Ranges], *, had: bool) -> Ranges:
    row = row._replace(first_at=min(row.first_at, gap.at), last_at=max(row.last_at, gap.at))
    if key.session is not None and gap.numbers:
        union = row.sequences.union(gap.numbers)
        others = sum(
            len(other.sequences.ranges) for its, other in rows.items() if its[:3] == key[:3] and its != key
        )
        if others + len(union.ranges) <= MOST_RANGES:
            return row._replace(sequences=union)
        uncounted = gap.numbers.minus(row.sequences).count
    else:
        uncounted = gap.count
    return row if had else row._replace(merged=row.merged + uncounted)
