"""By which keys this store's hashes were made: a mark of each, from which no key can be had."""

from typing import Final

from store.db import Connection
from store.tables import load

_SQL: Final = load("key_marks")


async def get(connection: Connection, name: str) -> bytes | None:
    """Return a key's mark; None where nobody has set it down."""
    mark: bytes | None = await connection.fetchval(_SQL["get"], name)
    return mark


async def keep(connection: Connection, name: str, mark: bytes) -> None:
    """Set a key's mark down; one that is there stays."""
    await connection.execute(_SQL["keep"], name, mark)
