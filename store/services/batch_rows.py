"""What one transaction of a writer writes, and what it will say of each entry once that is committed."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

from policies.decisions import Refuse
from policies.kinds import PartState, SaidBy
from policies.outcomes import NOTHING
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store import commitments
from store.db import Connection
from store.queue import Entry, Settlement
from store.queue.entries import GapHeader, Header, PartHeader, StateHeader
from store.services.fact_rows import FactEntry
from store.services.gap_records import Gap
from store.services.recheck import Ground, Later, recheck
from store.services.sealing import Candidate, Sealed, instant
from store.services.told import told
from store.tables import attempts, bodies, log_queue, parts
from store.tables.batch import Key
from store.tables.gaps import Stored
from store.tables.parts import Holder, Identified, NewPart

_NOBODY: Final = Refuse(Reason.RUN_NOT_ADMITTED)


@dataclass(slots=True)
class Batch:
    """Entries, ready to be decided about."""

    parts: list[Candidate] = field(default_factory=list)
    states: list[tuple[Entry, StateHeader]] = field(default_factory=list)
    gaps: list[tuple[Entry, Gap]] = field(default_factory=list)
    facts: list[FactEntry] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Say whether anything is to be decided about."""
        return bool(self.parts or self.states or self.gaps or self.facts)

    def runs(self) -> set[Key]:
        """Return every run that the batch touches."""
        found = {part.place.key for part in self.parts}
        found |= {run_of(header) for _, header in self.states}
        found |= {each.key for each in self.facts}
        return found | {gap.run for _, gap in self.gaps}


@dataclass(slots=True)
class Verdicts:
    """What becomes of a batch, as far as it was decided."""

    settlements: list[Settlement] = field(default_factory=list)
    waiting: list[Entry] = field(default_factory=list)
    faulty: list[Entry] = field(default_factory=list)
    stale: list[Entry] = field(default_factory=list)
    stored: list[tuple[Candidate, Sealed]] = field(default_factory=list)
    states: list[StateHeader] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    def runs(self) -> set[Key]:
        """Return the runs of the parts that are new."""
        return {part.place.key for part, _ in self.stored}

    def names(self, runs: Collection[Key]) -> list[Stored]:
        """Return the identities of the parts of these runs that are new."""
        parts_of = [part for part, _ in self.stored if part.place.key in runs] if runs else []
        return [Stored(*_identified(part), part.evidence) for part in parts_of]

    def refuse(self, part: Candidate, reason: Reason, ground: Ground) -> None:
        """Settle a part as refused, with a gap where there is a run to record it in."""
        self.settlements.append(part.entry.settle("refused", reason))
        if part.place.key in ground.runs:
            self.gaps.append(loss(part.entry, part.header, reason))


def run_of(header: Header) -> Key:
    """Return the run that an entry belongs to."""
    return _key(header.scope, header.run_uid)


@lru_cache(maxsize=8_192)
def _key(scope: bytes, run_uid: bytes) -> Key:
    # Asked several times for every entry, and the runs of a batch are few.
    return UUID(bytes=scope), UUID(bytes=run_uid)


def loss(entry: Entry, header: PartHeader, reason: Reason) -> Gap:
    """Return the gap of a part that the store does not take."""
    numbered = header.session is not None and header.sequence is not None
    return Gap(
        run=run_of(header),
        said_by=SaidBy.STORE,
        reason=reason,
        at=instant(header.received_at),
        again=entry.again,
        session=header.session,
        numbers=SequenceSet().add(header.sequence or 0) if numbered else NOTHING,
        identity=(header.exchange, header.attempt, header.kind),
    )


def reported(entry: Entry, header: GapHeader) -> Gap:
    """Return the gap that an entry reports; ValueError where it is none."""
    names = (header.exchange, header.attempt, header.kind)
    numbers = NOTHING
    if header.session is not None and header.first is not None:
        numbers = SequenceSet.of([(header.first, (header.last or header.first) + 1)])
    return Gap(
        run=run_of(header),
        said_by=SaidBy(header.said_by),
        reason=entry.reason or Reason(header.reason or ""),
        at=instant(header.at),
        again=entry.again,
        session=header.session,
        numbers=numbers,
        identity=None if None in names else (names[0] or "", names[1] or "", names[2] or ""),
    )


async def write_parts(
    connection: Connection, candidates: Iterable[Candidate], ground: Ground, *, fresh: bool
) -> Verdicts:
    """Write the parts that may be written, with their bodies and leaves.

    Taken as `fresh`, an identity that somebody has raises RowRefused; else it is found, which costs more for each part.
    """
    verdicts = Verdicts()
    refused: list[tuple[Candidate, Refuse]] = []
    ready: list[tuple[Candidate, Sealed]] = []
    for part in candidates:
        verdict = recheck(part, ground)
        if isinstance(verdict, Refuse):
            refused.append((part, verdict))
        elif verdict is Later.STALE:
            verdicts.stale.append(part.entry)
        elif verdict is Later.FAULTY:
            verdicts.faulty.append(part.entry)
        elif verdict is Later.WAITING or part.sealed is None:
            verdicts.waiting.append(part.entry)
        else:
            ready.append((part, part.sealed))
    ready.sort(key=_identity_order)
    if fresh:
        taken: Sequence[Candidate] = ()
        await _copy(connection, ready, verdicts, ground)
    else:
        taken = await _insert(connection, ready, verdicts, ground)
    await _answer(connection, refused, taken, verdicts, ground)
    return verdicts


async def write_notes(connection: Connection, batch: Batch, verdicts: Verdicts, ground: Ground) -> None:
    """Settle states and gaps, and write what was told of attempts."""
    temporary = ground.temporary()
    for entry, header in batch.states:
        known = run_of(header) in ground.runs
        verdicts.settlements.append(
            entry.settle("noted") if known else entry.settle("refused", _NOBODY.reason)
        )
        # A temporary run leaves counts by reason, nothing else.
        if known and run_of(header) not in temporary:
            verdicts.states.append(header)
    for entry, gap in batch.gaps:
        known = gap.run in ground.runs
        verdicts.settlements.append(
            entry.settle("noted") if known else entry.settle("refused", _NOBODY.reason)
        )
        if known:
            verdicts.gaps.append(gap)
    rows = told((part.header for part, _ in verdicts.stored), verdicts.states)
    if rows:
        await attempts.tell(connection, rows)


async def _copy(
    connection: Connection, ready: Sequence[tuple[Candidate, Sealed]], verdicts: Verdicts, ground: Ground
) -> None:
    if ready:
        await parts.copy(connection, [sealed.row for _, sealed in ready], _now(ready, ground))
        verdicts.stored += ready
        await _write_rest(connection, verdicts, ground)


async def _insert(
    connection: Connection, ready: Sequence[tuple[Candidate, Sealed]], verdicts: Verdicts, ground: Ground
) -> list[Candidate]:
    """Insert, and return those whose identity was taken."""
    if not ready:
        return []
    inserted = await parts.insert(connection, [sealed.row for _, sealed in ready])
    taken: list[Candidate] = []
    for part, sealed in ready:
        if part.evidence not in inserted:
            taken.append(part)
            continue
        # One entry may come twice in a batch; its rows come once.
        inserted.discard(part.evidence)
        verdicts.stored.append((part, sealed))
    if verdicts.stored:
        await _write_rest(connection, verdicts, ground)
    return taken


async def _write_rest(connection: Connection, verdicts: Verdicts, ground: Ground) -> None:
    """Write the bodies and leaves of the parts that are stored."""
    now = _now(verdicts.stored, ground)
    await bodies.copy(connection, [sealed.body for _, sealed in verdicts.stored])
    await log_queue.copy(connection, [_leaf(sealed.row, now) for _, sealed in verdicts.stored])
    verdicts.settlements += [part.entry.settle("stored") for part, _ in verdicts.stored]


async def _answer(
    connection: Connection,
    refused: Sequence[tuple[Candidate, Refuse]],
    taken: Sequence[Candidate],
    verdicts: Verdicts,
    ground: Ground,
) -> None:
    """Answer for what was not inserted: one that was written before is stored, whatever is asked of it now."""
    if not refused and not taken:
        return
    asked = {_identified(part) for part in (*taken, *(part for part, _ in refused))}
    holders = await parts.holders(connection, list(asked))
    for part, refusal in [*((part, None) for part in taken), *refused]:
        holder = holders.get(_identified(part))
        if holder is not None and holder.evidence == part.evidence:
            verdicts.settlements.append(part.entry.settle("stored"))
        else:
            verdicts.refuse(part, refusal.reason if refusal else _taken_by(holder), ground)


def _taken_by(holder: Holder | None) -> Reason:
    if holder is None or holder.state in (PartState.STORED, PartState.LOST_IN_RESTORE):
        return Reason.IDENTITY_CONFLICT
    return Reason.RETENTION_EXPIRED if holder.purge_reason is Reason.RETENTION_EXPIRED else Reason.ERASED


def _now(ready: Sequence[tuple[Candidate, Sealed]], ground: Ground) -> datetime:
    # The transaction's time: the same for all of its runs.
    return ground.runs[ready[0][0].place.key].now


def _leaf(row: NewPart, now: datetime) -> tuple[UUID, bytes]:
    return row.scope_id, commitments.part_leaf(
        row.bucket_id, row.evidence, row.commitment, row.meta_commitment, now
    )


def _identified(part: Candidate) -> Identified:
    header = part.header
    return Identified(*part.place.key, header.exchange, header.attempt, header.kind)


def _identity_order(each: tuple[Candidate, Sealed]) -> bytes:
    # One order for all writers, whichever: batches in other orders deadlock.
    return each[0].named
