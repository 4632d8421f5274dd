"""Runs whose metadata is kept no longer, and what is deleted of them by functions of the owner."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from policies.reasons import Reason
from store.db import Connection
from store.tables import load

_SQL = load("forgetting")


class DueRun(NamedTuple):
    """A run that is to be forgotten."""

    scope_id: UUID
    run_uid: UUID
    run: str


class LeftPart(NamedTuple):
    """A part's identity within its run, and why its content went before its bucket did, if it did."""

    evidence: UUID
    exchange: str
    attempt: str
    kind: str
    purge_reason: Reason | None


class LookedAt(NamedTuple):
    """How many sets are gone, of how many that were looked at, and the last of these; None where there was none."""

    gone: int
    seen: int
    last: bytes | None


async def due_runs(connection: Connection, until: datetime, limit: int) -> list[DueRun]:
    """Return runs whose metadata is over by then and of which nothing is held, readable or on its way out."""
    rows = await connection.fetch(_SQL["due_runs"], until, limit)
    return [DueRun(row["scope_id"], row["run_uid"], row["run"]) for row in rows]


async def may(connection: Connection, run: DueRun) -> bool:
    """Say whether that is still so of a run that is locked."""
    return bool(await connection.fetchval(_SQL["may"], run.scope_id, run.run_uid))


async def parts_of_run(connection: Connection, run: DueRun, limit: int) -> list[LeftPart]:
    """Return parts of a run that is locked."""
    return [
        LeftPart(
            row["evidence"], row["exchange"], row["attempt"], row["kind"],
            None if row["purge_reason"] is None else Reason(row["purge_reason"]),
        )
        for row in await connection.fetch(_SQL["parts_of_run"], run.scope_id, run.run_uid, limit)
    ]  # fmt: skip


async def forget_parts(connection: Connection, run: DueRun, evidence: Sequence[UUID]) -> int:
    """Delete parts whose marks were left; the database refuses what is still kept."""
    count: int = await connection.fetchval(_SQL["forget_parts"], run.scope_id, run.run_uid, list(evidence))
    return count


async def forget_run(connection: Connection, run: DueRun) -> None:
    """Delete a run without parts and all that was said of it; the database refuses what is still kept."""
    await connection.execute(_SQL["forget_run"], run.scope_id, run.run_uid)


async def scopes(connection: Connection) -> list[UUID]:
    """Return every scope."""
    return [row["scope_id"] for row in await connection.fetch(_SQL["scopes"])]


async def forget_source_sets(connection: Connection, scope: UUID, beyond: bytes, limit: int) -> LookedAt:
    """Look at so many sets beyond one, in the order of their ids, and delete those that nobody uses."""
    return LookedAt(*(await connection.fetchrow(_SQL["forget_source_sets"], scope, beyond, limit)).values())
