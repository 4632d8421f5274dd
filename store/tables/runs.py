"""Runs: what was declared, how far it was narrowed, and whether it still takes observations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from policies.admission import Standing
from policies.kinds import Content, Kind, Mode, RunState
from policies.revocation import Binding
from store.db import Connection, Record
from store.ids import RunUid
from store.tables import load

_SQL = load("runs")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row, its default sources, and the database's time when it was read."""

    run_uid: RunUid
    run: str
    state: RunState
    erased: bool
    standing: Standing
    shared: bool
    owner_key: str
    policy_version: int
    labels: tuple[str, ...]
    subject: bytes | None
    default_set: bytes | None
    sources: frozenset[Binding]
    declared_at: datetime
    closing_at: datetime | None
    closed_at: datetime | None
    never_closed: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class DueRun:
    """A run that a duty has to end; `since` is when its closing began, or when it was declared."""

    run_uid: RunUid
    run: str
    since: datetime


@dataclass(frozen=True, slots=True)
class CapturedPart:
    """An identity that is taken; `exact_bytes` is 0 once the content is gone."""

    exchange: str
    attempt: str
    kind: str
    evidence: UUID
    exact_bytes: int


async def lock(connection: Connection, scope: UUID, run: str) -> RunRow | None:
    """Return one run that nobody else changes until the transaction ends."""
    return _row(await connection.fetchrow(_SQL["lock"], scope, run))


async def by_name(connection: Connection, scope: UUID, run: str) -> RunRow | None:
    """Return one run."""
    return _row(await connection.fetchrow(_SQL["by_name"], scope, run))


async def by_names(connection: Connection, named: Sequence[tuple[UUID, str]]) -> list[RunRow | None]:
    """Return runs by scope and name, in the order in which they were asked for."""
    scopes, names = zip(*named, strict=True)
    found = {row["place"]: _row(row) for row in await connection.fetch(_SQL["by_names"], scopes, names)}
    return [found.get(place) for place in range(1, len(named) + 1)]


async def now(connection: Connection) -> datetime:
    """Return the time of the transaction."""
    instant: datetime = await connection.fetchval(_SQL["now"])
    return instant


async def insert(connection: Connection, scope: UUID, row: RunRow) -> bool:
    """Insert a run; False if it is there already."""
    standing = row.standing
    inserted = await connection.fetchval(
        _SQL["insert"],
        scope,
        row.run_uid,
        row.run,
        standing.mode.value,
        standing.content.value,
        standing.sampled,
        sorted(standing.kinds),
        standing.retain_until,
        row.shared,
        row.owner_key,
        row.policy_version,
        list(row.labels),
        row.subject,
        row.default_set,
    )
    return inserted is not None


async def narrow(connection: Connection, scope: UUID, row: RunRow, *, narrowed: bool) -> None:
    """Write what a later declaration leaves; the database refuses what would widen."""
    standing = row.standing
    await connection.execute(
        _SQL["narrow"],
        scope,
        row.run_uid,
        standing.mode.value,
        standing.content.value,
        sorted(standing.kinds),
        standing.retain_until,
        row.shared,
        row.policy_version,
        list(row.labels),
        row.subject,
        row.default_set,
        row.erased,
        narrowed,
    )


async def renew(connection: Connection, scope: UUID, run: UUID) -> None:
    """Remember that a run was declared again, if it is open."""
    await connection.execute(_SQL["renew"], scope, run)


async def close(connection: Connection, scope: UUID, run: UUID) -> None:
    """Begin the closing of an open run."""
    await connection.execute(_SQL["close"], scope, run)


async def close_silent(connection: Connection, scope: UUID, run: UUID) -> None:
    """Begin the closing of an open run that nobody closed."""
    await connection.execute(_SQL["close_silent"], scope, run)


After = tuple[datetime, UUID]
"""The last run of the page before: its `since` and its id."""

FIRST: Final[After] = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))


async def closing_due(
    connection: Connection, scope: UUID, closing_s: float, limit: int, after: After = FIRST
) -> list[DueRun]:
    """Return runs whose time to take what was on its way is over, the longest first."""
    return _due(await connection.fetch(_SQL["closing_due"], scope, closing_s, *after, limit))


async def never_closed_due(
    connection: Connection, scope: UUID, silence_s: float, limit: int, after: After = FIRST
) -> list[DueRun]:
    """Return open runs that have given no sign for `silence_s`, the oldest first."""
    return _due(await connection.fetch(_SQL["never_closed_due"], scope, silence_s, *after, limit))


def _due(rows: Sequence[Record]) -> list[DueRun]:
    return [DueRun(RunUid(row["run_uid"]), row["run"], row["since"]) for row in rows]


async def set_closed(
    connection: Connection, scope: UUID, run: UUID, opening: bytes | None, *, never_closed: bool
) -> bool:
    """End a run; False if it had ended already."""
    return await connection.fetchval(_SQL["set_closed"], scope, run, opening, never_closed) is not None


async def request_erasure(connection: Connection, scope: UUID, run: UUID, erasure: UUID, key_id: str) -> None:
    """Ask for the destruction of what an erased run has stored; reads are refused by the run's own mark already."""
    await connection.execute(_SQL["request_erasure"], scope, erasure, run, key_id)


async def captured(connection: Connection, scope: UUID, run: UUID) -> list[CapturedPart]:
    """Return every identity that a run has taken."""
    return [
        CapturedPart(row["exchange"], row["attempt"], row["kind"], row["evidence"], row["exact_bytes"])
        for row in await connection.fetch(_SQL["captured"], scope, run)
    ]


def _row(row: Record | None) -> RunRow | None:
    if row is None:
        return None
    return RunRow(
        run_uid=RunUid(row["run_uid"]),
        run=row["run"],
        state=RunState(row["state"]),
        erased=row["erased"],
        standing=Standing(
            mode=Mode(row["mode"]),
            content=Content(row["content"]),
            sampled=row["sampled"],
            retain_until=row["retain_until"],
            kinds=frozenset(map(Kind, row["kinds"])),
        ),
        shared=row["shared"],
        owner_key=row["owner_key"],
        policy_version=row["policy_version"],
        labels=tuple(row["labels"]),
        subject=row["subject"],
        default_set=row["default_set"],
        sources=frozenset(map(Binding, row["sources"] or (), row["versions"] or ())),
        declared_at=row["declared_at"],
        closing_at=row["closing_at"],
        closed_at=row["closed_at"],
        never_closed=row["never_closed"],
        now=row["now"],
    )
