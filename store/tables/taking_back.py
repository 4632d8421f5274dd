"""The log going back to where it was what its mirror is: done by the owner alone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from store.db import Connection
from store.tables import load

_SQL: Final = load("taking_back")


@asynccontextmanager
async def going_back(connection: Connection) -> AsyncIterator[None]:
    """Let the log become smaller within the caller's transaction; whoever else writes where it ends waits."""
    await connection.execute(_SQL["let_go_back"])
    yield
    await connection.execute(_SQL["forward_only"])


async def drop_entries(connection: Connection, first: int, end: int) -> None:
    """Take entries out of the log."""
    await connection.execute(_SQL["drop_entries"], first, end)


async def last_entry(connection: Connection) -> int:
    """Return the highest index that there is, -1 without any."""
    last: int | None = await connection.fetchval(_SQL["last_entry"])
    return -1 if last is None else last


async def end_at(
    connection: Connection, size: int, root: bytes, edge: Sequence[bytes], open_tiles: Sequence[bytes]
) -> None:
    """Let the tree end there, rolled back: full tiles and checkpoints beyond it go."""
    await connection.execute(_SQL["drop_tiles"], size)
    await connection.execute(_SQL["drop_checkpoints"], size)
    await connection.execute(_SQL["end_at"], size, root, edge, open_tiles)
