"""A way out of a fork: by an operator's word, what the database has beyond its mirror waits for a place again.

A fork comes of a database that went back and was sequenced before anybody compared it, or of entries that somebody
changed. What the mirror has was published, and is the log. What the database has instead was signed by nobody, so that
nobody was shown another way, and taking it back breaks no promise. Its leaves go to the end of the queue again, in
their order; from there on the database is one that was rolled back, and `restore` brings back what it lacks. What both
have finds its place by that, and leaves the queue.

Where somebody did sign another tree, two were shown to the world: that is told, and done only if asked for again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from policies.reasons import Reason
from store.db import Connection, Database
from store.errors import Conflict
from store.log_tree import notes
from store.log_tree.hashes import leaf_hash
from store.log_tree.notes import VerifierKey
from store.log_tree.tiles import OpenTiles
from store.logging import logger
from store.mirror import Mirror
from store.services.log_admin import LogAdmin
from store.services.mirrored import Held, held_by
from store.services.restore_copy import leaves_beyond, unplaced
from store.tables import log, log_queue, operator_actions, publishing, taking_back
from store.tables.log import State

TAKEN_BACK: Final = "log_taken_back"

_BATCH: Final = 4_096


@dataclass(frozen=True, slots=True)
class TakenBack:
    """From which leaf on the database had others than its mirror, how many those were, and how many the mirror has."""

    first: int
    leaves: int
    missing: int


@dataclass(frozen=True, slots=True)
class TakingBack:
    """`database` acts as the owner: nobody else may change the log."""

    database: Database
    mirror: Mirror

    async def run(self, who: str, *, although_signed: bool = False) -> TakenBack:
        """Take back what contradicts the mirror. It reads the whole log. Killed, it has done nothing.

        Conflict where the log is not forked, the mirror is empty, or another tree was signed and it is not said that
        this does not matter.
        """
        async with self.database.connection() as connection:
            state = await log.state(connection)
        if state.stop != "forked":
            raise Conflict(Reason.IDENTITY_CONFLICT, "the log is not forked: there is nothing to take back")
        key = await LogAdmin(self.database, self.mirror).key()
        held = await asyncio.to_thread(held_by, self.mirror, key)
        if held.note is None:
            raise Conflict(Reason.IDENTITY_CONFLICT, "the mirror is empty: is it mounted?")
        tree = await self._common(held, state)
        otherwise = await self._signed_otherwise(tree, held, key)
        if otherwise and not although_signed:
            raise Conflict(Reason.IDENTITY_CONFLICT, _SIGNED.format(len(otherwise), otherwise[0]))
        await self._take_back(who, state, tree)
        logger().warning("log_taken_back", key_id=who, count=state.size - tree.size)
        return TakenBack(tree.size, state.size - tree.size, held.size - tree.size)

    async def _common(self, held: Held, state: State) -> OpenTiles:
        """Return the tree of the leaves that both have, up to the first that is another one or not there."""
        tree = OpenTiles()
        for published in leaves_beyond(self.mirror, 0, held.size):
            end = min(tree.size + len(published), state.size)
            async with self.database.connection() as connection:
                stored = await log.entries(connection, tree.size, end)
            same = 0
            for index, (leaf, entry) in enumerate(zip(published, stored, strict=False), tree.size):
                if (entry.idx, entry.leaf) != (index, leaf):
                    break
                same += 1
            tree.append([leaf_hash(leaf) for leaf in published[:same]])
            if same < len(published):
                break
        return tree

    async def _signed_otherwise(self, tree: OpenTiles, held: Held, key: VerifierKey) -> list[int]:
        """Return the sizes for which the log's key signed a tree that is not the mirror's."""
        last, found = tree.size - 1, []
        roots = _Roots(self.mirror, tree, held)
        while True:
            async with self.database.connection() as connection:
                rows = await publishing.checkpoints_after(connection, last, _BATCH)
            for size, note in rows:
                signed = _signed(note, key)
                if signed is not None and signed != await asyncio.to_thread(roots.at, size):
                    found.append(size)
            if len(rows) < _BATCH:
                return found
            last = rows[-1][0]

    async def _take_back(self, who: str, state: State, tree: OpenTiles) -> None:
        edge = tree.edge()
        async with self.database.transaction() as connection, taking_back.going_back(connection):
            locked = await log.lock_state(connection)
            if (locked.size, locked.root, locked.stop) != (state.size, state.root, state.stop):
                raise Conflict(Reason.IDENTITY_CONFLICT, "the log changed meanwhile: look again")
            for first in range(tree.size, state.size, _BATCH):
                await _queue_again(connection, first, min(first + _BATCH, state.size))
            await taking_back.drop_entries(
                connection, tree.size, await taking_back.last_entry(connection) + 1
            )
            await taking_back.end_at(connection, tree.size, edge.root(), edge.nodes, tree.tiles)
            await operator_actions.insert(connection, None, who, TAKEN_BACK, f"{tree.size} {state.size}")


class _Roots:
    """The roots of the mirror's tree at sizes that come in their order, from one that is known."""

    def __init__(self, mirror: Mirror, tree: OpenTiles, held: Held) -> None:
        self._tree = OpenTiles(tree.size, tree.tiles)
        self._held = held
        self._beyond = _each(leaves_beyond(mirror, tree.size, held.size))

    def at(self, size: int) -> bytes | None:
        """Return the root at a size; None beyond what the mirror has."""
        if size > self._held.size:
            return None
        self._tree.append([leaf_hash(next(self._beyond)) for _ in range(size - self._tree.size)])
        return self._tree.edge().root()


def _each(bundles: Iterator[Sequence[bytes]]) -> Iterator[bytes]:
    for leaves in bundles:
        yield from leaves


async def _queue_again(connection: Connection, first: int, end: int) -> None:
    entries = await log.entries(connection, first, end)
    await log_queue.copy(connection, [(entry.scope_id, unplaced(entry.leaf)) for entry in entries])
    await taking_back.drop_entries(connection, first, end)


def _signed(note: bytes, key: VerifierKey) -> bytes | None:
    try:
        return notes.verify_checkpoint(note, key).root
    except ValueError:
        return None


_SIGNED: Final = (
    "{} checkpoints were signed for another tree than the mirror's, the first at {} leaves: a second publisher, or "
    "somebody who has the key, showed another log. With --although-signed they go too; whoever holds one can prove it"
)
