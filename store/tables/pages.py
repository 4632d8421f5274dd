"""What readers see of stored parts: keys of a page by one of the offered filter sets, then the facts of those parts.

Keys are found by an index and in its order; facts are looked up by those keys, all in one statement, in one instant.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from policies.kinds import Dispatch, Kind, Settlement
from store.db import Connection, Record
from store.tables import load
from store.tables.grounds import Ground, ground_of

_SQL = load("pages")

Order = Literal["newest", "oldest"]


@dataclass(frozen=True, slots=True)
class Offered:
    """A set of filters that a page of parts may have, with the query that finds its keys and the index which that uses.

    Times go with every set and bound the index. `kind`, `exchange`, `attempt`, `availability` and `reason` are looked
    at on the rows that the index gives, of which a page examines a bounded number.
    """

    filters: frozenset[str]
    query: Literal["parts", "run_parts", "runs_parts"]
    index: str


# Everything else is refused: a filter without an index would read the table.
OFFERED: Final = (
    Offered(frozenset(), "parts", "parts_by_stored"),
    Offered(frozenset({"kind"}), "parts", "parts_by_stored"),
    # Over MOST_RUNS runs with the label, it is looked at on the rows of `parts` instead.
    Offered(frozenset({"label"}), "runs_parts", "parts_by_run"),
    Offered(frozenset({"label", "kind"}), "runs_parts", "parts_by_run"),
    Offered(frozenset({"run"}), "run_parts", "parts_by_run"),
    Offered(frozenset({"run", "kind"}), "run_parts", "parts_by_run"),
    Offered(frozenset({"run", "exchange"}), "run_parts", "parts_by_run"),
    Offered(frozenset({"run", "exchange", "kind"}), "run_parts", "parts_by_run"),
    Offered(frozenset({"run", "exchange", "attempt"}), "run_parts", "parts_by_run"),
    Offered(frozenset({"run", "exchange", "attempt", "kind"}), "run_parts", "parts_by_run"),
)
WITH_EVERY_SET: Final = frozenset({"from", "to", "availability", "reason"})
MOST_RUNS: Final = 256


@dataclass(frozen=True, slots=True)
class Keyset:
    """Where a page begins and what bounds it: rows beyond (`after_at`, `after_id`) in the order, up to `bound_at`."""

    order: Order
    after_at: datetime
    after_id: UUID
    bound_at: datetime


@dataclass(frozen=True, slots=True)
class PartKey:
    """Where one part lies; `opened_at` is the time of the statement that found it."""

    evidence: UUID
    span_start: datetime
    stored_at: datetime
    run_uid: UUID
    exchange: str
    attempt: str
    kind: Kind
    opened_at: datetime


@dataclass(frozen=True, slots=True)
class PartTimes:
    """When something became of a part, or will: null is not yet, or never."""

    retain_until: datetime
    expired_at: datetime | None
    purging_at: datetime | None
    purged_at: datetime | None
    revoked_at: datetime | None
    withdrawn_at: datetime | None


@dataclass(frozen=True, slots=True)
class PartRow:
    """One part in one instant; `exact_bytes` is None once the body is gone."""

    evidence: UUID
    run: str
    exchange: str
    attempt: str
    kind: Kind
    size_class: int
    exact_bytes: int | None
    media_type: str
    completeness: str
    vantage: str
    captured_at: datetime | None
    received_at: datetime
    stored_at: datetime
    session: str | None
    sequence: int | None
    dispatch: Dispatch
    settlement: Settlement
    labels: frozenset[str]
    published: bool
    ground: Ground
    closed_at: datetime


async def part_keys(connection: Connection, scope: UUID, keyset: Keyset, limit: int) -> list[PartKey]:
    """Return keys of a scope's parts."""
    return await _keys(connection, "parts", scope, keyset, limit)


async def run_part_keys(
    connection: Connection, scope: UUID, keyset: Keyset, limit: int, run: str
) -> list[PartKey]:
    """Return keys of one run's parts; none for a run that is not there."""
    return await _keys(connection, "run_parts", scope, keyset, limit, run)


async def runs_part_keys(
    connection: Connection, scope: UUID, keyset: Keyset, limit: int, runs: Sequence[UUID]
) -> list[PartKey]:
    """Return keys of the parts of at most MOST_RUNS runs."""
    return await _keys(connection, "runs_parts", scope, keyset, limit, list(runs))


async def runs_of_label(connection: Connection, scope: UUID, label: str) -> list[UUID] | None:
    """Return the runs that carry a label; None where they are more than MOST_RUNS."""
    rows = await connection.fetch(_SQL["runs_of_label"], scope, label, MOST_RUNS + 1)
    return None if len(rows) > MOST_RUNS else [row["run_uid"] for row in rows]


async def key_of_evidence(connection: Connection, scope: UUID, evidence: UUID) -> PartKey | None:
    """Return where a part lies; None also for one of another scope."""
    row = await connection.fetchrow(_SQL["key_of_evidence"], scope, evidence)
    return None if row is None else _key(row)


async def key_of_identity(
    connection: Connection, scope: UUID, run: str, exchange: str, attempt: str, kind: Kind
) -> PartKey | None:
    """Return where the part of an identity lies; None if nothing was stored under it."""
    row = await connection.fetchrow(_SQL["key_of_identity"], scope, run, exchange, attempt, kind)
    return None if row is None else _key(row)


async def facts(connection: Connection, scope: UUID, keys: Collection[PartKey]) -> dict[UUID, PartRow]:
    """Return what is known of these parts, all in one instant."""
    if not keys:
        return {}
    spans = [key.span_start for key in keys]
    rows = await connection.fetch(
        _SQL["facts"], scope, [key.evidence for key in keys], min(spans), max(spans)
    )
    return {row["evidence"]: _part(row) for row in rows}


async def times(connection: Connection, scope: UUID, evidence: UUID) -> PartTimes | None:
    """Return when something became of a part."""
    row = await connection.fetchrow(_SQL["times"], scope, evidence)
    return None if row is None else PartTimes(**dict(row))


async def instants(connection: Connection) -> tuple[datetime, datetime]:
    """Return the database's time at the start and at the end of a statement."""
    row = await connection.fetchrow(_SQL["instants"])
    return row["opened_at"], row["closed_at"]


async def _keys(
    connection: Connection, query: str, scope: UUID, keyset: Keyset, limit: int, *more: object
) -> list[PartKey]:
    rows = await connection.fetch(
        _SQL[f"{query}_{keyset.order}"],
        scope,
        keyset.after_at,
        keyset.after_id,
        keyset.bound_at,
        limit,
        *more,
    )
    return [_key(row) for row in rows]


def _key(row: Record) -> PartKey:
    return PartKey(
        evidence=row["evidence"],
        span_start=row["span_start"],
        stored_at=row["stored_at"],
        run_uid=row["run_uid"],
        exchange=row["exchange"],
        attempt=row["attempt"],
        kind=Kind(row["kind"]),
        opened_at=row["opened_at"],
    )


def _part(row: Record) -> PartRow:
    return PartRow(
        evidence=row["evidence"],
        run=row["run"],
        exchange=row["exchange"],
        attempt=row["attempt"],
        kind=Kind(row["kind"]),
        size_class=row["size_class"],
        exact_bytes=row["exact_bytes"],
        media_type=row["media_type"],
        completeness=row["completeness"],
        vantage=row["vantage"],
        captured_at=row["captured_at"],
        received_at=row["received_at"],
        stored_at=row["stored_at"],
        session=row["session"],
        sequence=row["sequence"],
        dispatch=Dispatch(row["dispatch"]),
        settlement=Settlement(row["settlement"]),
        labels=frozenset(row["labels"]),
        published=row["published"],
        ground=ground_of(row, body_present=row["exact_bytes"] is not None),
        closed_at=row["closed_at"],
    )
