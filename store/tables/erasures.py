"""Erasures that operators asked for: accepted, purging, purged."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from store.db import Connection, Record
from store.tables import load

_SQL = load("erasures")


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """One erasure; `evidence` is None where it is a whole run's."""

    erasure_id: UUID
    target_kind: str
    run_uid: UUID
    run: str
    evidence: UUID | None
    state: str
    requested_at: datetime
    purged_at: datetime | None


Erasure = tuple[UUID, UUID]
"""A scope, and an erasure in it."""


async def of_target(
    connection: Connection, scope: UUID, run: UUID, evidence: UUID | None
) -> ErasureRow | None:
    """Return the erasure of the same target, which was asked for before."""
    return _row(await connection.fetchrow(_SQL["of_target"], scope, run, evidence))


async def insert(
    connection: Connection, scope: UUID, erasure: UUID, run: UUID, evidence: UUID | None, state: str, by: str
) -> None:
    """Keep what was asked for."""
    kind = "run" if evidence is None else "part"
    await connection.execute(_SQL["insert"], scope, erasure, kind, run, evidence, state, by)


async def by_id(connection: Connection, scope: UUID, erasure: UUID) -> ErasureRow | None:
    """Return one erasure."""
    return _row(await connection.fetchrow(_SQL["by_id"], scope, erasure))


async def latest(connection: Connection, scope: UUID, before: UUID | None, limit: int) -> list[ErasureRow]:
    """Return the newest erasures of a scope, or those before an id."""
    return [_of(row) for row in await connection.fetch(_SQL["latest"], scope, before, limit)]


async def begin(connection: Connection) -> None:
    """Say of all that was accepted that it is worked on."""
    await connection.execute(_SQL["begin"])


async def open_for_s(connection: Connection) -> dict[Erasure, float]:
    """Return how long ago each erasure was asked for that is worked on, by database time."""
    rows = await connection.fetch(_SQL["open"])
    return {(row["scope_id"], row["erasure_id"]): row["age_s"] for row in rows}


async def set_purged(connection: Connection, erasure: Erasure) -> None:
    """Answer it as purged from now on, if no part of it is left."""
    await connection.execute(_SQL["set_purged"], *erasure)


def _row(row: Record | None) -> ErasureRow | None:
    return None if row is None else _of(row)


def _of(row: Record) -> ErasureRow:
    return ErasureRow(
        row["erasure_id"], row["target_kind"], row["run_uid"], row["run"], row["evidence"], row["state"],
        row["requested_at"], row["purged_at"],
    )  # fmt: skip
