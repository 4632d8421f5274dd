"""Exports: asked for once, fetched by the key that asked, made anew each time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.db import Database
from store.errors import Corrupt, CustodyError, NotFound, Refused, Unavailable
from store.keyring import Keyring
from store.log_tree.notes import VerifierKey, verify_checkpoint
from store.logging import logger
from store.services.access import AccessLog
from store.services.content import checked_purpose
from store.services.export.asking import Asked, Asking, Wanted
from store.services.export.bundle import Making
from store.services.export.parts import PartReads
from store.services.export.signing import bundle_signer, log_key, policy_text
from store.services.metrics import Metrics
from store.services.paging import Reader
from store.services.proofs import Tree
from store.tables import exports, log, publishing
from store.tables.exports import ExportRow, StandingRow
from store.tables.log_reads import Published

# How long an export may be fetched after it was asked for.
LIVES_S: Final = 24 * 3600.0
# Bundles that one process makes at a time: each may hold some megabytes, and a thread.
AT_ONCE: Final = 2
# How often a process says how far a bundle is, and how long that counts: one that died says nothing.
_BEAT_S: Final = 1.0
_COUNTS_S: Final = 10.0
# Of the exports of a key, the last so many are shown.
MOST_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class Standing:
    """How an export stands; `done` parts are in the bundle that is being made, None where none is.

    `state`: `ready` (nobody fetched it), `begun` (somebody did, and did not get all of it), `given` (to its last byte).
    """

    export_id: UUID
    requested_at: datetime
    ends_at: datetime
    purpose: str | None
    parts: int
    runs: int
    anchors: Sequence[int]
    tree_size: int
    state: str
    given_at: datetime | None
    done: int | None


class Exports:
    """Makes bundles, a bounded number at a time."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        accesses: AccessLog,
        metrics: Metrics,
        *,
        at_once: int = AT_ONCE,
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._asking = Asking(database)
        self._reads = PartReads(database, keyring, accesses, metrics)
        self._free = at_once

    async def ask(self, reader: Reader, wanted: Wanted, purpose: str | None) -> Asked:
        """Take an export down: it can be fetched from now on."""
        return await self._asking.ask(reader, wanted, checked_purpose(purpose))

    async def standing(self, reader: Reader, export: UUID) -> Standing:
        """Return how an export of this key stands; NotFound once it cannot be fetched any more."""
        async with self._database.connection() as connection:
            row = await exports.standing(connection, reader.scope, export, reader.key_id, LIVES_S, _COUNTS_S)
        if row is None:
            raise NotFound
        return _standing(row)

    async def mine(self, reader: Reader) -> list[Standing]:
        """Return the last exports of this key that can be fetched, newest first; at most MOST_SHOWN."""
        async with self._database.connection() as connection:
            rows = await exports.of_key(
                connection, reader.scope, reader.key_id, LIVES_S, MOST_SHOWN, _COUNTS_S
            )
        return [_standing(row) for row in rows]

    async def bundle(self, reader: Reader, export: UUID) -> AsyncGenerator[bytes, None]:
        """Yield the archive; what is raised before its first piece is an answer, later on it is left without an end."""
        async with self._database.connection() as connection:
            row = await exports.get(connection, reader.scope, export, reader.key_id, LIVES_S)
        if row is None:
            raise NotFound
        if self._free < 1:
            raise Refused(
                Reason.CAPACITY_EXCEEDED, "other bundles are being made: fetch it when they are done"
            )
        self._free -= 1
        try:
            async with aclosing(self._made(reader, row)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._free += 1

    async def _made(self, reader: Reader, row: ExportRow) -> AsyncGenerator[bytes, None]:
        making, whole = await self._making(reader, row), False
        beating = asyncio.create_task(self._beating(reader, row, making))
        try:
            async with aclosing(making.pieces()) as pieces:
                async for piece in pieces:
                    yield piece
            whole = True
        except CustodyError as fault:
            logger().error(
                "export_broken_off", key_id=reader.key_id, scope_id=reader.scope, reason=fault.reason.value
            )
            raise
        except (GeneratorExit, asyncio.CancelledError):
            logger().info("export_left", key_id=reader.key_id, scope_id=reader.scope, count=making.given)
            raise
        finally:
            beating.cancel()
            await asyncio.wait({beating})
            await self._note(reader, partial(exports.over, export=row.export_id, given=whole))
        logger().info("export_given", key_id=reader.key_id, scope_id=reader.scope, count=making.given)

    async def _beating(self, reader: Reader, row: ExportRow, making: Making) -> None:
        """Say how far it is, also while its taker is slow: whoever asks, asks any process."""
        while True:
            await asyncio.sleep(_BEAT_S)
            done = making.given + len(making.missing)
            await self._note(reader, partial(exports.beat, export=row.export_id, done=done))

    async def _note(self, reader: Reader, said: Callable[..., Awaitable[None]]) -> None:
        try:
            async with self._database.connection() as connection:
                await said(connection, reader.scope)
        except Unavailable as outage:
            # Its reader has what was sent; the records of the reads are what counts.
            logger().warning(
                "export_not_noted", key_id=reader.key_id, scope_id=reader.scope, cause=outage.cause
            )

    async def _making(self, reader: Reader, row: ExportRow) -> Making:
        async with self._database.connection() as connection:
            key = await log_key(connection)
            note = await publishing.checkpoint(connection, row.tree_size)
            state = await log.state(connection)
            await exports.begun(connection, reader.scope, row.export_id)
        signer = bundle_signer(self._keyring, key.name)
        # Its tiles are those of the tree as it is now: they begin with what was there when it was smaller.
        tree = Tree(Published(row.tree_size, state.size, state.open_tiles, _genuine(note, key)))
        policy = policy_text(key, signer.key)
        return Making(self._database, self._reads, reader, row, tree, signer, policy)


def _standing(row: StandingRow) -> Standing:
    return Standing(
        row.export_id,
        row.requested_at,
        row.requested_at + timedelta(seconds=LIVES_S),
        row.purpose,
        row.parts,
        row.runs,
        row.anchors,
        row.tree_size,
        row.state,
        row.given_at,
        row.done,
    )


def _genuine(note: bytes | None, key: VerifierKey) -> bytes:
    """Return a checkpoint that the log signed; Corrupt for any other."""
    try:
        verify_checkpoint(note or b"", key)
    except ValueError:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the checkpoint is not one that the log signed") from None
    return note or b""
