"""Restoring: a database that came back from a backup gets again what the log says of the time since.

    begin     reads close and the log stands still, before anything else
    copy      leaves, tiles and the checkpoint from the mirror, whose root the tree must have; what the backup had
              waiting and has its place by now leaves the queue
    renew     every shard of the queue gets another epoch and forgets runs, which are counted anew when asked for
    replay    leaf by leaf what the backup lacks (restore_replay.py)
    torn      rows whose body did not come back say so
    say       a leaf of the restore, an operator's action; tickets of before expire, so that everybody declares again
    destroy   what was closed again goes: bodies, partitions, keys
    open      once the tree is the mirror's: reads open, the log goes on

Each step may be done twice, and how far it is stands in `log_state` and `restores`: whoever is killed is followed by
the same command. A log that took another way is forked: what contradicts the mirror is taken back
before (taking_back.py).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store import commitments, ids
from store.db import Database
from store.errors import Conflict
from store.keyring import Keyring
from store.logging import logger
from store.mirror import Mirror
from store.queue import Queue
from store.services.expiry import Expiry
from store.services.housekeeping import BucketKeys
from store.services.log_admin import LogAdmin
from store.services.mirrored import Held, disagreement, held_by
from store.services.purge import Purge
from store.services.restore_copy import copy_log, grows_into
from store.services.restore_keys import ready_to_hold, replace_lost
from store.services.restore_replay import Replay
from store.tables import log, log_queue, operator_actions, queue_shards, restores
from store.tables.log import State
from store.tables.operator_actions import STORE_WIDE
from store.tables.restores import RestoreRow

RESTORED: Final = "log_restored"

Say = Callable[[str], None]
"""Takes a line about a step that is done."""

# More than policies change between a backup and its restore: tickets name the version that they were given under.
_VERSIONS: Final = 1_000
_PARTS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Restore:
    """What a restore works with; `database` acts as the duties."""

    database: Database
    keyring: Keyring
    queue: Queue
    mirror: Mirror
    purge: Purge
    expiry: Expiry

    async def run(self, who: str, say: Say) -> bool:
        """Restore what is missing, or go on where somebody was killed; False where nothing is missing.

        Conflict where the log is forked, the mirror or the keys are not there, or another restore is under way.
        """
        async with self.database.connection() as connection:
            if not await restores.try_alone(connection):
                raise Conflict(Reason.IDENTITY_CONFLICT, "another restore is under way")
            try:
                return await self._alone(who, say)
            finally:
                await restores.let_go(connection)

    async def _alone(self, who: str, say: Say) -> bool:
        held = await self._held()
        restore = await self._begun(held, who)
        if restore is None:
            return False
        say(f"reads are closed; leaves {restore.from_index} to {restore.to_index} come from the mirror")
        copied, placed = await copy_log(self.database, self.keyring, self.mirror, held, restore)
        say(f"copied {copied} leaves; {placed} that waited in the queue have their place")
        if restore.renewed_at is None:
            say(f"renewed {await self._renew()} shards of the queue")
        await ready_to_hold(self.database, self.keyring, who)
        await Replay(self.database, self.keyring).run(restore)
        say(_replayed(await self._row()))
        say(f"found {await self._torn()} parts whose body did not come back")
        await self._say_so(who)
        say(f"destroyed again: {await self._destroy(who)}")
        await self._open(held)
        logger().warning("log_restored", key_id=who, count=restore.to_index - restore.from_index)
        return True

    # --- begin

    async def _held(self) -> Held:
        """Return the mirror's tree; Conflict where nothing was ever published there, or there are no keys."""
        admin = LogAdmin(self.database, self.mirror)
        held = await asyncio.to_thread(held_by, self.mirror, await admin.key())
        if held.note is None:
            raise Conflict(
                Reason.IDENTITY_CONFLICT,
                "the mirror is empty: without it nobody knows what is missing. Is it mounted?",
            )
        live, _ = await BucketKeys(self.database, self.keyring).look()
        if live and not await asyncio.to_thread(self.keyring.bucket_keys):
            # Single ones may be gone: they were changed, or have expired, since the backup.
            raise Conflict(
                Reason.IDENTITY_CONFLICT,
                "there is no bucket's key at all: is the key directory mounted, and this store's?",
            )
        return held

    async def _begun(self, held: Held, who: str) -> RestoreRow | None:
        """Close reads and return the restore that is under way; None where nothing is missing."""
        async with self.database.connection() as connection:
            state = await log.state(connection)
            before = await restores.under_way(connection)
        if state.stop == "forked" or not await self._extends(held, state):
            await self._fork()
        if before is None and state.size >= held.size and state.stop != "restoring":
            return None
        async with self.database.transaction() as connection:
            locked = await log.lock_state(connection)
            if locked.size != state.size or not await restores.close(connection):
                raise Conflict(Reason.IDENTITY_CONFLICT, "the log changed meanwhile: begin again")
            if before is None:
                await restores.begin(connection, ids.new_id(), state.size, max(state.size, held.size), who)
            await restores.reach(connection, held.size)
        return await self._row()

    async def _extends(self, held: Held, state: State) -> bool:
        if state.size >= held.size:
            return await disagreement(self.database, held, state) is None
        return await asyncio.to_thread(grows_into, self.mirror, state, held)

    async def _fork(self) -> None:
        async with self.database.connection() as connection:
            await restores.fork(connection)
        raise Conflict(
            Reason.IDENTITY_CONFLICT,
            "the log is forked: it has leaves that its mirror has not. Find out why, take them back with "
            "`python -m store log take-back`, and begin again",
        )

    async def _row(self) -> RestoreRow:
        async with self.database.connection() as connection:
            row = await restores.under_way(connection)
        if row is None:
            raise Conflict(Reason.IDENTITY_CONFLICT, "the restore was ended by somebody else")
        return row

    # --- steps

    async def _renew(self) -> int:
        """Let receipts of before know that what was queued may be lost, and runs be counted as they are here."""
        for shard in self.queue.shards:
            epoch = await self.queue.begin_anew(shard)
            async with self.database.transaction() as connection:
                before = (await queue_shards.all_shards(connection)).get(shard)
                if before is None:
                    await queue_shards.begin(connection, shard, epoch)
                else:
                    await queue_shards.lose(connection, shard, before.epoch, epoch)
        async with self.database.connection() as connection:
            await restores.renewed(connection)
        return len(self.queue.shards)

    async def _torn(self) -> int:
        async with self.database.connection() as connection:
            scopes = await restores.all_scopes(connection)
        found = 0
        for scope in scopes:
            last: UUID | None = UUID(int=0)
            while last is not None:
                async with self.database.transaction() as connection:
                    last, torn = await restores.torn(connection, scope, last, _PARTS)
                found += torn
        return found

    async def _say_so(self, who: str) -> None:
        """Once: the leaf, the action, and the policies' versions belong together."""
        async with self.database.transaction() as connection:
            state = await log.lock_state(connection)
            bounds = await restores.said(connection)
            if bounds is None:
                return
            first, end = bounds
            leaf = commitments.leaf("restore", **{"from": first, "to": end}, t=state.now)
            await log_queue.copy(connection, [(STORE_WIDE, leaf)])
            await operator_actions.insert(connection, None, who, RESTORED, f"{first} {end}")
            await restores.outdate_tickets(connection, _VERSIONS)

    async def _destroy(self, who: str) -> str:
        """Do what the duties would: bodies of what was purged, partitions of spans that had expired, and their keys."""
        await replace_lost(self.database, self.keyring, who)
        bodies = 0
        while done := (await self.purge.run()).get("bodies", 0):
            bodies += done
        spans = 0
        while await self._undropped() and (await self.expiry.run()).get("expired", 0):
            spans += 1
        return f"{bodies} bodies, {spans} spans"

    async def _undropped(self) -> int:
        async with self.database.connection() as connection:
            return await restores.expired_undropped(connection)

    # --- end

    async def _open(self, held: Held) -> None:
        async with self.database.transaction() as connection:
            state = await log.lock_state(connection)
            if (state.size, state.root) != (held.size, held.root) and state.size <= held.size:
                raise Conflict(Reason.IDENTITY_CONFLICT, "the log is not what its mirror is: begin again")
            if not await restores.end(connection):
                raise Conflict(Reason.IDENTITY_CONFLICT, "the log was stopped meanwhile: look at its status")


def _replayed(row: RestoreRow) -> str:
    return (
        f"replayed {row.replayed_to - row.from_index} leaves: {row.lost} parts lost, {row.purged} purged again, "
        f"{row.expired} buckets expired, {row.held} holds placed or released, {row.closed} sources or runs closed or "
        f"opened, {row.unknown} about what this database does not know"
    )
