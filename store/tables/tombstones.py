"""Marks that make a late write impossible: keyed hashes of evidence ids and identities, which tell nothing."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.db import Connection
from store.tables import load

_SQL: Final = load("tombstones")

Mark = tuple[UUID, bytes]
"""A scope and a mark in it."""


async def found(connection: Connection, marks: Sequence[Mark]) -> dict[Mark, Reason]:
    """Return the marks that were left, with the reason of each."""
    scopes, values = [scope for scope, _ in marks], [mark for _, mark in marks]
    rows = await connection.fetch(_SQL["found"], scopes, values)
    return {marks[row["place"] - 1]: Reason(row["reason"]) for row in rows}


async def leave(connection: Connection, scope: UUID, marks: Sequence[bytes], reason: Reason) -> None:
    """Leave marks, while the run's row is locked: a writer that comes later finds them."""
    await connection.execute(_SQL["leave"], scope, list(marks), reason.value)
