"""One part's bytes, what decides about reading them, and what they are checked against."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from policies.availability import destroyed
from policies.kinds import Kind
from store.db import Connection, Record
from store.tables import load
from store.tables.grounds import Ground, ground_of

_SQL: Final = load("contents")


@dataclass(frozen=True, slots=True)
class Body:
    """A part's bytes as they rest, and in which bucket's key its secret is wrapped."""

    wrapped_in: UUID
    wrapped: bytes
    exact_bytes: int
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class ReadRow:
    """One part that is about to be read; `body` is None once it is gone."""

    evidence: UUID
    run: str
    exchange: str
    attempt: str
    kind: Kind
    size_class: int
    media_type: str
    completeness: str
    vantage: str
    captured_at: datetime | None
    received_at: datetime
    session: str | None
    sequence: int | None
    bucket_id: UUID
    commitment: bytes
    meta_commitment: bytes
    meta_opening: bytes
    purpose_required: bool
    ground: Ground
    body: Body | None


async def read(connection: Connection, scope: UUID, evidence: UUID) -> ReadRow | None:
    """Return one part with its body; None also for one of another scope.

    Two statements, since only a span that is known leads to one partition. What goes between them is found out by
    asking again: a body that was destroyed is not one that was lost.
    """
    row = await connection.fetchrow(_SQL["part"], scope, evidence)
    if row is None:
        return None
    body = await connection.fetchrow(_SQL["body"], scope, evidence, row["span_start"])
    found = _row(row, body)
    if body is None and not destroyed(found.ground.facts):
        again = await connection.fetchrow(_SQL["part"], scope, evidence)
        found = found if again is None else replace(found, ground=ground_of(again, body_present=False))
    return found


def _row(row: Record, body: Record | None) -> ReadRow:
    return ReadRow(
        evidence=row["evidence"],
        run=row["run"],
        exchange=row["exchange"],
        attempt=row["attempt"],
        kind=Kind(row["kind"]),
        size_class=row["size_class"],
        media_type=row["media_type"],
        completeness=row["completeness"],
        vantage=row["vantage"],
        captured_at=row["captured_at"],
        received_at=row["received_at"],
        session=row["session"],
        sequence=row["sequence"],
        bucket_id=row["bucket_id"],
        commitment=row["commitment"],
        meta_commitment=row["meta_commitment"],
        meta_opening=row["meta_opening"],
        purpose_required=row["purpose_required"],
        ground=ground_of(row, body_present=body is not None),
        body=None if body is None else Body(*body.values()),
    )
