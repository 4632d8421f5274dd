"""Months of the append-only tables, made and dropped by functions that act with the owner's right."""

from datetime import date, datetime

from store.db import Connection
from store.tables import load

_SQL = load("months")


async def ensure(connection: Connection, instant: datetime) -> None:
    """Make the partitions for the month of an instant."""
    await connection.execute(_SQL["ensure"], instant)


async def past(connection: Connection) -> list[date]:
    """Return the months whose rows no scope keeps any more."""
    return [row["month"] for row in await connection.fetch(_SQL["past"])]


async def drop(connection: Connection, month: date) -> None:
    """Drop one month; the database refuses one that some scope still keeps."""
    await connection.execute(_SQL["drop"], month)
