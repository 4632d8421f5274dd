"""One part's bytes, what decides about reading them, and what they are checked against."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias
from uuid import UUID

from policies.availability import destroyed
from policies.kinds import Kind
from store.db import Connection, Record
from store.tables import load
from store.tables.grounds import Ground, ground_of

_SQL: Final = load("contents")


# A scope and an evidence reference within it.
Key: TypeAlias = tuple[UUID, UUID]


@dataclass(frozen=True, slots=True)
class Body:
    """A part's bytes as they rest, and in which bucket's key its secret is wrapped."""

    wrapped_in: UUID
    wrapped: bytes
    exact_bytes: int
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part's leaf in the log, in its place."""

    index: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class ReadRow:
    """One part that is about to be read; `body` is None once it is gone, `leaf` until it has its place in the log."""

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
    stored_at: datetime
    leaf: Leaf | None
    purpose_required: bool
    ground: Ground
    body: Body | None


async def read(connection: Connection, wanted: Collection[Key]) -> dict[Key, ReadRow]:
    """Return parts with their bodies; what is not there, or is of another scope than was said, is not in it.

    Two statements, since only a span that is known leads to one partition. What goes between them is found out by
    asking again: a body that was destroyed is not one that was lost, and one that is held was moved to where no span
    drops it.
    """
    rows = await _parts(connection, wanted)
    bodies = await _bodies(connection, rows.values())
    found = {key: _row(row, bodies.get(key)) for key, row in rows.items()}
    odd = [key for key, each in found.items() if each.body is None and not destroyed(each.ground.facts)]
    if odd:
        again = await _parts(connection, odd)
        moved = [row for key, row in again.items() if row["span_start"] != rows[key]["span_start"]]
        bodies = await _bodies(connection, moved)
        found |= {key: _row(row, bodies.get(key)) for key, row in again.items()}
    return found


async def committed(connection: Connection, key: Key) -> ReadRow | None:
    """Return a part without its body: what its commitments are, and what they are about."""
    row = (await _parts(connection, [key])).get(key)
    return None if row is None else _row(row, None)


async def _parts(connection: Connection, wanted: Collection[Key]) -> dict[Key, Record]:
    scopes, evidences = [scope for scope, _ in wanted], [evidence for _, evidence in wanted]
    rows = await connection.fetch(_SQL["parts"], scopes, evidences)
    return {(row["scope_id"], row["evidence"]): row for row in rows}


async def _bodies(connection: Connection, rows: Collection[Record]) -> dict[Key, Body]:
    by_span: dict[datetime, list[Record]] = {}
    for row in rows:
        by_span.setdefault(row["span_start"], []).append(row)
    found: dict[Key, Body] = {}
    for span, parts in by_span.items():
        keys = [row["scope_id"] for row in parts], [row["evidence"] for row in parts]
        for row in await connection.fetch(_SQL["bodies"], span, *keys):
            body = Body(row["bucket_id"], row["wrapped"], row["exact_bytes"], row["ciphertext"])
            found[row["scope_id"], row["evidence"]] = body
    return found


def _row(row: Record, body: Body | None) -> ReadRow:
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
        stored_at=row["stored_at"],
        leaf=None if row["idx"] is None else Leaf(row["idx"], row["leaf"]),
        purpose_required=row["purpose_required"],
        ground=ground_of(row, body_present=body is not None),
        body=body,
    )
