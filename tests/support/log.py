"""The proof log made and unmade by hand, as the owner: leaves in their places, and a database that went back."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import asyncpg

from store.log_tree.hashes import leaf_hash
from store.log_tree.tiles import OpenTiles, Tile
from tests.support import naive_tree

NOBODY = UUID(int=0)


def leaf(number: int, word: str = "leaf") -> bytes:
    return f'{{"k":"resume","u":"{word}-{number}"}}'.encode()


async def append(url: str, leaves: Iterable[bytes], kind: str = "resume", subject: UUID | None = None) -> int:
    """Sequence leaves; return how many there are then."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            row = await connection.fetchrow("SELECT size, open_tiles FROM log_state FOR UPDATE")
            tree, first = OpenTiles(row["size"], row["open_tiles"]), row["size"]
            wanted = list(leaves)
            full = tree.append([leaf_hash(each) for each in wanted])
            await connection.executemany(
                "INSERT INTO log_entries (idx, scope_id, kind, subject, leaf) VALUES ($1, $2, $3, $4, $5)",
                [(index, NOBODY, kind, subject, each) for index, each in enumerate(wanted, first)],
            )
            await _add_tiles(connection, full)
            await _ends(connection, tree)
            return tree.size
    finally:
        await connection.close()


async def grow(url: str, count: int, word: str = "leaf") -> int:
    """Sequence `count` leaves more."""
    size = len(await entries(url))
    return await append(url, [leaf(number, word) for number in range(size, size + count)])


async def go_back(url: str, size: int) -> None:
    """Leave the log as a backup would have it that was taken when it was so large, an hour ago."""
    kept = (await entries(url))[:size]
    tree = OpenTiles()
    full = tree.append([leaf_hash(each) for each in kept])
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            # Without its triggers: nobody can do this but the owner, or who restores a backup.
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("DELETE FROM log_entries WHERE idx >= $1", size)
            await connection.execute("DELETE FROM log_checkpoints WHERE size > $1", size)
            await connection.execute("DELETE FROM log_tiles")
            await _add_tiles(connection, full)
            await connection.execute(
                "UPDATE log_state SET published_size = least(published_size, $1), stop = NULL, stopped_at = NULL,"
                " compared_at = CASE WHEN compared_at IS NOT NULL THEN now() - interval '1 hour' END",
                size,
            )
            await _ends(connection, tree)
    finally:
        await connection.close()


async def entries(url: str) -> list[bytes]:
    """Every leaf in its place."""
    connection = await asyncpg.connect(url)
    try:
        return [row["leaf"] for row in await connection.fetch("SELECT leaf FROM log_entries ORDER BY idx")]
    finally:
        await connection.close()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root, by a tree that was written apart from the service's."""
    return naive_tree.root([naive_tree.leaf(each) for each in leaves])


async def _add_tiles(connection: asyncpg.Connection, full: Iterable[tuple[Tile, bytes]]) -> None:
    await connection.executemany(
        "INSERT INTO log_tiles (level, tile, hashes) VALUES ($1, $2, $3)",
        [(tile.level, tile.tile, hashes) for tile, hashes in full],
    )


async def _ends(connection: asyncpg.Connection, tree: OpenTiles) -> None:
    edge = tree.edge()
    await connection.execute(
        "UPDATE log_state SET size = $1, root = $2, edge = $3, open_tiles = $4, sequenced_at = now()",
        tree.size, edge.root(), edge.nodes, tree.tiles,
    )  # fmt: skip
