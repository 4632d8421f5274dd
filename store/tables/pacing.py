"""Up to when a destroying duty has let time pass; kept beside its lease."""

from datetime import datetime
from typing import NamedTuple

from store.db import Connection
from store.tables import load

_SQL = load("pacing")


class Stands(NamedTuple):
    """Up to when time has passed, when that was last moved, and the database's time; None where it never was."""

    until: datetime | None
    moved_at: datetime | None
    now: datetime


async def stands(connection: Connection, duty: str) -> Stands:
    """Return how a duty stands."""
    row = await connection.fetchrow(_SQL["stands"], duty)
    if row is None:
        return Stands(None, None, await connection.fetchval(_SQL["now"]))
    return Stands(row["seen_at"], row["paced_at"], row["now"])


async def go(connection: Connection, duty: str, until: datetime, now: datetime) -> None:
    """Let time pass for a duty."""
    await connection.execute(_SQL["go"], duty, until, now)
