"""Proofs that leaves are in the published log, made from its tiles against the last signed checkpoint.

A proof is checked before it is given out: what the database says is not believed because it says so.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeGuard
from uuid import UUID

from policies.reasons import Reason
from store.db import Connection, Database
from store.errors import Corrupt, NotFound
from store.log_tree import notes, proofs, tiles
from store.log_tree.hashes import leaf_hash
from store.log_tree.notes import Checkpoint
from store.log_tree.proofs import Node, TlogProof
from store.tables import log, log_reads
from store.tables.log_reads import Published

# 8 KiB each.
_MOST_TILES: Final = 256
# Nodes that were hashed: neighbours share most of them. Some hundred bytes each.
_MOST_NODES: Final = 4_096


@dataclass(frozen=True, slots=True)
class Proof:
    """A leaf, where it is, and the text of C2SP tlog-proof that shows it."""

    index: int
    entry: bytes
    text: bytes


class Tree:
    """The tree of one published checkpoint, for as many proofs as are wanted against the same one."""

    def __init__(self, published: Published) -> None:
        """Raise Corrupt where the checkpoint cannot be read."""
        self.note = published.note
        self.size = published.published_size
        try:
            # Its signature is for whoever is given it; what matters here is what it says.
            checkpoint = notes.parse_checkpoint(published.note.partition(b"\n\n")[0].decode() + "\n")
        except ValueError:
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "the checkpoint cannot be read") from None
        if checkpoint.size != self.size:
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "the checkpoint is of another size")
        self.checkpoint: Checkpoint = checkpoint
        # A tile that is full by now may have been open then: it begins with the same hashes.
        self._open = published.open_tiles
        self._open_from = published.size
        self._tiles: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._nodes: dict[Node, bytes] = {}

    async def inclusion(self, connection: Connection, index: int, entry: bytes) -> Proof:
        """Return the proof that `entry` is at `index`; Corrupt where it is not, ValueError beyond the checkpoint."""
        await self._fetch(connection, proofs.inclusion_nodes(index, self.size))
        hashes = proofs.inclusion(index, self.size, self._hash_at)
        root = self.checkpoint.root
        if not proofs.verify_inclusion(leaf_hash(entry), index, self.size, hashes, root):
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "the leaf is not in the published log")
        return Proof(index, entry, TlogProof(index, tuple(hashes), self.note).text)

    async def consistency(self, connection: Connection, old: int) -> list[bytes]:
        """Return the proof that this tree begins with that of `old` leaves."""
        await self._fetch(connection, proofs.consistency_nodes(old, self.size))
        return proofs.consistency(old, self.size, self._hash_at)

    async def tile(self, connection: Connection, level: int, number: int, width: int) -> bytes | None:
        """Return the first `width` hashes of a tile, None where this tree has not so many."""
        if number * tiles.WIDTH + width > self.size >> (tiles.HEIGHT * level):
            return None
        await self._fetch_tiles(connection, [(level, number)])
        return self._tiles[level, number][: width * 32]

    async def _fetch(self, connection: Connection, nodes: Iterable[Node]) -> None:
        await self._fetch_tiles(connection, {tiles.place(*node)[:2] for node in nodes})

    async def _fetch_tiles(self, connection: Connection, wanted: Iterable[tuple[int, int]]) -> None:
        """Have these tiles here; they stay until others make room, after the proof that they are wanted for."""
        while len(self._tiles) > _MOST_TILES:
            self._tiles.popitem(last=False)
        missing = [key for key in wanted if key not in self._tiles]
        self._tiles.update(await log.tiles(connection, [key for key in missing if not self._is_open(key)]))
        self._tiles.update({key: self._open[key[0]] for key in missing if self._is_open(key)})
        if any(key not in self._tiles for key in missing):
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "the log lacks a tile")

    def _is_open(self, key: tuple[int, int]) -> bool:
        level, number = key
        return number == (self._open_from >> (tiles.HEIGHT * level)) // tiles.WIDTH

    def _hash_at(self, level: int, index: int) -> bytes:
        found = self._nodes.get((level, index))
        if found is None:
            if len(self._nodes) == _MOST_NODES:
                self._nodes.clear()
            found = self._nodes[level, index] = self._hashed(level, index)
        return found

    def _hashed(self, level: int, index: int) -> bytes:
        tile_level, number, first, count = tiles.place(level, index)
        try:
            return tiles.node_in(self._tiles[tile_level, number], first, count)
        except ValueError:
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "a tile of the log is cut short") from None


class Proofs:
    """Answers whoever may see what a proof is about. `database` is the readers'."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def checkpoint(self) -> bytes:
        """Return the last checkpoint; NotFound where none was signed yet."""
        async with self._database.connection() as connection:
            return (await tree_of(connection)).note

    async def tile(self, tile: tiles.Tile) -> bytes:
        """Return a tile of hashes or a bundle of entries of the published tree; NotFound beyond it."""
        async with self._database.connection() as connection:
            tree = await tree_of(connection)
            if tile.level is not None:
                found = await tree.tile(connection, tile.level, tile.tile, tile.width)
            else:
                found = await _bundle(connection, tree, tile)
        if found is None:
            raise NotFound
        return found

    async def of_part(self, scope: UUID, evidence: UUID) -> Proof:
        """Return the proof of a scope's part; NotFound also where its leaf is not published yet, which is said."""
        async with self._database.connection() as connection:
            leaf = await log_reads.part_leaf(connection, scope, evidence)
            if leaf is None:
                raise NotFound
            published = await log_reads.published(connection)
            if leaf.index is None or leaf.entry is None or not covers(published, leaf.index):
                raise NotFound(detail="the part's leaf is not published yet: its proof state is `pending`")
            return await Tree(published).inclusion(connection, leaf.index, leaf.entry)

    async def inclusion(self, named: UUID | int, kind: str = "part") -> Proof:
        """Return the proof of a leaf by its index, or by its kind and what it is about, whoever's it is."""
        async with self._database.connection() as connection:
            index = named if isinstance(named, int) else await log.index_of(connection, named, kind)
            tree = await tree_of(connection)
            entry = None if index is None or index >= tree.size else await log_reads.entry(connection, index)
            if index is None or entry is None:
                raise NotFound
            return await tree.inclusion(connection, index, entry)


async def tree_of(connection: Connection) -> Tree:
    """Return the tree of the last checkpoint; NotFound where none was signed yet."""
    published = await log_reads.published(connection)
    if published is None:
        raise NotFound(detail="nothing of the log is published yet")
    return Tree(published)


def covers(published: Published | None, index: int) -> TypeGuard[Published]:
    """Say whether a leaf is published, given its index."""
    return published is not None and index < published.published_size


async def _bundle(connection: Connection, tree: Tree, tile: tiles.Tile) -> bytes | None:
    first = tile.tile * tiles.WIDTH
    if first + tile.width > tree.size:
        return None
    found = await log_reads.entries(connection, first, first + tile.width)
    if len(found) != tile.width:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the log lacks an entry")
    return tiles.bundle(found)
