"""What a closing counts besides the numbers of sessions, and where there is something to close."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL = load("closings")


class Due(NamedTuple):
    """A closed run of which more became known."""

    scope_id: UUID
    run_uid: UUID
    run: str


class Accounted(NamedTuple):
    """A run and what it was closed with last, and first; that is None where code of then kept no record."""

    scope_id: UUID
    run_uid: UUID
    run: str
    state: str
    record: bytes
    first: bytes | None


async def parts_of_run(connection: Connection, scope: UUID, run: UUID) -> int:
    """Count the parts that a run has stored, whatever became of them."""
    return int(await connection.fetchval(_SQL["parts_of_run"], scope, run))


async def names_without_numbers(connection: Connection, scope: UUID, run: UUID) -> dict[str, int]:
    """Count by reason what was lost and has a name but no number, so that no range tells of it."""
    rows = await connection.fetch(_SQL["names_without_numbers"], scope, run)
    return {row["reason"]: row["times"] for row in rows}


async def scopes_unclosed(connection: Connection, after: UUID, limit: int) -> list[UUID]:
    """Return scopes that have runs which are not closed, in the order of their ids."""
    return [row["scope_id"] for row in await connection.fetch(_SQL["scopes_unclosed"], after, limit)]


async def closing_over(connection: Connection, closing_s: float) -> bool:
    """Say whether some closing has lasted as long as it may."""
    return bool(await connection.fetchval(_SQL["closing_over"], closing_s))


async def keep(
    connection: Connection, scope: UUID, run: UUID, closed_at: datetime, opening: bytes, record: bytes
) -> None:
    """Keep what a close leaf commits to."""
    await connection.execute(_SQL["keep"], scope, run, closed_at, opening, record)


async def last_record(connection: Connection, scope: UUID, run: UUID) -> bytes | None:
    """Return what was committed to last; None where nothing was kept."""
    value: bytes | None = await connection.fetchval(_SQL["last_record"], scope, run)
    return value


async def due_again(
    connection: Connection, since: datetime, after: tuple[UUID, UUID], limit: int
) -> list[Due]:
    """Return closed runs of which more came to be known, among those with gaps from after `since`, by key."""
    return [Due(*row.values()) for row in await connection.fetch(_SQL["due_again"], since, *after, limit)]


async def accounted_after(connection: Connection, last: tuple[UUID, UUID], limit: int) -> list[Accounted]:
    """Return the next runs by key of which the last closing must tell how they stand."""
    return [Accounted(*row.values()) for row in await connection.fetch(_SQL["accounted_after"], *last, limit)]
