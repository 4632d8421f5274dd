"""Rows of stored parts: metadata only. Written once; an identity is taken for ever."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from policies.kinds import PartState
from policies.reasons import Reason
from store.db import Connection
from store.tables import load

_SQL: Final = load("parts")


class NewPart(NamedTuple):
    """A part to be inserted, in the order of the statement's parameters."""

    scope_id: UUID
    evidence: UUID
    run_uid: UUID
    exchange: str
    attempt: str
    kind: str
    bucket_id: UUID
    span_start: datetime
    session: str | None
    sequence: int | None
    size_class: int
    media_type: str
    completeness: str
    vantage: str
    source_set: bytes | None
    captured_at: datetime | None
    received_at: datetime
    commitment: bytes
    meta_commitment: bytes
    meta_opening: bytes


_COLUMNS: Final = (*NewPart._fields, "stored_at")


class Identified(NamedTuple):
    """The identity of a part as it stands in its row."""

    scope_id: UUID
    run_uid: UUID
    exchange: str
    attempt: str
    kind: str


class Holder(NamedTuple):
    """The part that has an identity."""

    evidence: UUID
    state: PartState
    purge_reason: Reason | None


TAKEN: Final = frozenset({"parts_identity_once", "parts_pkey"})
"""What refuses a copy of parts of which one is there already."""


async def copy(connection: Connection, parts: Sequence[NewPart], stored_at: datetime) -> None:
    """Write parts that nobody wrote before, in the order of their identities: `insert` costs twice as much."""
    records = [(*part, stored_at) for part in parts]
    await connection.copy_records_to_table("parts", records=records, columns=_COLUMNS)


async def insert(connection: Connection, parts: Sequence[NewPart]) -> set[UUID]:
    """Insert parts, in the order of their identities or batches would deadlock; return which were new."""
    rows = await connection.fetch(_SQL["insert"], *zip(*parts, strict=True))
    return {row["evidence"] for row in rows}


async def holders(connection: Connection, identities: Sequence[Identified]) -> dict[Identified, Holder]:
    """Return which parts have these identities; one that nobody has is left out."""
    rows = await connection.fetch(_SQL["holders"], *zip(*identities, strict=True))
    return {
        identities[row["place"] - 1]: Holder(
            row["evidence"],
            PartState(row["state"]),
            None if row["purge_reason"] is None else Reason(row["purge_reason"]),
        )
        for row in rows
    }
