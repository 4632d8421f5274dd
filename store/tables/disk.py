"""How much disk the database takes."""

from typing import Final

from store.db import Connection
from store.tables import load

_SQL: Final = load("disk")


async def used_bytes(connection: Connection) -> int:
    """Return the bytes that this database takes on disk."""
    used: int = await connection.fetchval(_SQL["used_bytes"])
    return used
