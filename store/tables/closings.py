"""What a closing counts besides the numbers of sessions, and where there is something to close."""

from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL = load("closings")


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
