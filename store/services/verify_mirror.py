"""Whether the mirror is what its checkpoint vouches for, and the same log as the database has.

Everything is made anew from the mirror's own entries. The publisher may go on meanwhile: what is checked is what the
checkpoint covered that was found first.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from store.db import Database
from store.log_tree import notes, tiles
from store.log_tree.hashes import leaf_hash
from store.log_tree.notes import Checkpoint, VerifierKey
from store.log_tree.tiles import OpenTiles, Tile
from store.mirror import Mirror
from store.services.publishing import named_key
from store.tables import log, publishing

Say = Callable[[str, object], None]
"""Takes what is wrong, and where."""

_BATCH: Final = 500


class MirrorCheck:
    """One run over the mirror; what it counted is in `counted`."""

    def __init__(self, database: Database, mirror: Mirror, say: Say) -> None:
        self._database = database
        self._mirror = mirror
        self._say = say
        self._tree = OpenTiles()
        self.counted: dict[str, int] = {}

    async def run(self) -> bool:
        """Check all of it; False where there is no mirror to look at, and nothing was ever published."""
        note = await asyncio.to_thread(self._mirror.checkpoint)
        # After the checkpoint: nothing is published before it is committed.
        async with self._database.connection() as connection:
            state = await log.state(connection)
            named = {named_key(leaf) for leaf in await publishing.key_leaves(connection)}
        if note is None:
            if state.published_size:
                self._say("mirror_missing", "checkpoint")
            return state.published_size > 0
        key = self._key(named)
        if key is None:
            return True
        await self._signatures(key)
        checkpoint = self._checkpoint(note, key)
        if checkpoint is not None:
            if state.size < checkpoint.size:
                self._say("log_rolled_back", f"{state.size} of {checkpoint.size} leaves")
            await self._same(checkpoint, note, min(state.size, checkpoint.size))
        return True

    def _key(self, named: Iterable[str]) -> VerifierKey | None:
        """Return the key that signs, if mirror and log name the same one and no other."""
        said = self._mirror.key()
        if said is None or set(named) - {said}:
            self._say("mirror_of_another_key", "log.vkey")
            return None
        try:
            return notes.parse_vkey(said)
        except ValueError:
            self._say("mirror_damaged", "log.vkey")
            return None

    def _checkpoint(self, note: bytes, key: VerifierKey) -> Checkpoint | None:
        try:
            return notes.verify_checkpoint(note, key)
        except ValueError:
            self._say("mirror_damaged", "checkpoint")
            return None

    async def _signatures(self, key: VerifierKey) -> None:
        """Check who signed the checkpoints that the database keeps."""
        last = -1
        while True:
            async with self._database.connection() as connection:
                rows = await publishing.checkpoints_after(connection, last, _BATCH)
            for size, note in rows:
                try:
                    notes.verify_checkpoint(note, key)
                except ValueError:
                    self._say("checkpoint_unsigned", f"size {size}")
            self._count("signatures", len(rows))
            if len(rows) < _BATCH:
                return
            last = rows[-1][0]

    async def _same(self, checkpoint: Checkpoint, note: bytes, common: int) -> None:
        """Compare every entry with the database's, and every tile with what the entries make."""
        for number in range(-(-checkpoint.size // tiles.WIDTH)):
            width = min(tiles.WIDTH, checkpoint.size - number * tiles.WIDTH)
            entries = await asyncio.to_thread(self._entries, Tile(None, number, width))
            if entries is None:
                # Beyond a hole nothing can be made anew.
                return
            await self._compare(number * tiles.WIDTH, entries, common)
            full = self._tree.append([leaf_hash(each) for each in entries])
            await asyncio.to_thread(self._compare_tiles, full)
        await asyncio.to_thread(self._compare_tiles, self._open(checkpoint.size))
        if self._tree.edge().root() != checkpoint.root:
            self._say("mirror_damaged", "checkpoint")
        async with self._database.connection() as connection:
            if await publishing.checkpoint(connection, checkpoint.size) not in (None, note):
                self._say("checkpoint_mismatch", f"size {checkpoint.size}")

    async def _compare(self, first: int, entries: list[bytes], common: int) -> None:
        end = min(first + len(entries), common)
        async with self._database.connection() as connection:
            rows = await log.entries(connection, first, end)
        stored = {row.idx: row.leaf for row in rows}
        for index in range(first, end):
            if stored.get(index) != entries[index - first]:
                self._say("mirror_entry_mismatch", f"index {index}")
        self._count("mirror leaves", len(entries))

    def _compare_tiles(self, made: Iterable[tuple[Tile, bytes]]) -> None:
        for tile, hashes in made:
            found = self._read(tile)
            if found is None:
                self._say("mirror_missing", tile.path)
            elif found[: len(hashes)] != hashes:
                self._say("mirror_damaged", tile.path)
            self._count("mirror tiles", 1)

    def _open(self, size: int) -> list[tuple[Tile, bytes]]:
        ends = [size >> (tiles.HEIGHT * level) for level in range(len(self._tree.tiles))]
        return [
            (Tile(level, *divmod(ends[level], tiles.WIDTH)), hashes)
            for level, hashes in enumerate(self._tree.tiles)
            if hashes
        ]

    def _entries(self, tile: Tile) -> list[bytes] | None:
        found = self._read(tile)
        if found is None:
            self._say("mirror_missing", tile.path)
            return None
        try:
            entries = tiles.parse_bundle(found)[: tile.width]
        except ValueError:
            entries = []
        if len(entries) < tile.width:
            self._say("mirror_damaged", tile.path)
            return None
        return entries

    def _read(self, tile: Tile) -> bytes | None:
        """Return a file, or the wider one that has come in its place while we looked."""
        found = self._mirror.read(tile)
        for width in range(tile.width + 1, tiles.WIDTH + 1):
            if found is not None:
                break
            found = self._mirror.read(Tile(tile.level, tile.tile, width))
        return found

    def _count(self, what: str, more: int) -> None:
        self.counted[what] = self.counted.get(what, 0) + more
