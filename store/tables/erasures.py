"""Erasures that operators asked for: accepted, purging, purged; or deferred, while a hold keeps something of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from store.db import Connection, Record
from store.tables import load

_SQL = load("erasures")


class Target(NamedTuple):
    """What is to be erased: a part (with its run), a run, all that depends on a source, or all about a subject."""

    kind: str
    run_uid: UUID | None = None
    evidence: UUID | None = None
    source: str | None = None
    subject: bytes | None = None


@dataclass(frozen=True, slots=True)
class ErasureRow:
    """One erasure; `run` is None also where the run's metadata is kept no longer."""

    erasure_id: UUID
    target_kind: str
    run_uid: UUID | None
    run: str | None
    evidence: UUID | None
    source: str | None
    state: str
    waits_for: str | None
    requested_at: datetime
    purged_at: datetime | None


class Uncleared(NamedTuple):
    """An erasure of which the queue may hold something: of one run, or where `run` is None of any in its scope.

    `age_s` is how long ago it was asked for, by database time.
    """

    scope_id: UUID
    erasure_id: UUID
    run: str | None
    age_s: float


async def of_target(connection: Connection, scope: UUID, target: Target) -> ErasureRow | None:
    """Return the erasure of the same target that was last asked for before."""
    return _row(await connection.fetchrow(_SQL["of_target"], scope, *target))


async def insert(
    connection: Connection,
    scope: UUID,
    erasure: UUID,
    target: Target,
    *,
    state: str,
    waits_for: str | None,
    by: str,
) -> datetime:
    """Keep what was asked for; return when."""
    at: datetime = await connection.fetchval(_SQL["insert"], scope, erasure, *target, state, waits_for, by)
    return at


async def by_id(connection: Connection, scope: UUID, erasure: UUID) -> ErasureRow | None:
    """Return one erasure."""
    return _row(await connection.fetchrow(_SQL["by_id"], scope, erasure))


async def latest(connection: Connection, scope: UUID, before: UUID | None, limit: int) -> list[ErasureRow]:
    """Return the newest erasures of a scope, or those before an id."""
    return [_of(row) for row in await connection.fetch(_SQL["latest"], scope, before, limit)]


async def begin(connection: Connection) -> None:
    """Say of all that was accepted that it is worked on."""
    await connection.execute(_SQL["begin"])


async def uncleared(connection: Connection) -> list[Uncleared]:
    """Return the erasures of which the queue may hold something."""
    return [Uncleared(*row.values()) for row in await connection.fetch(_SQL["uncleared"])]


async def set_cleared(connection: Connection, scope: UUID, erasure: UUID) -> None:
    """Say that neither the queue nor its file holds anything of it."""
    await connection.execute(_SQL["set_cleared"], scope, erasure)


async def settle(connection: Connection) -> None:
    """Say of every erasure how far it is, and answer it as purged if nothing of it is left."""
    await connection.execute(_SQL["settle"])


def _row(row: Record | None) -> ErasureRow | None:
    return None if row is None else _of(row)


def _of(row: Record) -> ErasureRow:
    return ErasureRow(
        row["erasure_id"], row["target_kind"], row["run_uid"], row["run"], row["evidence"], row["source"],
        row["state"], row["waits_for"], row["requested_at"], row["purged_at"],
    )  # fmt: skip
