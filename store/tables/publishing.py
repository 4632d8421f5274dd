"""What the publisher tells of the log: its name, what is signed, whether the mirror agrees, and that it is stopped."""

from typing import Final, Literal

from store.db import Connection
from store.tables import load

_SQL: Final = load("publishing")

Against = Literal["rolled_back", "forked"]


async def name_log(connection: Connection, origin: str) -> None:
    """Give a log that has no name its name."""
    await connection.execute(_SQL["name_log"], origin)


async def key_leaves(connection: Connection) -> list[bytes]:
    """Return the leaves that name keys, those that still wait included."""
    return [row["leaf"] for row in await connection.fetch(_SQL["key_leaves"])]


async def keep_checkpoint(connection: Connection, size: int, note: bytes) -> bytes | None:
    """Keep what was signed for a size; return what is kept, which is other where something else was there before."""
    await connection.execute(_SQL["keep_checkpoint"], size, note)
    return await checkpoint(connection, size)


async def checkpoint(connection: Connection, size: int) -> bytes | None:
    """Return what was signed for a size."""
    note: bytes | None = await connection.fetchval(_SQL["checkpoint"], size)
    return note


async def checkpoints_after(connection: Connection, last: int, limit: int) -> list[tuple[int, bytes]]:
    """Return sizes beyond `last` with what was signed for them."""
    rows = await connection.fetch(_SQL["checkpoints_after"], last, limit)
    return [(row["size"], row["note"]) for row in rows]


async def thin_checkpoints(connection: Connection, limit: int) -> int:
    """Let checkpoints go that nothing needs any more; return how many went. The database says which."""
    gone: int = await connection.fetchval(_SQL["thin_checkpoints"], limit)
    return gone


async def agree(connection: Connection, size: int, here: str) -> bool:
    """Say that the mirror agrees, with the database `here`, and is published up to `size`; False once it is stopped."""
    return await connection.fetchval(_SQL["agree"], size, here) is not None


async def stop(connection: Connection, why: Against) -> bool:
    """Stop the log; False where it is stopped already."""
    return await connection.fetchval(_SQL["stop"], why) is not None


async def resume(connection: Connection) -> bool:
    """Let a log go on that was rolled back; False where it was not."""
    return await connection.fetchval(_SQL["resume"]) is not None
