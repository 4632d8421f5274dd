"""What a list of runs is narrowed by and shows besides: whether something is there, what is missing, and how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from store.db import Connection
from store.tables import load
from store.tables.pages import Keyset

_SQL: Final = load("run_lists")
_counts: Final = msgspec.json.Decoder(dict[str, int])


@dataclass(frozen=True, slots=True)
class ListedRow:
    """One run with the window of its statement; `stored` and `reasons` are None where they were not asked for."""

    run_uid: UUID
    run: str
    state: str
    erased: bool
    mode: str
    content: str
    sampled: bool
    labels: list[str]
    declared_at: datetime
    closed_at: datetime | None
    never_closed: bool
    expired: bool
    stored: bool | None
    reasons: list[str] | None
    opened_at: datetime
    read_at: datetime


async def listed(
    connection: Connection, scope: UUID, keyset: Keyset, limit: int, *, look_inside: bool
) -> list[ListedRow]:
    """Return a scope's runs by the time of their declaration; `look_inside` asks what they hold and lack, too."""
    rows = await connection.fetch(
        _SQL[f"listed_{keyset.order}"],
        scope,
        keyset.after_at,
        keyset.after_id,
        keyset.bound_at,
        limit,
        look_inside,
    )
    return [ListedRow(**dict(row)) for row in rows]


async def counted(connection: Connection, scope: UUID, runs: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Return how many observations of some runs are `stored`, missing (``), and missing for each reason."""
    rows = await connection.fetch(_SQL["counted"], scope, list(runs)) if runs else []
    return {row["run_uid"]: _counts.decode(row["counts"]) for row in rows}


async def beginning_with(connection: Connection, scope: UUID, text: str, limit: int) -> list[str]:
    """Return the first ids of runs that begin with a text."""
    return [row["run"] for row in await connection.fetch(_SQL["beginning_with"], scope, text, limit)]
