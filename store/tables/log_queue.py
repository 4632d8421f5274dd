"""The outbox of the proof log: leaves that are committed with what they are about, and sequenced later."""

from collections.abc import Sequence
from uuid import UUID

from store.db import Connection


async def copy(connection: Connection, leaves: Sequence[tuple[UUID, bytes]]) -> None:
    """Append leaves, each with its scope; their order within the batch becomes their order in the log."""
    await connection.copy_records_to_table("log_queue", records=leaves, columns=("scope_id", "leaf"))
