"""Exports as they were asked for: parts by evidence reference, runs, and the tree that their proofs are made from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from store.db import Connection
from store.ids import ExportId
from store.tables import load

_SQL: Final = load("exports")


@dataclass(frozen=True, slots=True)
class NewExport:
    """An export that is to be kept."""

    scope_id: UUID
    export_id: ExportId
    requested_by: str
    purpose: str | None
    evidence: Sequence[UUID]
    runs: Sequence[UUID]
    anchors: Sequence[int]
    tree_size: int


@dataclass(frozen=True, slots=True)
class ExportRow:
    """An export that may be fetched."""

    export_id: ExportId
    requested_at: datetime
    purpose: str | None
    evidence: Sequence[UUID]
    runs: Sequence[UUID]
    anchors: Sequence[int]
    tree_size: int


@dataclass(frozen=True, slots=True)
class StandingRow:
    """An export in numbers: `state` is ready, begun or given, and `given_at` when it was sent to its last byte.

    `done` parts are in the bundle that is being made; None where none is.
    """

    export_id: ExportId
    requested_at: datetime
    purpose: str | None
    parts: int
    runs: int
    anchors: Sequence[int]
    tree_size: int
    state: str
    given_at: datetime | None
    done: int | None


async def runs_named(connection: Connection, scope: UUID, names: Collection[str]) -> dict[str, UUID]:
    """Return the runs of these names; one that is not there is left out."""
    rows = await connection.fetch(_SQL["runs_named"], scope, list(names))
    return {row["run"]: row["run_uid"] for row in rows}


async def parts_of_runs(
    connection: Connection, scope: UUID, runs: Collection[UUID], limit: int
) -> list[UUID]:
    """Return the parts of some runs, at most `limit` of them."""
    rows = await connection.fetch(_SQL["parts_of_runs"], scope, list(runs), limit)
    return [row["evidence"] for row in rows]


async def runs_of_parts(connection: Connection, scope: UUID, evidence: Collection[UUID]) -> set[UUID]:
    """Return the runs that these parts are of."""
    rows = await connection.fetch(_SQL["runs_of_parts"], scope, list(evidence))
    return {row["run_uid"] for row in rows}


async def oldest_queued(connection: Connection) -> bytes | None:
    """Return the leaf that waits longest; None where none waits."""
    leaf: bytes | None = await connection.fetchval(_SQL["oldest_queued"])
    return leaf


async def unpublished(
    connection: Connection, scope: UUID, evidence: Sequence[UUID], tree_size: int, since: datetime
) -> int:
    """Count the parts whose leaf is not among the first `tree_size`; without a leaf, only those stored `since`."""
    return int(await connection.fetchval(_SQL["unpublished"], scope, evidence, tree_size, since))


async def insert(connection: Connection, new: NewExport) -> datetime:
    """Keep an export, and return when it was asked for."""
    asked_at: datetime = await connection.fetchval(
        _SQL["insert"],
        new.scope_id,
        new.export_id,
        new.requested_by,
        new.purpose,
        new.evidence,
        new.runs,
        new.anchors,
        new.tree_size,
    )
    return asked_at


async def get(
    connection: Connection, scope: UUID, export: UUID, key_id: str, lives_s: float
) -> ExportRow | None:
    """Return an export of this key that is younger than `lives_s`."""
    row = await connection.fetchrow(_SQL["get"], scope, export, key_id, lives_s)
    return None if row is None else ExportRow(*row.values())


async def standing(
    connection: Connection, scope: UUID, export: UUID, key_id: str, lives_s: float, beat_s: float
) -> StandingRow | None:
    """Return how an export of this key stands that is younger than `lives_s`; see `of_key`."""
    row = await connection.fetchrow(_SQL["standing"], scope, export, key_id, lives_s, beat_s)
    return None if row is None else StandingRow(*row.values())


async def of_key(
    connection: Connection, scope: UUID, key_id: str, lives_s: float, limit: int, beat_s: float
) -> list[StandingRow]:
    """Return the last exports of this key that are younger than `lives_s`, newest first.

    One of which nobody said for `beat_s` that it is being made is not.
    """
    rows = await connection.fetch(_SQL["of_key"], scope, key_id, lives_s, limit, beat_s)
    return [StandingRow(*row.values()) for row in rows]


async def begun(connection: Connection, scope: UUID, export: UUID) -> None:
    """Say that somebody fetches it."""
    await connection.execute(_SQL["begun"], scope, export)


async def beat(connection: Connection, scope: UUID, export: UUID, done: int) -> None:
    """Say that it is being made, and how many parts are in it."""
    await connection.execute(_SQL["beat"], scope, export, done)


async def over(connection: Connection, scope: UUID, export: UUID, *, given: bool) -> None:
    """Say that it is not being made any more; `given`: it was sent to its last byte."""
    await connection.execute(_SQL["over"], scope, export, given)


async def forget(connection: Connection) -> int:
    """Remove exports that have outlived their scope's metadata retention."""
    return len(await connection.fetch(_SQL["forget"]))
