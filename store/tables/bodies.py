"""The bytes: wrapped secret, exact size and ciphertext, in the partition of the span in which they expire."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from store.db import Connection


class NewBody(NamedTuple):
    """A body to be written, in the order of the table's columns."""

    span_start: datetime
    scope_id: UUID
    evidence: UUID
    bucket_id: UUID
    wrapped: bytes
    exact_bytes: int
    ciphertext: bytes


async def copy(connection: Connection, bodies: Sequence[NewBody]) -> None:
    """Write bodies; without a partition for a span the whole batch is refused."""
    await connection.copy_records_to_table("bodies", records=bodies, columns=NewBody._fields)
