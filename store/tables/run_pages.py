"""What readers see of runs: their pages, what a run's closing counted, its attempts, and what is missing of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from policies.kinds import Dispatch, Kind, SaidBy, Settlement
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store.db import Connection, Record
from store.tables import load
from store.tables.pages import Keyset

_SQL: Final = load("run_pages")
# Numbers come as so many bits at a time: gathering ranges of them takes the database twice as long.
_BITS: Final = 64
_ALL: Final = (1 << _BITS) - 1


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run with the window of the statement that read it."""

    run_uid: UUID
    run: str
    state: str
    erased: bool
    mode: str
    content: str
    sampled: bool
    kinds: list[str]
    retain_until: datetime
    shared: bool
    labels: list[str]
    declared_at: datetime
    closing_at: datetime | None
    closed_at: datetime | None
    never_closed: bool
    opened_at: datetime
    read_at: datetime


@dataclass(frozen=True, slots=True)
class NumberedParts:
    """How many parts were stored, how many of them carry no number, and which numbers of each session were."""

    parts: int
    unnumbered: int
    sessions: Mapping[str, SequenceSet]


@dataclass(frozen=True, slots=True)
class RangeGap:
    """Which numbers of one session are missing for one reason."""

    session: str
    said_by: SaidBy
    reason: Reason
    sequences: SequenceSet


@dataclass(frozen=True, slots=True)
class GapRow:
    """One gap: of an identity, or of numbers of a session."""

    gap_id: UUID
    said_by: SaidBy
    reason: Reason
    session: str | None
    sequences: SequenceSet | None
    merged: int
    exchange: str | None
    attempt: str | None
    kind: Kind | None
    sequence: int | None
    times: int
    first_at: datetime
    last_at: datetime
    superseded_by: UUID | None
    opened_at: datetime
    read_at: datetime


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """What a runtime told of one attempt; a conflict is a later word that contradicts the first."""

    exchange: str
    attempt: str
    dispatch: Dispatch
    settlement: Settlement
    dispatch_conflict: str | None
    settlement_conflict: str | None
    first_at: datetime


@dataclass(frozen=True, slots=True)
class PlacedAttempt:
    """The `place`th of so many attempts of an exchange, and the names of those beside it."""

    attempt: AttemptRow
    place: int
    attempts: int
    previous: str | None
    following: str | None


@dataclass(frozen=True, slots=True)
class FoundAttempt:
    """An attempt that carries a reference; `tie` orders those of one instant."""

    run: str
    attempt: AttemptRow
    tie: UUID
    opened_at: datetime
    read_at: datetime


@dataclass(frozen=True, slots=True)
class PartOfRun:
    """One part in a run's timeline."""

    exchange: str
    attempt: str
    kind: Kind
    evidence: UUID
    received_at: datetime
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class NamedGap:
    """One observation in a run's timeline that did not become a part."""

    exchange: str
    attempt: str
    kind: Kind
    said_by: SaidBy
    reason: Reason
    first_at: datetime


async def runs(
    connection: Connection, scope: UUID, keyset: Keyset, limit: int, some: Sequence[UUID] | None = None
) -> list[RunRow]:
    """Return a scope's runs by the time of their declaration; only `some` of them, where given."""
    query, more = ("runs", ()) if some is None else ("some_runs", (list(some),))
    rows = await connection.fetch(
        _SQL[f"{query}_{keyset.order}"],
        scope,
        keyset.after_at,
        keyset.after_id,
        keyset.bound_at,
        limit,
        *more,
    )
    return [_run(row) for row in rows]


async def run_named(connection: Connection, scope: UUID, run: str) -> RunRow | None:
    """Return one run."""
    row = await connection.fetchrow(_SQL["run_named"], scope, run)
    return None if row is None else _run(row)


async def range_gaps(connection: Connection, scope: UUID, run_uid: UUID) -> list[RangeGap]:
    """Return what is missing by number: by session, and of each what the store said before what others said."""
    rows = await connection.fetch(_SQL["range_gaps"], scope, run_uid)
    return [
        RangeGap(
            row["session"],
            SaidBy(row["said_by"]),
            Reason(row["reason"]),
            _sequences(row["sequences"]),
        )
        for row in rows
    ]


async def counted_gaps(connection: Connection, scope: UUID, run_uid: UUID) -> dict[Reason, int]:
    """Return how many observations without a number of their own are missing, by reason."""
    counts: dict[Reason, int] = {}
    for row in await connection.fetch(_SQL["counted_gaps"], scope, run_uid):
        counts[Reason(row["reason"])] = counts.get(Reason(row["reason"]), 0) + row["missing"]
    return counts


async def numbered_parts(connection: Connection, scope: UUID, run_uid: UUID) -> NumberedParts:
    """Count the parts of a run that were stored, whatever became of them, and gather the numbers of its sessions."""
    rows = await connection.fetch(_SQL["numbered_parts"], scope, run_uid)
    ranges: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        if row["block"] is not None:
            ranges.setdefault(row["session"], []).extend(_of_bits(row["block"] * _BITS, row["bits"]))
    return NumberedParts(
        sum(row["parts"] for row in rows),
        sum(row["parts"] for row in rows if row["block"] is None),
        {session: SequenceSet.of(each) for session, each in ranges.items()},
    )


async def attempts_of_run(connection: Connection, scope: UUID, run_uid: UUID, limit: int) -> list[AttemptRow]:
    """Return the first attempts of a run of which anything was told."""
    return [_attempt(row) for row in await connection.fetch(_SQL["attempts_of_run"], scope, run_uid, limit)]


async def parts_of_run(connection: Connection, scope: UUID, run_uid: UUID, limit: int) -> list[PartOfRun]:
    """Return the first parts of a run."""
    rows = await connection.fetch(_SQL["parts_of_run"], scope, run_uid, limit)
    return [
        PartOfRun(
            row["exchange"],
            row["attempt"],
            Kind(row["kind"]),
            row["evidence"],
            row["received_at"],
            row["stored_at"],
        )
        for row in rows
    ]


async def named_gaps(connection: Connection, scope: UUID, run_uid: UUID, limit: int) -> list[NamedGap]:
    """Return what is missing of a run by identity, the strongest first; what was stored later is left out."""
    rows = await connection.fetch(_SQL["named_gaps"], scope, run_uid, limit)
    return [
        NamedGap(
            row["exchange"],
            row["attempt"],
            Kind(row["kind"]),
            SaidBy(row["said_by"]),
            Reason(row["reason"]),
            row["first_at"],
        )
        for row in rows
    ]


async def gaps_of_run(
    connection: Connection, scope: UUID, run_uid: UUID, after: UUID, limit: int
) -> list[GapRow]:
    """Return gaps of a run in the order in which they were first recorded."""
    rows = await connection.fetch(_SQL["gaps_of_run"], scope, run_uid, after, limit)
    return [_gap(row) for row in rows]


async def gap_of_identity(
    connection: Connection, scope: UUID, run: str, exchange: str, attempt: str, kind: Kind
) -> GapRow | None:
    """Return the strongest gap of an identity."""
    row = await connection.fetchrow(_SQL["gap_of_identity"], scope, run, exchange, attempt, kind)
    return None if row is None else _gap(row)


async def attempts_by_ref(
    connection: Connection, scope: UUID, ref: bytes, after: tuple[datetime, UUID], limit: int
) -> list[FoundAttempt]:
    """Return attempts that carry a reference's keyed hash, first ones first."""
    rows = await connection.fetch(_SQL["attempts_by_ref"], scope, ref, *after, limit)
    return [
        FoundAttempt(row["run"], _attempt(row), row["tie"], row["opened_at"], row["read_at"]) for row in rows
    ]


async def attempt_of_exchange(
    connection: Connection, scope: UUID, run: str, exchange: str, attempt: str | None
) -> PlacedAttempt | None:
    """Return one attempt among those of its exchange, the last where none is named; None where it is not known."""
    row = await connection.fetchrow(_SQL["attempt_of_exchange"], scope, run, exchange, attempt)
    if row is None:
        return None
    return PlacedAttempt(_attempt(row), row["place"], row["attempts"], row["previous"], row["following"])


def _run(row: Record) -> RunRow:
    return RunRow(**dict(row))


def _attempt(row: Record) -> AttemptRow:
    return AttemptRow(
        exchange=row["exchange"],
        attempt=row["attempt"],
        dispatch=Dispatch(row["dispatch"]),
        settlement=Settlement(row["settlement"]),
        dispatch_conflict=row["dispatch_conflict"],
        settlement_conflict=row["settlement_conflict"],
        first_at=row["first_at"],
    )


def _gap(row: Record) -> GapRow:
    return GapRow(
        gap_id=row["gap_id"],
        said_by=SaidBy(row["said_by"]),
        reason=Reason(row["reason"]),
        session=row["session"],
        sequences=None if row["sequences"] is None else _sequences(row["sequences"]),
        merged=row["merged"],
        exchange=row["exchange"],
        attempt=row["attempt"],
        kind=None if row["kind"] is None else Kind(row["kind"]),
        sequence=row["sequence"],
        times=row["times"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        superseded_by=row["superseded_by"],
        opened_at=row["opened_at"],
        read_at=row["read_at"],
    )


def _of_bits(base: int, bits: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of numbers from `base` on whose bits are set."""
    # Postgres has whole numbers with a sign only.
    left = bits & _ALL
    while left:
        first = (left & -left).bit_length() - 1
        count = (~(left >> first) & (left >> first) + 1).bit_length() - 1
        yield base + first, base + first + count
        left &= _ALL << first + count


def _sequences(ranges: Sequence[object] | None) -> SequenceSet:
    # asyncpg gives a multirange as a list of half-open ranges, in order.
    return SequenceSet.of((each.lower, each.upper) for each in ranges or ())  # type: ignore[attr-defined]
