"""A batch's facts: decided again under their runs' locks, written once each, and no more than a run may have.

Refused are those of runs that are not there, not admitted, erased or over, and those beyond the bound; no fact takes
another with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from policies.admission import admitted
from policies.decisions import Refuse
from policies.reasons import Reason
from store.db import Connection
from store.queue import Entry, FactHeader, Settlement
from store.services import facts
from store.services.recheck import Ground
from store.tables import facts as table
from store.tables.batch import Key
from store.tables.facts import Counted, NewFact


@dataclass(frozen=True, slots=True)
class FactEntry:
    """One fact as it waits, read."""

    entry: Entry
    row: NewFact
    run: str

    @property
    def key(self) -> Key:
        """The run that it is about."""
        return self.row.scope_id, self.row.run_uid


def fact_entry(entry: Entry, header: FactHeader) -> FactEntry:
    """Read an entry; ValueError where its body is no fact."""
    fact = facts.decode(header.body)
    row = NewFact(
        scope_id=UUID(bytes=header.scope),
        run_uid=UUID(bytes=header.run_uid),
        fact=fact.fact,
        fact_uid=UUID(bytes=header.fact_uid),
        type=facts.type_of(fact).value,
        action=getattr(fact, "action", None),
        exchange=getattr(fact, "exchange", None),
        at=fact.at,
        body=header.body,
    )
    return FactEntry(entry, row, header.run)


async def write_facts(
    connection: Connection, told: Iterable[FactEntry], ground: Ground, most: int
) -> list[Settlement]:
    """Write what is new, up to `most` of a run, and return what becomes of each entry."""
    settlements: list[Settlement] = []
    allowed: dict[Key, list[FactEntry]] = defaultdict(list)
    for each in told:
        reason = _refusal(each, ground)
        if reason is None:
            allowed[each.key].append(each)
        else:
            settlements.append(each.entry.settle("refused", reason))
    if allowed:
        settlements += await _write(connection, allowed, ground, most)
    return settlements


def _refusal(each: FactEntry, ground: Ground) -> Reason | None:
    run = ground.runs.get(each.key)
    if run is None or run.run != each.run:
        return Reason.RUN_NOT_ADMITTED
    if run.erased:
        return Reason.ERASED
    decision = admitted(run.standing, run.now)
    return decision.reason if isinstance(decision, Refuse) else None


async def _write(
    connection: Connection, allowed: dict[Key, list[FactEntry]], ground: Ground, most: int
) -> list[Settlement]:
    ends = {key: _end_of(key, ground) for key in sorted(allowed)}
    kept = await table.take_runs(connection, ends)
    known = await table.known(connection, [each.row for key in ends for each in allowed[key]])
    settlements: list[Settlement] = []
    new: list[NewFact] = []
    counted: list[Counted] = []
    for key in ends:
        rows, settled = _of_run(allowed[key], known, most - kept[key])
        new += rows
        settlements += settled
        counted.append(Counted(key, len(rows), any(each.reason is not None for each in settled)))
    if new:
        await table.copy(connection, new)
    await table.count(connection, counted)
    return settlements


def _of_run(
    told: Sequence[FactEntry], known: set[tuple[UUID, UUID, str]], room: int
) -> tuple[list[NewFact], list[Settlement]]:
    """Take what is new in the order told, as long as there is room; told again, the first stays."""
    new: dict[str, NewFact] = {}
    settlements = []
    for each in sorted(told, key=lambda each: each.row.fact_uid):
        again = each.row[:3] in known or each.row.fact in new
        if not again and len(new) >= room:
            settlements.append(each.entry.settle("refused", Reason.CAPACITY_EXCEEDED))
            continue
        if not again:
            new[each.row.fact] = each.row
        settlements.append(each.entry.settle("noted"))
    return list(new.values()), settlements


def _end_of(key: Key, ground: Ground) -> datetime:
    return ground.runs[key].standing.retain_until
