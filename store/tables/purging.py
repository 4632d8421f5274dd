"""Destroying single parts: what is to go and why, and the marks of how far it has gone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from policies.reasons import Reason
from store.db import Connection, Record
from store.tables import load

_SQL = load("purging")


@dataclass(frozen=True, slots=True)
class Target:
    """A part that is to go."""

    scope_id: UUID
    run_uid: UUID
    evidence: UUID
    bucket_id: UUID


@dataclass(frozen=True, slots=True)
class ClosedSource:
    """A source (`version` None) or one version of it that was closed; `policy` is its scope's document as JSON text."""

    scope_id: UUID
    source: str
    version: int | None
    closed_at: datetime
    policy: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Marked:
    """A part after T1; `now` is the transaction's time."""

    evidence: UUID
    exchange: str
    attempt: str
    kind: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Bodiless:
    """A part after T2; `run` is the caller's name of its run, `age_s` how long ago T1 was, by database time."""

    evidence: UUID
    run: str
    span_start: datetime
    reason: Reason
    age_s: float


@dataclass(frozen=True, slots=True)
class LockedRun:
    """The caller's text of a run that is locked, and whether it was erased before."""

    run: str
    erased: bool


async def lock_scope(connection: Connection, scope: UUID) -> None:
    """Keep the scope as it is until the transaction ends."""
    await connection.execute(_SQL["lock_scope"], scope)


async def lock_buckets(connection: Connection, scope: UUID, buckets: set[UUID]) -> None:
    """Keep buckets from expiring until the transaction ends."""
    await connection.execute(_SQL["lock_buckets"], scope, sorted(buckets))


async def lock_run(connection: Connection, scope: UUID, run: UUID, *, wait: bool) -> LockedRun | None:
    """Lock a run against writers and other purgers; without `wait`, None where somebody else has it."""
    row = await connection.fetchrow(_SQL["lock_run" if wait else "take_run"], scope, run)
    return None if row is None else LockedRun(row["run"], row["erased"])


async def run_named(connection: Connection, scope: UUID, run: str) -> UUID | None:
    """Return the id of a run."""
    row = await connection.fetchrow(_SQL["run_named"], scope, run)
    return None if row is None else row["run_uid"]


async def set_run_erased(connection: Connection, scope: UUID, run: UUID) -> None:
    """Refuse everything of a run for good, from the commit on."""
    await connection.execute(_SQL["set_run_erased"], scope, run)


async def part_of(connection: Connection, scope: UUID, evidence: UUID) -> Target | None:
    """Return one part."""
    row = await connection.fetchrow(_SQL["part_of"], scope, evidence)
    return None if row is None else _target(row)


async def part_named(
    connection: Connection, scope: UUID, run: UUID, exchange: str, attempt: str, kind: str
) -> Target | None:
    """Return one part by its identity."""
    row = await connection.fetchrow(_SQL["part_named"], scope, run, exchange, attempt, kind)
    return None if row is None else _target(row)


async def scopes_due(connection: Connection, until: datetime) -> list[UUID]:
    """Return the scopes in which something may be to be destroyed, or is on its way out, in the order of their ids."""
    return [row["scope_id"] for row in await connection.fetch(_SQL["scopes_due"], until)]


async def of_erasures(connection: Connection, scope: UUID, limit: int) -> list[Target]:
    """Return parts whose erasure was asked for, alone or with others, and which nothing holds."""
    return [_target(row) for row in await connection.fetch(_SQL["of_erasures"], scope, limit)]


async def close(connection: Connection, scope: UUID, run: UUID, evidence: Sequence[UUID]) -> None:
    """Refuse parts of one locked run whose erasure a hold defers."""
    await connection.execute(_SQL["close"], scope, run, list(evidence))


async def of_shortened_runs(connection: Connection, scope: UUID, limit: int, until: datetime) -> list[Target]:
    """Return parts whose run expired by then, and whose bucket does so a whole span or more later; no held ones."""
    return [_target(row) for row in await connection.fetch(_SQL["of_shortened_runs"], scope, limit, until)]


async def shortened_done(connection: Connection, quiet_s: float) -> None:
    """Look no more at runs that expired `quiet_s` ago or earlier and of which nothing is left to be destroyed."""
    await connection.execute(_SQL["shortened_done"], quiet_s)


async def closed_sources(connection: Connection, scope: UUID) -> list[ClosedSource]:
    """Return sources and versions that are closed and whose parts were not destroyed yet."""
    rows = await connection.fetch(_SQL["revoked_sources"], scope)
    rows += await connection.fetch(_SQL["withdrawn_versions"], scope)
    return [
        ClosedSource(
            row["scope_id"], row["source"], row["version"], row["closed_at"], row["policy"], row["now"]
        )
        for row in rows
    ]


async def of_source(
    connection: Connection, closed: ClosedSource, limit: int, *, held: bool = False
) -> list[Target]:
    """Return parts that depend on what was closed and are still there; those that are held only if asked for."""
    if closed.version is None:
        rows = await connection.fetch(_SQL["of_source"], closed.scope_id, closed.source, limit, held)
    else:
        rows = await connection.fetch(
            _SQL["of_version"], closed.scope_id, closed.source, closed.version, limit, held
        )
    return [_target(row) for row in rows]


async def still_closed(connection: Connection, closed: ClosedSource) -> bool:
    """Say whether it is closed since then, and keep it so until the transaction ends."""
    return await connection.fetchval(*_of(closed, "still_revoked", "still_withdrawn")) is not None


async def set_destroyed(connection: Connection, closed: ClosedSource) -> None:
    """Say that nothing which depends on it is left, if it was not opened again meanwhile."""
    await connection.execute(*_of(closed, "source_destroyed", "version_destroyed"))


async def mark(
    connection: Connection, scope: UUID, run: UUID, evidence: Sequence[UUID], reason: Reason
) -> list[Marked]:
    """T1 of parts of one locked run; return those that it changed."""
    rows = await connection.fetch(_SQL["mark"], scope, run, list(evidence), reason.value)
    return [Marked(row["evidence"], row["exchange"], row["attempt"], row["kind"], row["now"]) for row in rows]


async def with_bodies(connection: Connection, scope: UUID, limit: int) -> dict[datetime, list[UUID]]:
    """Lock parts whose body is to go next and return them by span; another purger's are left alone."""
    found: dict[datetime, list[UUID]] = {}
    for row in await connection.fetch(_SQL["with_bodies"], scope, limit):
        found.setdefault(row["span_start"], []).append(row["evidence"])
    return found


async def delete_bodies(
    connection: Connection, span_start: datetime, scope: UUID, evidence: Sequence[UUID]
) -> set[UUID]:
    """T2 of parts of one span; return the buckets whose keys wrapped them."""
    rows = await connection.fetch(_SQL["delete_bodies"], span_start, scope, list(evidence))
    return {row["bucket_id"] for row in rows}


async def without_bodies(connection: Connection, scope: UUID, limit: int) -> list[Bodiless]:
    """Return parts after T2, those first that were marked first."""
    return [
        Bodiless(row["evidence"], row["run"], row["span_start"], Reason(row["purge_reason"]), row["age_s"])
        for row in await connection.fetch(_SQL["without_bodies"], scope, limit)
    ]


async def set_destroyed_parts(connection: Connection, scope: UUID, evidence: Sequence[UUID]) -> int:
    """Say that no copy of ours is left of these; return of how many that was not known."""
    return len(await connection.fetch(_SQL["set_destroyed"], scope, list(evidence)))


async def done(connection: Connection, scope: UUID, limit: int) -> int:
    """T4 of parts of which no copy is left and whose purge the log says; return of how many."""
    published = [row["evidence"] for row in await connection.fetch(_SQL["published"], scope, limit)]
    return len(await connection.fetch(_SQL["done"], scope, published)) if published else 0


async def due(connection: Connection) -> bool:
    """Say whether anything is asked for, or on its way out and not only waiting for the log to be published."""
    return bool(await connection.fetchval(_SQL["due"]))


def _target(row: Record) -> Target:
    return Target(row["scope_id"], row["run_uid"], row["evidence"], row["bucket_id"])


def _of(closed: ClosedSource, whole: str, version: str) -> tuple[object, ...]:
    if closed.version is None:
        return (_SQL[whole], closed.scope_id, closed.source, closed.closed_at)
    return (_SQL[version], closed.scope_id, closed.source, closed.version, closed.closed_at)
