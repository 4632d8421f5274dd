"""Whether the keys in the key directory are this store's: told by the mark of the lookup key.

Tombstones, references and receipts are hashes under keys that stay for good. With other keys nothing of them would be
found again, without a word: what was erased could be posted anew. A process with another store's keys works on nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from store.commitments import same
from store.db import Database
from store.errors import ConfigFaults, Unavailable
from store.keyring import Keyring
from store.logging import logger
from store.tables import buckets, key_marks, publishing

_LOOKUP: Final = "lookup"
# How long a start waits for Postgres to tell; after that it is told as soon as it can be.
_PATIENCE_S: Final = 2.0
_AGAIN_S: Final = 1.0
# Each says what to do, since whoever reads it has a process that does not start.
_OTHERS: Final = (
    "the key directory is another store's: this database was written under another lookup key. Mount this store's, or "
    "name this directory's database"
)
_NOT_HERE: Final = (
    "this store has keys, and they are not in the key directory: mount it, or bring them back. Were they lost in every "
    "copy, the owner deletes the row `lookup` of key_marks, and `python -m store keys-at-rest init --keys-are-lost` "
    "makes others: nothing that was hashed under the old ones is found then (docs/operations.md)"
)
_SIGNED: Final = (
    "the key that signs this store's log is not in its key directory: mount it, or bring it back from the safe. A log "
    "whose key is lost is over, and no other key may sign it"
)


async def require_own(database: Database, keyring: Keyring) -> None:
    """Raise ConfigFaults where the keys are another store's; a store whose keys nobody set down has no others."""
    async with database.connection() as connection:
        mark = await key_marks.get(connection, _LOOKUP)
    if mark is not None and not same(mark, keyring.lookup_mark()):
        raise ConfigFaults([_OTHERS])


async def make_keys(database: Database, keyring: Keyring, *, lost: bool = False) -> None:
    """Make what keys are missing, and let these be this store's from now on; ConfigFaults where others were before.

    `lost`: somebody says that those of before are gone for good, and the owner has deleted their mark.
    """
    if _LOOKUP in keyring.missing_token_keys():
        async with database.connection() as connection:
            marked = await key_marks.get(connection, _LOOKUP) is not None
            # A store of before there were marks was used if it has buckets.
            used = marked or (not lost and await buckets.next_to_expire(connection) is not None)
        if used:
            raise ConfigFaults([_NOT_HERE])
    keyring.create_token_keys()
    async with database.connection() as connection:
        await key_marks.keep(connection, _LOOKUP, keyring.lookup_mark())
    await require_own(database, keyring)
    if keyring.signing_seed() is None:
        async with database.connection() as connection:
            if await publishing.key_leaves(connection):
                raise ConfigFaults([_SIGNED])
        keyring.create_signing_key()


@asynccontextmanager
async def own_keys(database: Database, keyring: Keyring) -> AsyncIterator[None]:
    """Refuse to begin with another store's keys; while Postgres is away begin, and disown them once it tells."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await require_own(database, keyring)
    except (Unavailable, TimeoutError):
        task = asyncio.create_task(_once_told(database, keyring))
    else:
        yield
        return
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _once_told(database: Database, keyring: Keyring) -> None:
    while True:
        await asyncio.sleep(_AGAIN_S)
        try:
            await require_own(database, keyring)
        except Unavailable:
            continue
        except ConfigFaults:
            keyring.disown()
            logger().error("keys_of_another_store")
        return
