"""The log's tree in its mirror: read back as the checkpoint vouches for it, held against the database, and grown."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from policies.reasons import Reason
from store.db import Database
from store.errors import Corrupt
from store.log_tree import notes, tiles
from store.log_tree.hashes import EMPTY_ROOT, leaf_hash
from store.log_tree.notes import VerifierKey
from store.log_tree.tiles import OpenTiles, Tile
from store.logging import logger
from store.mirror import Differs, Mirror
from store.tables import log
from store.tables.log import State
from store.tables.publishing import Against

_BATCH: Final = 4096


@dataclass(frozen=True, slots=True)
class Held:
    """The tree that the mirror's checkpoint vouches for. `note` None: nothing was published yet.

    `open_tiles` and `entries` are what it grows from: the last tile of each level, and the leaves below the lowest.
    """

    size: int
    root: bytes
    open_tiles: tuple[bytes, ...]
    entries: tuple[bytes, ...]
    note: bytes | None

    def tree(self) -> OpenTiles:
        """Return the tree, to let it grow."""
        return OpenTiles(self.size, self.open_tiles)


EMPTY: Final = Held(0, EMPTY_ROOT, (), (), None)


def held_by(mirror: Mirror, key: VerifierKey) -> Held:
    """Return the tree that the mirror's checkpoint vouches for; Corrupt where the mirror does not bear it out."""
    note = mirror.checkpoint()
    if note is None:
        return EMPTY
    try:
        checkpoint = notes.verify_checkpoint(note, key)
        open_tiles = tuple(_open_tiles(mirror, checkpoint.size))
        entries = tuple(tiles.parse_bundle(_open(mirror, Tile(None, *divmod(checkpoint.size, tiles.WIDTH)))))
        tree = OpenTiles(checkpoint.size, open_tiles)
    except ValueError as fault:
        # Not signed by the key, not of its form, or a file is not there.
        raise Corrupt(Reason.INTEGRITY_MISMATCH, f"the mirror is damaged: {fault}") from None
    hashes = b"".join(map(leaf_hash, entries))
    if tree.edge().root() != checkpoint.root or hashes != (tree.tiles or [b""])[0]:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the mirror's files are not what its checkpoint vouches for")
    return Held(checkpoint.size, checkpoint.root, open_tiles, entries, note)


async def disagreement(database: Database, held: Held, state: State) -> Against | None:
    """Say how the database's tree contradicts the mirror's; None where it is the same, or has grown from it."""
    if state.size < held.size:
        return "rolled_back"
    tree = held.tree()
    async for entries in leaves(database, held.size, state.size):
        tree.append([leaf_hash(each) for each in entries])
    # Where leaves are missing the tree has another size, and so another root.
    return None if tree.edge().root() == state.root else "forked"


async def leaves(database: Database, start: int, end: int) -> AsyncIterator[Sequence[bytes]]:
    """Yield the leaves from one index to before another, some at a time."""
    for at in range(start, end, _BATCH):
        async with database.connection() as connection:
            found = await log.leaves(connection, at, min(at + _BATCH, end))
        yield found


class Growing:
    """Writes the files by which the tree in the mirror grows: full ones as they become full, open ones at the end.

    Nothing of them counts before a checkpoint vouches for it.
    """

    def __init__(self, mirror: Mirror, held: Held) -> None:
        self.tree = held.tree()
        self._mirror = mirror
        self._from = held.size
        self._entries = list(held.entries)

    def add(self, entries: Sequence[bytes]) -> None:
        """Let the tree grow by these leaves."""
        self._entries += entries
        for tile, hashes in self.tree.append([leaf_hash(each) for each in entries]):
            if tile.level == 0:
                self._put(Tile(None, tile.tile), tiles.bundle(self._entries[: tiles.WIDTH]))
                del self._entries[: tiles.WIDTH]
            self._put(tile, hashes)

    def finish(self) -> None:
        """Write what stays open."""
        ends = self.tree.tiles
        for tile in tiles.grown(self._from, self.tree.size):
            if tile.level is None or tile.width == tiles.WIDTH:
                continue
            if tile.level == 0:
                self._put(Tile(None, tile.tile, tile.width), tiles.bundle(self._entries))
            self._put(tile, ends[tile.level])

    def tidy(self) -> None:
        """Remove what the mirror has of tiles from when they were narrower, once the checkpoint is written.

        Those of the checkpoint before stay for a round: somebody may be reading by it.
        """
        for level in range(len(self.tree.tiles)):
            had, have = self._from >> (tiles.HEIGHT * level), self.tree.size >> (tiles.HEIGHT * level)
            for number in {had // tiles.WIDTH, have // tiles.WIDTH}:
                open_still = number == have // tiles.WIDTH
                widths = {
                    each % tiles.WIDTH for each in (had, have) if open_still and each // tiles.WIDTH == number
                }
                for kind in (level, None) if level == 0 else (level,):
                    self._mirror.tidy(Tile(kind, number), widths - {0})

    def _put(self, tile: Tile, data: bytes) -> None:
        try:
            self._mirror.put(tile, data)
        except Differs:
            # It reaches beyond the checkpoint, so that nobody has vouched for it: left by a round that was killed
            # before it signed, of a database that has lost what that round saw.
            logger().warning("mirror_leftover")
            self._mirror.drop(tile)
            self._mirror.put(tile, data)


def _open_tiles(mirror: Mirror, size: int) -> list[bytes]:
    ends = [size >> (tiles.HEIGHT * level) for level in range(len(tiles.open_widths(size)))]
    return [_open(mirror, Tile(level, *divmod(end, tiles.WIDTH))) for level, end in enumerate(ends)]


def _open(mirror: Mirror, tile: Tile) -> bytes:
    """Return a tile that is not full; one of no width is no file."""
    found = mirror.read(tile) if tile.width else b""
    if found is None:
        raise ValueError("a file is not there")
    return found
