"""How much was observed, stored and missed, by scope and by the day on which a run was declared."""

from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL = load("completeness")


@dataclass(slots=True)
class Day:
    """The runs of one scope that were declared on one day (UTC); `missing` counts no number twice."""

    scope: str
    day: date
    runs: int
    closed: int
    never_closed: int
    stored: int = 0
    missing: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)


async def days(connection: Connection, scope: UUID | None, since: datetime) -> list[Day]:
    """Return the days of one scope, or of all, newest first."""
    found = {
        (row["scope"], row["day"]): Day(
            row["scope"], row["day"], row["runs"], row["closed"], row["never_closed"]
        )
        for row in await connection.fetch(_SQL["runs"], scope, since)
    }
    for row in await connection.fetch(_SQL["stored"], scope, since):
        found[row["scope"], row["day"]].stored = row["parts"]
    for row in await connection.fetch(_SQL["missing"], scope, since):
        day = found[row["scope"], row["day"]]
        if row["reason"]:
            day.by_reason[row["reason"]] = row["count"]
        else:
            day.missing = row["count"]
    return list(found.values())
