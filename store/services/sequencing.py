"""The sequencer: gives what waits its place in the proof log, in the order of the queue. Nobody else grows the tree.

One transaction a batch: the row of `log_state` locked, leaves taken, hashed, appended, the full tiles spilled, the new
end written. Whoever dies in between has done nothing; two at once wait for each other. It goes on while captures do.

It stands still while the log is stopped, and where nobody has lately compared this database with the mirror
(compared.py): in one that was restored from a backup it would give indexes away that were published for other leaves.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self
from uuid import UUID

from policies.reasons import Reason
from store.clock import monotonic
from store.db import Connection, Database
from store.errors import Corrupt
from store.log_tree.facts import Facts, facts, part_named, placed
from store.log_tree.hashes import Edge, leaf_hash
from store.log_tree.tiles import LONGEST_ENTRY, OpenTiles
from store.logging import logger
from store.services.compared import trusted
from store.tables import log, log_queue
from store.tables.log import NewEntry, Queued, State, TileKey

DUTY: Final = "sequence"

BATCH: Final = 4_096
_BUDGET_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction did; `last` is the id up to which it took."""

    sequenced: int = 0
    waiting: int = 0
    still: bool = False
    last: int = 0

    @property
    def more(self) -> bool:
        """Say whether there may be more to take."""
        return self.sequenced + self.waiting == BATCH


@dataclass(frozen=True, slots=True)
class Sequencer:
    """What the duty works with; `database` acts as the duties."""

    database: Database
    reads_lease: timedelta

    async def due(self) -> bool:
        """Say whether a leaf waits."""
        async with self.database.connection() as connection:
            return await log.waits(connection)

    async def run(self) -> Mapping[str, int]:
        """Sequence what waits, as far as the time allows."""
        sequenced, done, stop_at = 0, Step(1), monotonic() + _BUDGET_S
        while done.sequenced and monotonic() < stop_at:
            done = await self._drain(stop_at)
            sequenced += done.sequenced
        if done.waiting:
            # Their part has no leaf in the log, which cannot be: `verify` says more.
            logger().error("leaves_wait", duty=DUTY, count=done.waiting)
        return {"sequenced": sequenced, "waiting": done.waiting, "stands_still": int(done.still)}

    async def _drain(self, stop_at: float) -> Step:
        """Take what is there now. What has to wait is put behind that, so that it is seen once and keeps nobody.

        Each batch goes on where the one before ended: from the beginning it would look at all that has just been
        deleted. What is committed late, below that, is found by the next drain.
        """
        async with self.database.connection() as connection:
            until = await log.last_queued(connection)
        done = Step()
        while until is not None and monotonic() < stop_at:
            step = await self.step(done.last, until)
            done = Step(done.sequenced + step.sequenced, done.waiting + step.waiting, step.still, step.last)
            if not step.more:
                break
        return done

    async def step(self, after: int, until: int) -> Step:
        """Sequence one batch of the leaves that were queued between two ids."""
        async with self.database.transaction() as connection:
            state = await log.lock_state(connection)
            if not trusted(state, self.reads_lease):
                return Step(still=True)
            tree = tree_of(state)
            queued = await log.take_queue(connection, after, until, BATCH)
            entries, waiting = await _in_place(connection, queued, state.size)
            if waiting:
                await log_queue.copy(connection, waiting)
            if entries:
                await append(connection, tree, entries)
        return Step(len(entries), len(waiting), last=queued[-1].id if queued else after)


async def append(connection: Connection, tree: OpenTiles, entries: Sequence[NewEntry]) -> None:
    """Let the tree grow by these entries, within the caller's transaction, which has the row of the state locked."""
    # Hashed while the database takes the entries in.
    hashing = asyncio.create_task(asyncio.to_thread(_grow, tree, [entry[-1] for entry in entries]))
    try:
        await log.append(connection, entries)
    finally:
        full, edge = await hashing
    await log.append_tiles(connection, full)
    await log.advance(connection, tree.size, edge.root(), edge.nodes, tree.tiles)


def _grow(tree: OpenTiles, leaves: Sequence[bytes]) -> tuple[Mapping[TileKey, bytes], Edge]:
    full = tree.append(list(map(leaf_hash, leaves)))
    return {(tile.level or 0, tile.tile): hashes for tile, hashes in full}, tree.edge()


def tree_of(state: State) -> OpenTiles:
    """Return the tree's end, if what is stored of it follows from itself: nothing is built on what was changed."""
    try:
        tree = OpenTiles(state.size, state.open_tiles)
        edge = tree.edge()
    except ValueError:
        edge = None
    if edge is None or edge.nodes != list(state.edge) or edge.root() != state.root:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the end of the log does not follow from itself")
    return tree


async def _in_place(
    connection: Connection, queued: Sequence[Queued], size: int
) -> tuple[list[NewEntry], list[tuple[UUID, bytes]]]:
    """Give leaves their indexes; return apart those that have to wait: purge leaves whose part has no index yet."""
    read = [part_named(each.leaf) or _read(each.leaf) for each in queued]
    purged = await _Purged.among(connection, read)
    entries: list[NewEntry] = []
    waiting: list[tuple[UUID, bytes]] = []
    for (_, scope, leaf), told in zip(queued, read, strict=True):
        index = size + len(entries)
        if isinstance(told, str):
            purged.stored(told, index)
            entries.append((index, scope, "part", told, leaf))
        elif told is not None and (there := purged.placed(leaf, told, index)) is not None:
            entries.append((index, scope, told.k, told.subject, there))
        else:
            waiting.append((scope, leaf))
    return entries, waiting


def _read(leaf: bytes) -> Facts | None:
    # What is no leaf can never be one; it waits where everybody sees it, since nothing is thrown away here.
    try:
        return facts(leaf) if len(leaf) <= LONGEST_ENTRY else None
    except ValueError:
        return None


class _Purged:
    """Where the parts are of which a batch says that they were purged; by their ids in hex."""

    def __init__(self, wanted: set[str], known: dict[str, int]) -> None:
        self._wanted = wanted
        self._known = known

    @classmethod
    async def among(cls, connection: Connection, read: Sequence[str | Facts | None]) -> Self:
        """Look for those that have an index already."""
        told = [each for each in read if isinstance(each, Facts)]
        wanted = {each.p for each in told if each.k == "purge" and each.of is None and each.p is not None}
        known = await log.indexes_of(connection, wanted, "part") if wanted else {}
        return cls({each.hex for each in wanted}, {each.hex: index for each, index in known.items()})

    def stored(self, part: str, index: int) -> None:
        """Remember that a part's leaf is at `index`; of one that was lost and written again the last counts."""
        if part in self._wanted:
            self._known[part] = index

    def placed(self, leaf: bytes, told: Facts, index: int) -> bytes | None:
        """Return a leaf as it stands in the log at `index`, None while it has to wait."""
        if told.k == "part" and told.p is not None:
            self.stored(told.p.hex, index)
        if told.k != "purge" or told.p is None or told.of is not None:
            return leaf
        of = self._known.get(told.p.hex)
        return None if of is None else placed(leaf, of)
