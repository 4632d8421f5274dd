"""Rows that say what became of observations."""

from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from policies.kinds import Dispatch, Kind, PartState, Settlement
from policies.reasons import Reason
from store.db import Connection, Record
from store.tables import load

_SQL: Final = load("outcomes")


class SealedPart(msgspec.Struct, frozen=True):
    """What the bytes of a repeat are compared with; `wrapped` is None once the body is gone."""

    state: PartState
    purge_reason: Reason | None
    commitment: bytes
    run_erased: bool
    expired: bool
    wrapped_in: UUID | None
    wrapped: bytes | None


class Known(msgspec.Struct, frozen=True):
    """An identity's outcome as Postgres knows it: a part (`stored_at` is set) or the strongest gap that names it.

    `evidence` is the part's reference, or the gap's id: both carry the time at which they were minted.
    """

    exchange: str
    attempt: str
    kind: Kind
    evidence: UUID
    stored_at: datetime | None
    reason: Reason | None
    dispatch: Dispatch = Dispatch.UNKNOWN
    settlement: Settlement = Settlement.UNKNOWN


class StoredPart(msgspec.Struct, frozen=True):
    """A stored part with the text of its run."""

    run: str
    known: Known


async def sealed_of(connection: Connection, scope: UUID, evidence: UUID) -> SealedPart | None:
    """Return what a repeat of that part is compared with."""
    row = await connection.fetchrow(_SQL["sealed_of"], scope, evidence)
    if row is None:
        return None
    reason = row["purge_reason"]
    return SealedPart(
        PartState(row["state"]),
        None if reason is None else Reason(reason),
        row["commitment"],
        row["erased"],
        row["expired"],
        row["wrapped_in"],
        row["wrapped"],
    )


async def stored_part(connection: Connection, scope: UUID, evidence: UUID) -> StoredPart | None:
    """Return one stored part."""
    row = await connection.fetchrow(_SQL["stored_part"], scope, evidence)
    if row is None:
        return None
    return StoredPart(
        row["run"],
        Known(
            row["exchange"],
            row["attempt"],
            Kind(row["kind"]),
            row["evidence"],
            row["stored_at"],
            None,
            Dispatch(row["dispatch"]),
            Settlement(row["settlement"]),
        ),
    )


async def outcome_of_identity(
    connection: Connection,
    scope: UUID,
    run: str,
    exchange: str,
    attempt: str,
    kind: Kind,
) -> Known | None:
    """Return the part, or else the strongest gap, of one identity."""
    row = await connection.fetchrow(_SQL["outcomes_of_identity"], scope, run, exchange, attempt, kind)
    if row is None:
        return None
    words = await connection.fetchrow(_SQL["attempt_words"], scope, run, exchange, attempt)
    dispatch = Dispatch.UNKNOWN if words is None else Dispatch(words["dispatch"])
    settlement = Settlement.UNKNOWN if words is None else Settlement(words["settlement"])
    return Known(
        exchange,
        attempt,
        kind,
        row["evidence"],
        row["stored_at"],
        _reason(row),
        dispatch,
        settlement,
    )


async def outcomes_of_run(
    connection: Connection,
    scope: UUID,
    run: str,
    after: tuple[str, str, str],
    limit: int,
) -> list[Known]:
    """Return the next `limit` identities of a run in identity order, each with its strongest outcome."""
    rows = await connection.fetch(_SQL["outcomes_of_run"], scope, run, *after, limit)
    return [
        Known(
            row["exchange"],
            row["attempt"],
            Kind(row["kind"]),
            row["evidence"],
            row["stored_at"],
            _reason(row),
            Dispatch(row["dispatch"]),
            Settlement(row["settlement"]),
        )
        for row in rows
    ]


def _reason(row: Record) -> Reason | None:
    return None if row["reason"] is None else Reason(row["reason"])
