"""Sessions: what a closing announced of each sender, and which of its numbers left a record."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from policies.kinds import SaidBy
from policies.sequences import SequenceSet
from store.db import Connection
from store.tables import load

_SQL = load("sessions")


class _Range(Protocol):
    """A half-open range as the driver gives it: Postgres writes ranges of whole numbers in this one way."""

    lower: int
    upper: int


async def announce(
    connection: Connection, scope: UUID, run: UUID, sessions: Mapping[str, int | None]
) -> None:
    """Write the last number of each session; None where it is named without one. A smaller one changes nothing."""
    names = sorted(sessions)
    await connection.execute(_SQL["announce"], scope, run, names, [sessions[name] for name in names])


async def of_run(connection: Connection, scope: UUID, run: UUID) -> dict[str, int | None]:
    """Return the sessions that were named, with the last number of each."""
    return {row["session"]: row["announced"] for row in await connection.fetch(_SQL["of_run"], scope, run)}


async def stored_numbers(connection: Connection, scope: UUID, run: UUID) -> dict[str, SequenceSet]:
    """Return what of each session was stored."""
    rows = await connection.fetch(_SQL["stored_numbers"], scope, run)
    return {row["session"]: _set(row["numbers"]) for row in rows}


async def unnumbered_parts(connection: Connection, scope: UUID, run: UUID) -> int:
    """Count the parts that carry no number: with them nothing can be concluded from numbers."""
    return int(await connection.fetchval(_SQL["unnumbered_parts"], scope, run))


async def gap_numbers(connection: Connection, scope: UUID, run: UUID) -> dict[SaidBy, dict[str, SequenceSet]]:
    """Return what of each session is known to be missing, by who said so."""
    found: dict[SaidBy, dict[str, SequenceSet]] = defaultdict(dict)
    for row in await connection.fetch(_SQL["gap_numbers"], scope, run):
        found[SaidBy(row["said_by"])][row["session"]] = _set(row["numbers"])
    return dict(found)


def _set(ranges: Sequence[_Range]) -> SequenceSet:
    return SequenceSet.of((each.lower, each.upper) for each in ranges)
