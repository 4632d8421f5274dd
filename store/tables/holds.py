"""Holds: placed by operators on a part, a run or a scope, released, and ended by a duty after a grace."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from policies.holds import Hold, Placing, Reach
from policies.kinds import PartState
from store.db import Connection, Record
from store.tables import load

_SQL = load("holds")


@dataclass(frozen=True, slots=True)
class HoldRow:
    """One hold; `run` is None for a scope's, and where the run's metadata is kept no longer."""

    hold_id: UUID
    reach: Reach
    run_uid: UUID | None
    run: str | None
    evidence: UUID | None
    reason: str | None
    answer: Placing
    placed_by: str
    placed_at: datetime
    released_by: str | None
    released_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a part decides whether a hold still finds it."""

    state: PartState
    bucket_expired: bool
    in_hold_bucket: bool


class LockedHold(NamedTuple):
    """A hold that is about to be released; `now` is the transaction's time."""

    reach: Reach
    run_uid: UUID | None
    evidence: UUID | None
    released_at: datetime | None
    now: datetime


async def lock_scope_alone(connection: Connection, scope: UUID) -> None:
    """Keep whoever destroys out of the scope until the transaction ends."""
    await connection.execute(_SQL["lock_scope_alone"], scope)


async def lock_live_buckets(connection: Connection, scope: UUID) -> None:
    """Keep every live bucket of the scope from expiring until the transaction ends."""
    await connection.execute(_SQL["lock_live_buckets"], scope)


async def buckets_of_run(connection: Connection, scope: UUID, run: UUID) -> set[UUID]:
    """Return the live buckets in which parts of the run lie, and the one to which new ones would go."""
    return {row["bucket_id"] for row in await connection.fetch(_SQL["buckets_of_run"], scope, run)}


async def lock_buckets(connection: Connection, scope: UUID, buckets: Collection[UUID]) -> None:
    """Keep buckets from expiring until the transaction ends."""
    await connection.execute(_SQL["lock_buckets"], scope, sorted(buckets))


async def standing_of_part(connection: Connection, scope: UUID, evidence: UUID) -> Standing | None:
    """Return how one part stands."""
    row = await connection.fetchrow(_SQL["standing_of_part"], scope, evidence)
    return None if row is None else _standing(row)


async def standings_of_run(connection: Connection, scope: UUID, run: UUID) -> list[Standing]:
    """Return how parts of a run stand, each way once."""
    return [_standing(row) for row in await connection.fetch(_SQL["standings_of_run"], scope, run)]


async def takes_parts(connection: Connection, scope: UUID, run: UUID) -> bool:
    """Say whether parts of the run may still be written."""
    return bool(await connection.fetchval(_SQL["takes_parts"], scope, run))


async def insert(  # noqa: PLR0913 - the columns, each by its name
    connection: Connection,
    scope: UUID,
    hold: UUID,
    *,
    reach: Reach,
    run: UUID | None,
    evidence: UUID | None,
    reason: str,
    answer: Placing,
    by: str,
) -> datetime:
    """Keep a hold; return the transaction's time."""
    now: datetime = await connection.fetchval(
        _SQL["insert"], scope, hold, reach.value, run, evidence, reason, answer.value, by
    )
    return now


async def lock(connection: Connection, scope: UUID, hold: UUID) -> LockedHold | None:
    """Return one hold, which nobody else releases until the transaction ends."""
    row = await connection.fetchrow(_SQL["lock"], scope, hold)
    if row is None:
        return None
    return LockedHold(Reach(row["reach"]), row["run_uid"], row["evidence"], row["released_at"], row["now"])


async def release(connection: Connection, scope: UUID, hold: UUID, by: str) -> None:
    """Begin the grace of a hold, once."""
    await connection.execute(_SQL["release"], scope, hold, by)


async def end(connection: Connection, grace_s: float) -> int:
    """End the holds whose grace is over; return how many."""
    return len(await connection.fetch(_SQL["end"], grace_s))


async def end_due(connection: Connection, grace_s: float) -> bool:
    """Say whether the grace of some hold is over."""
    return bool(await connection.fetchval(_SQL["end_due"], grace_s))


async def covering(
    connection: Connection, scope: UUID, run: UUID, evidence: Sequence[UUID]
) -> frozenset[Hold]:
    """Return the live holds that cover parts of a run."""
    rows = await connection.fetch(_SQL["covering"], scope, run, list(evidence))
    return frozenset(
        Hold(Reach(row["reach"]), None if row["target"] is None else row["target"].hex) for row in rows
    )


async def by_id(connection: Connection, scope: UUID, hold: UUID) -> HoldRow | None:
    """Return one hold."""
    row = await connection.fetchrow(_SQL["by_id"], scope, hold)
    return None if row is None else _of(row)


async def latest(connection: Connection, scope: UUID, before: UUID | None, limit: int) -> list[HoldRow]:
    """Return the newest holds of a scope, or those before an id."""
    return [_of(row) for row in await connection.fetch(_SQL["latest"], scope, before, limit)]


async def live_counts(connection: Connection) -> dict[str, int]:
    """Return how many holds keep something, by the name of their scope."""
    return {row["scope"]: row["holds"] for row in await connection.fetch(_SQL["live_counts"])}


async def forget_reasons(connection: Connection) -> int:
    """Drop the words of holds that ended longer ago than metadata is kept; return of how many."""
    return len(await connection.fetch(_SQL["forget_reasons"]))


def _standing(row: Record) -> Standing:
    return Standing(PartState(row["state"]), row["bucket_expired"], row["in_hold_bucket"])


def _of(row: Record) -> HoldRow:
    return HoldRow(
        row["hold_id"], Reach(row["reach"]), row["run_uid"], row["run"], row["evidence"], row["reason"],
        Placing(row["answer"]), row["placed_by"], row["placed_at"], row["released_by"], row["released_at"],
        row["ended_at"],
    )  # fmt: skip
