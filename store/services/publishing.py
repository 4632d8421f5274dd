"""The publisher's work: sign what is committed and extends what was published, in a mirror outside the database.

What is signed is made from the mirror's own last tree and the leaves that the database has committed since, so that it
extends by construction what was signed before; and it is only signed where its root is the one that the database has.
A database that is smaller than its mirror was rolled back; one whose leaves lead to another root is forked. Then no
more is signed, reads close, and only an operator can let it go on.

The mirror is taken alone for a round and its checkpoint is written last: whoever is killed at any point leaves files
that no checkpoint vouches for, or a checkpoint of which the next round tells the database.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from policies.reasons import Reason
from store import commitments
from store.db import Connection, Database
from store.errors import ConfigFaults, Corrupt
from store.log_tree.notes import Checkpoint, Signer
from store.logging import logger
from store.mirror import Differs, Mirror
from store.services.mirrored import Growing, Held, disagreement, held_by, leaves
from store.tables import log, log_queue, publishing
from store.tables.log import State
from store.tables.operator_actions import STORE_WIDE
from store.tables.publishing import Against

DUTY: Final = "publish"
EVERY_S: Final = 1

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Round:
    """What one round found: how far the log is published, how many leaves it signed for, and what stops the log."""

    size: int
    signed: int
    stop: str | None

    def __str__(self) -> str:
        return f"ok size={self.size}" if self.stop is None else f"failed: {self.stop}"


class Publishing:
    """The publisher of one log. `database` acts as the duties."""

    def __init__(self, database: Database, mirror: Mirror, signer: Signer) -> None:
        self._database = database
        self._mirror = mirror
        self._signer = signer

    async def begin(self) -> None:
        """Name the log and its key where nobody has; ConfigFaults where database or mirror are another log's."""
        vkey = self._signer.key.text
        with self._mirror.taken():
            try:
                self._mirror.claim(vkey)
            except Differs:
                raise ConfigFaults(
                    ["CUSTODY_MIRROR_DIR is the mirror of another log, or of another key"]
                ) from None
            async with self._database.transaction() as connection:
                await self._name(connection, vkey)

    async def round(self) -> Round:
        """Hold the database against the mirror, and publish what was committed since; stop it where they disagree."""
        with self._mirror.taken():
            state = await self._state()
            if state.stop is not None:
                return Round(state.published_size, 0, state.stop)
            held = await to_the_end(held_by, self._mirror, self._signer.key)
            if held.size < state.published_size:
                raise Corrupt(Reason.INTEGRITY_MISMATCH, "the mirror lacks what was published")
            against = await disagreement(self._database, held, state)
            if against is not None:
                return await self._stopped(state, against)
            note = await self._published(held, state)
            return await self._agreed(state, note, state.size - held.size)

    async def _name(self, connection: Connection, vkey: str) -> None:
        await log.lock_state(connection)
        await publishing.name_log(connection, self._signer.key.name)
        state = await log.state(connection)
        known = {named_key(leaf) for leaf in await publishing.key_leaves(connection)}
        if state.origin != self._signer.key.name or known - {vkey}:
            raise ConfigFaults(["the log in the database has another origin, or another key signs it"])
        # What is published already names it: then the database has lost the leaf, and gets it back from the mirror.
        if not known and self._mirror.checkpoint() is None:
            leaf = commitments.leaf("key", op="add", t=state.now, u=vkey)
            await log_queue.copy(connection, [(STORE_WIDE, leaf)])

    async def _state(self) -> State:
        async with self._database.connection() as connection:
            return await log.state(connection)

    async def _published(self, held: Held, state: State) -> bytes | None:
        """Write what the tree grew by and sign it; return the checkpoint of what there is now."""
        if held.size == state.size:
            # Whoever wrote it may have died before it was down on the disk.
            await to_the_end(self._mirror.settle)
            return held.note
        growing = Growing(self._mirror, held)
        async for entries in leaves(self._database, held.size, state.size):
            await to_the_end(growing.add, entries)
        await to_the_end(growing.finish)
        if growing.tree.edge().root() != state.root:
            raise Corrupt(Reason.INTEGRITY_MISMATCH, "leaves changed while they were read")
        note = self._signer.sign(Checkpoint(self._signer.key.name, state.size, state.root).text)
        await to_the_end(self._mirror.publish, note)
        await to_the_end(growing.tidy)
        return note

    async def _agreed(self, state: State, note: bytes | None, signed: int) -> Round:
        """Tell the database what is published, and that it was compared."""
        kept, agreed = note, False
        async with self._database.transaction() as connection:
            if note is not None:
                kept = await publishing.keep_checkpoint(connection, state.size, note)
            if kept == note:
                agreed = await publishing.agree(connection, state.size, state.here)
        if kept != note:
            # Another checkpoint of this size was signed, or written by whoever can write there.
            return await self._stopped(state, "forked")
        if not agreed:
            # Somebody stopped it meanwhile.
            state = await self._state()
            return Round(state.published_size, signed, state.stop)
        return Round(state.size, signed, None)

    async def _stopped(self, state: State, why: Against) -> Round:
        async with self._database.connection() as connection:
            await publishing.stop(connection, why)
        logger().error("log_stopped", reason=why, count=state.size)
        return Round(state.published_size, 0, why)


async def to_the_end(act: Callable[..., Done], *arguments: object) -> Done:
    """Do something with files in a thread; who is cancelled meanwhile waits for it, and has the mirror until then."""
    work = asyncio.ensure_future(asyncio.to_thread(act, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def named_key(leaf: bytes) -> str:
    """Return the vkey that a key leaf names."""
    return _decoder.decode(leaf).u


class _KeyLeaf(msgspec.Struct):
    u: str


_decoder: Final = msgspec.json.Decoder(_KeyLeaf)
