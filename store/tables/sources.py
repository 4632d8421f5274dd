"""Sources, their versions, and what a part's set of them may look like now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from policies.revocation import SourceFacts
from store.db import Connection, Record
from store.ids import SourceUid, new_id
from store.tables import load

_SQL = load("sources")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source; `opened_at` and `closed_at` are the window of the statement that read it.

    `erased`: its erasure was asked for, so that it is never opened again, destroyed or not yet.
    """

    source: str
    source_uid: UUID
    latest: int
    audience: frozenset[str]
    revoked_at: datetime | None
    destroyed: bool
    erased: bool
    created_at: datetime
    opened_at: datetime
    closed_at: datetime


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a source."""

    version: int
    withdrawn_at: datetime | None
    destroyed: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Minted:
    """What adding a version made of the source; `at` is the transaction's time."""

    source_uid: UUID
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Locked:
    """A source, or one version of it, whose row is ours until the transaction ends; `at` is that one's time."""

    source_uid: UUID
    closed: bool
    destroyed: bool
    at: datetime


async def facts(connection: Connection, scope: UUID, sources: Sequence[str]) -> Mapping[str, SourceFacts]:
    """Return what the scope knows of these sources now; an unknown one is not in it."""
    rows = await connection.fetch(_SQL["facts"], scope, list(sources))
    return {
        row["source"]: SourceFacts(
            known=True,
            revoked=row["revoked"],
            latest=row["latest"],
            withdrawn=frozenset(row["withdrawn"]),
            audience=frozenset(row["audience"]),
        )
        for row in rows
    }


async def add_version(
    connection: Connection, scope: UUID, source: str, audience: Sequence[str] | None
) -> Minted:
    """Add the next version, from 1, and make the source first where there is none; the source is then locked."""
    tags = None if audience is None else sorted(audience)
    row = await connection.fetchrow(_SQL["add_version"], scope, source, SourceUid(new_id()), tags)
    await connection.execute(_SQL["insert_version"], scope, source, row["latest"])
    return Minted(row["source_uid"], row["latest"], row["at"])


async def withdraw_earlier(connection: Connection, scope: UUID, source: str, version: int) -> list[int]:
    """Withdraw every version below `version`; return those that were not withdrawn before, in order."""
    rows = await connection.fetch(_SQL["withdraw_earlier"], scope, source, version)
    return sorted(row["version"] for row in rows)


async def lock(connection: Connection, scope: UUID, source: str, version: int | None) -> Locked | None:
    """Lock the source and return it, or one of its versions; None where there is no such thing."""
    row = await connection.fetchrow(_SQL["lock"], scope, source)
    if row is None:
        return None
    if version is None:
        return Locked(row["source_uid"], row["revoked"], row["destroyed"], row["at"])
    # Every change of a version goes through its source's row, so that its lock covers the version too.
    one = await connection.fetchrow(_SQL["version"], scope, source, version)
    if one is None:
        return None
    return Locked(row["source_uid"], one["closed"], one["destroyed"] or row["destroyed"], row["at"])


async def set_erased(connection: Connection, scope: UUID, source: str) -> None:
    """Close a source that is locked for good."""
    await connection.execute(_SQL["set_erased"], scope, source)


async def set_closed(
    connection: Connection, scope: UUID, source: str, version: int | None, *, closed: bool
) -> None:
    """Close or open the whole source (revoked) or one version (withdrawn)."""
    if version is None:
        await connection.execute(_SQL["set_revoked"], scope, source, closed)
    else:
        await connection.execute(_SQL["set_withdrawn"], scope, source, version, closed)


async def page(connection: Connection, scope: UUID, after: str, limit: int) -> list[SourceRow]:
    """Return the scope's sources after one id, by id."""
    return [_source(row) for row in await connection.fetch(_SQL["page"], scope, after, limit)]


async def one(connection: Connection, scope: UUID, source: str) -> SourceRow | None:
    """Return one source."""
    row = await connection.fetchrow(_SQL["one"], scope, source)
    return None if row is None else _source(row)


async def versions_newest(
    connection: Connection, scope: UUID, source: str, before: int, limit: int
) -> list[VersionRow]:
    """Return versions below `before`, newest first."""
    rows = await connection.fetch(_SQL["versions_newest"], scope, source, before, limit)
    return [
        VersionRow(row["version"], row["withdrawn_at"], row["destroyed"], row["created_at"]) for row in rows
    ]


def _source(row: Record) -> SourceRow:
    return SourceRow(
        source=row["source"],
        source_uid=row["source_uid"],
        latest=row["latest"],
        audience=frozenset(row["audience"]),
        revoked_at=row["revoked_at"],
        destroyed=row["destroyed"],
        erased=row["erased"],
        created_at=row["created_at"],
        opened_at=row["opened_at"],
        closed_at=row["closed_at"],
    )
