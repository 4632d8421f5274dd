"""Proofs from the tree as it was at one size: the size of an export's checkpoint, whatever was added since."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.db import Connection
from store.errors import Corrupt
from store.log_tree import proofs, tiles
from store.log_tree.hashes import leaf_hash
from store.log_tree.notes import Checkpoint
from store.log_tree.proofs import HashAt, Node, TlogProof
from store.tables import export_items, log
from store.tables.export_items import Leaf
from store.tables.log import TileKey

# Tiles that are remembered: parts of a run lie together, and all proofs share the upper ones. 2 MiB.
_MOST_TILES: Final = 256


@dataclass(frozen=True, slots=True)
class Proven:
    """A leaf with its proof."""

    leaf: bytes
    proof: bytes


class Tree:
    """The first `checkpoint.size` leaves. Not shared between exports."""

    def __init__(self, checkpoint: Checkpoint, note: bytes) -> None:
        self.checkpoint = checkpoint
        self.note = note
        self._full: dict[TileKey, bytes] = {}

    @property
    def size(self) -> int:
        """Return how many leaves it has."""
        return self.checkpoint.size

    async def leaves(
        self, connection: Connection, subjects: Collection[UUID], kinds: Collection[str]
    ) -> list[Leaf]:
        """Return the leaves of these kinds about these subjects that are in it, in their order."""
        return await export_items.leaves(connection, subjects, kinds, self.size)

    async def hashes(self, connection: Connection, nodes: Collection[Node]) -> HashAt:
        """Return what answers for these nodes' hashes; no transaction must be under way."""
        wanted = {(level, tile) for level, tile, _, _ in (tiles.place(*node) for node in nodes)}
        found = {key: self._full[key] for key in wanted & self._full.keys()}
        # One instant, or a tile could become full between the two and be found in neither.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            read = await log.tiles(connection, wanted - found.keys())
            state = await log.state(connection)
        self._remember(read)
        found |= read
        ends = {
            (level, state.size >> tiles.HEIGHT * level + tiles.HEIGHT): data
            for level, data in enumerate(state.open_tiles)
        }
        return partial(_hash_at, ends | found)

    def proven(self, leaf: Leaf, hash_at: HashAt) -> Proven:
        """Return a leaf with its proof; Corrupt where what is stored of the tree does not lead to the checkpoint."""
        path = proofs.inclusion(leaf.idx, self.size, hash_at)
        root = self.checkpoint.root
        if not proofs.verify_inclusion(leaf_hash(leaf.leaf), leaf.idx, self.size, path, root):
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "the leaf is not in the published log")
        return Proven(leaf.leaf, TlogProof(leaf.idx, tuple(path), self.note).text)

    def inclusion_nodes(self, leaves: Collection[Leaf]) -> set[Node]:
        """Return the nodes that the proofs of these leaves need."""
        return {node for leaf in leaves for node in proofs.inclusion_nodes(leaf.idx, self.size)}

    async def consistency(self, connection: Connection, old: int) -> Sequence[bytes]:
        """Return the proof that it begins with the tree of `old` leaves."""
        hash_at = await self.hashes(connection, proofs.consistency_nodes(old, self.size))
        return proofs.consistency(old, self.size, hash_at)

    def _remember(self, read: dict[TileKey, bytes]) -> None:
        self._full |= read
        while len(self._full) > _MOST_TILES:
            del self._full[next(iter(self._full))]


def _hash_at(found: dict[TileKey, bytes], level: int, index: int) -> bytes:
    tile_level, tile, first, count = tiles.place(level, index)
    data = found.get((tile_level, tile))
    try:
        return tiles.node_in(data or b"", first, count)
    except ValueError:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "a tile of the log is not there") from None
