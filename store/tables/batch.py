"""What a writer reads ahead of a batch, and reads and locks within its transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from policies.admission import Standing
from policies.kinds import Content, Kind, Mode
from policies.revocation import SourceFacts
from policies.scope_policy import ScopePolicy
from store.db import Connection
from store.tables import load
from store.tables.scopes import policy_of

_SQL: Final = load("batch")

Key = tuple[UUID, UUID]
"""A scope and the id of something within it."""


@dataclass(frozen=True, slots=True)
class BucketSpan:
    """Where parts go that are kept until an instant within this half-open span, and in which key."""

    bucket_id: UUID
    span_start: datetime
    span_end: datetime
    key_id: UUID


class LockedBucket(NamedTuple):
    """A bucket as it stands while the batch holds it."""

    state: str
    key_id: UUID


@dataclass(frozen=True, slots=True)
class LockedRun:
    """A run as it stands while the batch holds it; `now` is the transaction's time."""

    run: str
    erased: bool
    standing: Standing
    now: datetime


@dataclass(frozen=True, slots=True)
class Demands:
    """What a scope demands of parts, and whether anything of it was ever erased or purged by itself, or lost."""

    policy: ScopePolicy
    has_tombstones: bool
    has_lost: bool


async def ends(connection: Connection, runs: Collection[Key]) -> dict[Key, datetime]:
    """Return until when runs are kept; those that nobody declared are left out."""
    rows = await connection.fetch(_SQL["ends"], *_columns(runs))
    return {(row["scope_id"], row["run_uid"]): row["retain_until"] for row in rows}


async def buckets_at(
    connection: Connection, wanted: Sequence[tuple[UUID, datetime]]
) -> dict[tuple[UUID, datetime], BucketSpan]:
    """Return the bucket for each scope and instant; those that no duty has made yet are left out."""
    scopes, instants = [scope for scope, _ in wanted], [instant for _, instant in wanted]
    rows = await connection.fetch(_SQL["buckets_at"], scopes, instants)
    return {
        wanted[row["place"] - 1]: BucketSpan(
            row["bucket_id"], row["span_start"], row["span_end"], row["key_id"]
        )
        for row in rows
    }


async def lock_buckets(
    connection: Connection, scope: UUID, buckets: Collection[UUID]
) -> dict[UUID, LockedBucket]:
    """Lock one scope's buckets and return how they stand."""
    rows = await connection.fetch(_SQL["lock_buckets"], scope, list(buckets))
    return {row["bucket_id"]: LockedBucket(row["state"], row["key_id"]) for row in rows}


async def lock_runs(connection: Connection, scope: UUID, runs: Collection[UUID]) -> dict[UUID, LockedRun]:
    """Lock one scope's runs and return how they stand."""
    rows = await connection.fetch(_SQL["lock_runs"], scope, list(runs))
    return {
        row["run_uid"]: LockedRun(
            run=row["run"],
            erased=row["erased"],
            standing=Standing(
                mode=Mode(row["mode"]),
                content=Content(row["content"]),
                sampled=row["sampled"],
                retain_until=row["retain_until"],
                kinds=frozenset(map(Kind, row["kinds"])),
            ),
            now=row["now"],
        )
        for row in rows
    }


async def source_facts(
    connection: Connection, sources: Collection[tuple[UUID, str]]
) -> dict[UUID, dict[str, SourceFacts]]:
    """Return what each scope knows of these sources; those it does not know are left out."""
    rows = await connection.fetch(_SQL["source_facts"], *_columns(sources))
    found: dict[UUID, dict[str, SourceFacts]] = {}
    for row in rows:
        found.setdefault(row["scope_id"], {})[row["source"]] = SourceFacts(
            known=True,
            revoked=row["revoked"],
            latest=row["latest"],
            withdrawn=frozenset(row["withdrawn"]),
            audience=frozenset(row["audience"]),
        )
    return found


async def scope_demands(connection: Connection, scopes: Collection[UUID]) -> dict[UUID, Demands]:
    """Return what scopes demand now."""
    rows = await connection.fetch(_SQL["scope_demands"], list(scopes))
    return {
        row["scope_id"]: Demands(policy_of(row["policy"]), row["has_tombstones"], row["has_lost"])
        for row in rows
    }


async def gapped(connection: Connection, runs: Collection[Key]) -> set[Key]:
    """Return those of the runs whose gaps name something: only there can a part that is stored have been missed."""
    rows = await connection.fetch(_SQL["gapped"], *_columns(runs))
    return {(row["scope_id"], row["run_uid"]) for row in rows}


def _columns(pairs: Collection[tuple[UUID, object]]) -> tuple[list[UUID], list[object]]:
    return [scope for scope, _ in pairs], [each for _, each in pairs]
