"""How much was observed, stored and missed, by scope and by the day on which a run was declared.

Runs that ended were counted then; parts are read only of those that have not, or of which more was told since.
"""

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
    for row in await connection.fetch(_SQL["counted"], scope, since):
        _add(found[row["scope"], row["day"]], row["word"], row["count"])
    for row in await connection.fetch(_SQL["stored"], scope, since):
        _add(found[row["scope"], row["day"]], "stored", row["parts"])
    for row in await connection.fetch(_SQL["missing"], scope, since):
        _add(found[row["scope"], row["day"]], row["reason"], row["count"])
    return list(found.values())


async def count(connection: Connection, scope: UUID, run: UUID) -> None:
    """Count a run that ends, within the transaction that ends it or accounts for it again."""
    await connection.execute(_SQL["count"], scope, run)


def _add(day: Day, word: str, count: int) -> None:
    if word == "stored":
        day.stored += count
    elif word:
        day.by_reason[word] = day.by_reason.get(word, 0) + count
    else:
        day.missing += count
