"""Whether the proof log's tree is the one that its entries make: indexes, tiles, checkpoints, and the end of it."""

from collections.abc import Callable, Sequence

from store.db import Connection
from store.log_tree import notes
from store.log_tree.hashes import Edge, leaf_hash
from store.log_tree.tiles import OpenTiles
from store.services.verify_log import Page
from store.tables import log
from store.tables import verify_log as table
from store.tables.log import State

Say = Callable[[str, object], None]
"""Takes what is wrong, and where."""


class TreeCheck:
    """Grows the tree anew from entries, a page at a time, in constant memory."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._tree = OpenTiles()
        # The same tree twice: this one tells the root at any size without much work.
        self._edge = Edge()
        self._whole = True
        self._origins: set[str] = set()
        self.checkpoints = 0
        self.tiles = 0

    async def add(self, connection: Connection, page: Page) -> None:
        """Take the entries of a page."""
        if not self._whole:
            return
        there = {entry.idx for entry in page.entries}
        missing = [index for index in range(page.first, page.end) if index not in there]
        if missing:
            # Beyond a hole nothing can be compared any more; one is enough to say so.
            self._whole = False
            self._say("log_entry_missing", f"index {missing[0]}")
            return
        hashes = [leaf_hash(entry.leaf) for entry in page.entries]
        await self._compare_tiles(connection, hashes)
        await self._compare_checkpoints(connection, hashes)

    async def end(self, connection: Connection, state: State) -> None:
        """Compare with what is stored as the end, all of it seen at one instant."""
        beyond = await table.beyond(connection, state.size)
        for kind, count in zip(beyond._fields, beyond, strict=True):
            if count:
                self._say("log_beyond_its_end", f"{count} {kind}")
        if not self._whole:
            return
        if self._origins - {state.origin}:
            self._say("checkpoint_mismatch", "origin")
        for what, stored, derived in (
            ("root", state.root, self._edge.root()),
            ("edge", list(state.edge), self._edge.nodes),
            ("open tiles", list(state.open_tiles), self._tree.tiles),
        ):
            if stored != derived:
                self._say("log_end_mismatch", what)

    async def _compare_tiles(self, connection: Connection, hashes: Sequence[bytes]) -> None:
        full = {(tile.level or 0, tile.tile): data for tile, data in self._tree.append(hashes)}
        stored = await log.tiles(connection, full)
        self.tiles += len(full)
        for key, data in full.items():
            if stored.get(key) != data:
                self._say("log_tile_mismatch", f"level {key[0]}, tile {key[1]}")

    async def _compare_checkpoints(self, connection: Connection, hashes: Sequence[bytes]) -> None:
        first = self._edge.size
        for size, note in await table.checkpoints(connection, first, first + len(hashes)):
            self._edge.append(hashes[self._edge.size - first : size - first])
            self.checkpoints += 1
            if not self._is_of(note, size):
                self._say("checkpoint_mismatch", f"size {size}")
        self._edge.append(hashes[self._edge.size - first :])

    def _is_of(self, note: bytes, size: int) -> bool:
        try:
            said = notes.parse_checkpoint(notes.unverified_text(note))
        except ValueError:
            return False
        self._origins.add(said.origin)
        return (said.size, said.root) == (size, self._edge.root())
