"""Exports: asked for once, fetched by the key that asked, made anew each time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
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
from store.tables.exports import ExportRow
from store.tables.log_reads import Published

# How long an export may be fetched after it was asked for.
LIVES_S: Final = 24 * 3600.0
# Bundles that one process makes at a time: each may hold some megabytes, and a thread.
AT_ONCE: Final = 2


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
        making = await self._making(reader, row)
        try:
            async with aclosing(making.pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        except CustodyError as fault:
            logger().error(
                "export_broken_off", key_id=reader.key_id, scope_id=reader.scope, reason=fault.reason.value
            )
            raise
        except (GeneratorExit, asyncio.CancelledError):
            logger().info("export_left", key_id=reader.key_id, scope_id=reader.scope, count=making.given)
            raise
        await self._given(reader, row)
        logger().info("export_given", key_id=reader.key_id, scope_id=reader.scope, count=making.given)

    async def _given(self, reader: Reader, row: ExportRow) -> None:
        try:
            async with self._database.connection() as connection:
                await exports.given(connection, reader.scope, row.export_id)
        except Unavailable as outage:
            # Its reader has the whole of it; the records of the reads are what counts.
            logger().warning(
                "export_not_noted", key_id=reader.key_id, scope_id=reader.scope, cause=outage.cause
            )

    async def _making(self, reader: Reader, row: ExportRow) -> Making:
        async with self._database.connection() as connection:
            await exports.begun(connection, reader.scope, row.export_id)
            key = await log_key(connection)
            note = await publishing.checkpoint(connection, row.tree_size)
            state = await log.state(connection)
        signer = bundle_signer(self._keyring, key.name)
        # Its tiles are those of the tree as it is now: they begin with what was there when it was smaller.
        tree = Tree(Published(row.tree_size, state.size, state.open_tiles, _genuine(note, key)))
        policy = policy_text(key, signer.key)
        return Making(self._database, self._reads, reader, row, tree, signer, policy)


def _genuine(note: bytes | None, key: VerifierKey) -> bytes:
    """Return a checkpoint that the log signed; Corrupt for any other."""
    try:
        verify_checkpoint(note or b"", key)
    except ValueError:
        raise Corrupt(Reason.INTEGRITY_MISMATCH, "the checkpoint is not one that the log signed") from None
    return note or b""
