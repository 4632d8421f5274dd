"""What operators do about the log on the host: see how it stands, and let it go on after it was rolled back."""

import asyncio
from dataclasses import dataclass
from typing import Final

from policies.reasons import Reason
from store import commitments
from store.db import Database
from store.errors import Conflict, Corrupt, CustodyError
from store.log_tree import notes
from store.log_tree.notes import VerifierKey
from store.logging import logger
from store.mirror import Mirror
from store.services.export.signing import log_key
from store.services.mirrored import EMPTY, Growing, Held, disagreement, held_by, leaves
from store.tables import log, log_queue, operator_actions, publishing
from store.tables.log import State
from store.tables.operator_actions import STORE_WIDE

RESUMED: Final = "log_resumed"
REWRITTEN: Final = "log_mirror_written"


@dataclass(frozen=True, slots=True)
class LogStatus:
    """How the log stands; `mirror` None: it cannot be read here, and `trouble` says why."""

    state: State
    mirror: Held | None
    trouble: str
    against: str | None


class LogAdmin:
    """`database` acts as the duties."""

    def __init__(self, database: Database, mirror: Mirror) -> None:
        self._database = database
        self._mirror = mirror

    async def status(self) -> LogStatus:
        """Return how the log stands, and whether its mirror, if it can be read here, agrees."""
        async with self._database.connection() as connection:
            state = await log.state(connection)
        try:
            held = await asyncio.to_thread(held_by, self._mirror, await self.key())
            return LogStatus(state, held, "", await disagreement(self._database, held, state))
        except CustodyError as fault:
            return LogStatus(state, None, fault.detail or fault.reason.value, None)

    async def resume(self, who: str) -> int:
        """Let a log go on that was rolled back and has again what was published; return at how many leaves.

        Conflict where it is not stopped so, or still contradicts its mirror: what is missing comes back by a replay. A
        forked log never goes on as it is: what contradicts the mirror is taken back first (taking_back.py).
        """
        async with self._database.connection() as connection:
            state = await log.state(connection)
        if state.stop != "rolled_back":
            raise Conflict(Reason.IDENTITY_CONFLICT, _WHY_NOT.get(state.stop or "", "the log is not stopped"))
        # Nobody writes the mirror meanwhile: a publisher does nothing while the log is stopped.
        held = await asyncio.to_thread(held_by, self._mirror, await self.key())
        against = await disagreement(self._database, held, state)
        if against is not None:
            missing = f"the database has {state.size} leaves, its mirror {held.size}"
            raise Conflict(
                Reason.IDENTITY_CONFLICT, f"{against}: {missing}; replay the log from the mirror first"
            )
        await self._resume(who, state)
        logger().warning("log_resumed", key_id=who, count=state.size)
        return state.size

    async def write_mirror(self, who: str) -> int:
        """Write a mirror that was lost anew, up to the last checkpoint in the database; return its size.

        Conflict where there is one. Corrupt where that checkpoint is not signed by the log's key, or the leaves do not
        bear it out: the database cannot make up another log, only keep silent about the end of this one.
        """
        with self._mirror.taken():
            if self._mirror.checkpoint() is not None:
                raise Conflict(
                    Reason.IDENTITY_CONFLICT, "there is a mirror: only one that was lost is written anew"
                )
            async with self._database.connection() as connection:
                state = await log.state(connection)
                note = await publishing.checkpoint(connection, state.published_size)
                key = await log_key(connection)
            growing = Growing(self._mirror, EMPTY)
            async for entries in leaves(self._database, 0, state.published_size):
                await asyncio.to_thread(growing.add, entries)
            await asyncio.to_thread(growing.finish)
            if note is None or _vouched_for(note, key) != growing.tree.edge().root():
                raise Corrupt(Reason.INTEGRITY_MISMATCH, "the database does not bear out its last checkpoint")
            await asyncio.to_thread(self._mirror.claim, key.text)
            await asyncio.to_thread(self._mirror.publish, note)
        async with self._database.connection() as connection:
            await operator_actions.insert(connection, None, who, REWRITTEN, str(state.published_size))
        logger().warning("mirror_written", key_id=who, count=state.published_size)
        return state.published_size

    async def key(self) -> VerifierKey:
        """Return the key that signs the log: as its own leaf names it, or else the mirror."""
        said = self._mirror.key()
        async with self._database.connection() as connection:
            if said is None or await publishing.key_leaves(connection):
                return await log_key(connection)
        return notes.parse_vkey(said)

    async def _resume(self, who: str, state: State) -> None:
        async with self._database.transaction() as connection:
            locked = await log.lock_state(connection)
            if locked.size != state.size or not await publishing.resume(connection):
                raise Conflict(Reason.IDENTITY_CONFLICT, "the log changed meanwhile: look again")
            leaf = commitments.leaf("resume", size=state.size, t=locked.now, why="rolled_back")
            await log_queue.copy(connection, [(STORE_WIDE, leaf)])
            await operator_actions.insert(connection, None, who, RESUMED, str(state.size))


def _vouched_for(note: bytes, key: VerifierKey) -> bytes | None:
    try:
        return notes.verify_checkpoint(note, key).root
    except ValueError:
        return None


_WHY_NOT: Final = {
    "forked": "the log is forked: it never goes on as it is. Find out why, then `python -m store log take-back`",
    "restoring": "a restore is under way: it opens the log itself",
}
