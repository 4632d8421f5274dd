"""What is not there, and why: rows that name an identity, and rows of ranges and counts.

Whoever changes the gaps of a run holds its lock (`lock_runs`), so that its bounds can be counted and kept.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from policies.sequences import SequenceSet
from store.db import Connection
from store.tables import load

_SQL: Final = load("gaps")

RunId = tuple[UUID, UUID]
"""A scope and a run in it."""


class Name(NamedTuple):
    """What a row that names an identity is about; there is one for each."""

    scope_id: UUID
    run_uid: UUID
    exchange: str
    attempt: str
    kind: str
    said_by: str
    reason: str


class Named(NamedTuple):
    """A row that names an identity; numbers are counted in the ranges, here they are for reading."""

    gap_id: UUID
    session: str | None
    sequence: int | None
    times: int
    first_at: datetime
    last_at: datetime


class RangeKey(NamedTuple):
    """What a row of ranges is about; without a session it only counts."""

    scope_id: UUID
    run_uid: UUID
    session: str | None
    said_by: str
    reason: str


class Ranges(NamedTuple):
    """The numbers of a session, and in `merged` how many more there were that are not kept apart."""

    gap_id: UUID
    sequences: SequenceSet
    merged: int
    first_at: datetime
    last_at: datetime


class Stored(NamedTuple):
    """A part that was just stored."""

    scope_id: UUID
    run_uid: UUID
    exchange: str
    attempt: str
    kind: str
    evidence: UUID


class Superseded(NamedTuple):
    """A gap, and the part that came after all."""

    scope_id: UUID
    run_uid: UUID
    gap_id: UUID
    evidence: UUID


async def lock_runs(connection: Connection, runs: Iterable[RunId]) -> None:
    """Be the only one to change the gaps of these runs until the transaction ends. Last of all locks."""
    # The tail of a run's id is random; two runs that share it only wait for each other.
    numbers = sorted({int.from_bytes(run_uid.bytes[8:], "big", signed=True) for _, run_uid in runs})
    await connection.execute(_SQL["lock_runs"], numbers)


async def named_counts(connection: Connection, runs: Collection[RunId]) -> dict[RunId, int]:
    """Return how many names each run's gaps hold; a run without any is left out."""
    rows = await connection.fetch(_SQL["named_counts"], *_columns(runs))
    return {(row["scope_id"], row["run_uid"]): row["names"] for row in rows}


async def named(connection: Connection, names: Sequence[Name]) -> dict[Name, Named]:
    """Return the rows that are there for these names."""
    rows = await connection.fetch(_SQL["named"], *zip(*names, strict=True))
    return {names[row["place"] - 1]: Named(*[row[field] for field in Named._fields]) for row in rows}


async def put_named(connection: Connection, rows: Iterable[tuple[Name, Named]]) -> None:
    """Write names, new or changed."""
    records = [(*name[:2], row.gap_id, *name[2:], *row[1:]) for name, row in rows]
    await connection.execute(_SQL["put_named"], *zip(*records, strict=True))


async def ranges(connection: Connection, runs: Collection[RunId]) -> dict[RangeKey, Ranges]:
    """Return every row of ranges and counts of these runs."""
    rows = await connection.fetch(_SQL["ranges"], *_columns(runs))
    return {
        RangeKey(*[row[field] for field in RangeKey._fields]): Ranges(
            row["gap_id"],
            SequenceSet.of((each.lower, each.upper) for each in row["sequences"] or ()),
            row["merged"],
            row["first_at"],
            row["last_at"],
        )
        for row in rows
    }


async def put_ranges(connection: Connection, rows: Iterable[tuple[RangeKey, Ranges]]) -> None:
    """Write rows of ranges and counts, new or changed."""
    records = [(*key[:2], row.gap_id, *key[2:], _text(row.sequences), *row[2:]) for key, row in rows]
    await connection.execute(_SQL["put_ranges"], *zip(*records, strict=True))


async def superseded(connection: Connection, stored: Sequence[Stored]) -> list[Superseded]:
    """Return the gaps that name what was just stored and are not marked yet."""
    rows = await connection.fetch(_SQL["superseded"], *zip(*stored, strict=True))
    return [Superseded(*row.values()) for row in rows]


async def supersede(connection: Connection, gaps: Sequence[Superseded]) -> None:
    """Mark gaps as superseded; they stay."""
    await connection.execute(_SQL["supersede"], *zip(*gaps, strict=True))


def _text(sequences: SequenceSet) -> str:
    return "{" + ",".join(f"[{start},{stop})" for start, stop in sequences.ranges) + "}"


def _columns(runs: Collection[RunId]) -> tuple[list[UUID], list[UUID]]:
    return [scope for scope, _ in runs], [run_uid for _, run_uid in runs]
