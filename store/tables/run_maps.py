"""What one run's page shows: its header, a page of its attempts, and the whole run cut into stretches of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from policies.kinds import Dispatch, Kind, SaidBy, Settlement
from policies.reasons import Reason
from store.db import Connection, Record
from store.tables import load
from store.tables.grounds import Ground, ground_of
from store.tables.pages import Keyset, PartKey
from store.tables.run_pages import AttemptRow, NamedGap

_SQL: Final = load("run_maps")


@dataclass(frozen=True, slots=True)
class Head:
    """What a run's header says besides what lists say."""

    owner_key: str
    policy_version: int
    of_subject: bool
    narrowed_at: datetime | None
    expired: bool


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Where one attempt stands in time; `tie` orders those of one instant."""

    exchange: str
    attempt: str
    first_at: datetime
    tie: UUID


@dataclass(frozen=True, slots=True)
class Extent:
    """From when to when, and how much; the times are None where there is nothing."""

    first_at: datetime | None
    last_at: datetime | None
    attempts: int
    exchanges: int


@dataclass(frozen=True, slots=True)
class PartGroup:
    """So many parts of one stretch of time that are all decided alike. Holds and bodies are not looked at."""

    stretch: int
    parts: int
    ground: Ground


@dataclass(frozen=True, slots=True)
class MissedGroup:
    """So many missing observations of one stretch of time, for one reason."""

    stretch: int
    parts: int
    reason: Reason


async def head(connection: Connection, scope: UUID, run_uid: UUID) -> Head:
    """Return the header of a run that is there."""
    row = await connection.fetchrow(_SQL["head"], scope, run_uid)
    return Head(**dict(row))


async def page(
    connection: Connection, scope: UUID, run_uid: UUID, keyset: Keyset, limit: int
) -> tuple[list[AttemptKey], Extent]:
    """Return attempts of a run, in the order of time or against it, and how far the whole of it reaches."""
    rows = await connection.fetch(
        _SQL[f"page_{keyset.order}"], scope, run_uid, keyset.after_at, keyset.after_id, limit
    )
    whole = rows[0]
    extent = Extent(whole["begins"], whole["ends"], whole["attempts"], whole["exchanges"])
    return [_key(row) for row in rows if row["exchange"] is not None], extent


async def of_exchange(
    connection: Connection, scope: UUID, run_uid: UUID, keyset: Keyset, limit: int, exchange: str
) -> tuple[list[AttemptKey], list[int]]:
    """Return attempts of one exchange, in the order of time or against it, and the place of each among all of them."""
    rows = await connection.fetch(
        _SQL[f"of_exchange_{keyset.order}"], scope, run_uid, keyset.after_at, keyset.after_id, limit, exchange
    )
    return [_key(row) for row in rows], [row["place"] for row in rows]


async def told(
    connection: Connection, scope: UUID, run_uid: UUID, keys: Sequence[AttemptKey]
) -> list[AttemptRow]:
    """Return what was told of these attempts."""
    return [
        AttemptRow(
            **dict(row) | {"dispatch": Dispatch(row["dispatch"]), "settlement": Settlement(row["settlement"])}
        )
        for row in await connection.fetch(_SQL["told"], scope, run_uid, *_named(keys))
    ]


async def part_keys(
    connection: Connection, scope: UUID, run_uid: UUID, keys: Sequence[AttemptKey]
) -> list[PartKey]:
    """Return where the parts of these attempts lie."""
    return [
        PartKey(**dict(row) | {"kind": Kind(row["kind"])})
        for row in await connection.fetch(_SQL["part_keys"], scope, run_uid, *_named(keys))
    ]


async def missed(
    connection: Connection, scope: UUID, run_uid: UUID, keys: Sequence[AttemptKey]
) -> list[NamedGap]:
    """Return what is missing of these attempts, the strongest first; what was stored later is left out."""
    return [
        NamedGap(
            row["exchange"],
            row["attempt"],
            Kind(row["kind"]),
            SaidBy(row["said_by"]),
            Reason(row["reason"]),
            row["first_at"],
        )
        for row in await connection.fetch(_SQL["missed"], scope, run_uid, *_named(keys))
    ]


async def groups(
    connection: Connection, scope: UUID, run_uid: UUID, cut: tuple[datetime, timedelta], stretches: int
) -> list[PartGroup]:
    """Return a run's parts by stretch and by what decides on them; `cut`: where the first begins, and how long each is.

    What lies outside of them belongs to the first or the last.
    """
    rows = await connection.fetch(_SQL["groups"], scope, run_uid, *cut, stretches)
    return [PartGroup(row["stretch"], row["parts"], ground_of(row, body_present=True)) for row in rows]


async def missed_groups(
    connection: Connection, scope: UUID, run_uid: UUID, cut: tuple[datetime, timedelta], stretches: int
) -> list[MissedGroup]:
    """Return a run's missing observations by the same stretches, and by reason."""
    rows = await connection.fetch(_SQL["missed_groups"], scope, run_uid, *cut, stretches)
    return [MissedGroup(row["stretch"], row["parts"], Reason(row["reason"])) for row in rows]


def _key(row: Record) -> AttemptKey:
    return AttemptKey(row["exchange"], row["attempt"], row["first_at"], row["tie"])


def _named(keys: Sequence[AttemptKey]) -> tuple[list[str], list[str]]:
    return [key.exchange for key in keys], [key.attempt for key in keys]
