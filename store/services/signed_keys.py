"""The keys of what we sign, and of our keyed hashes: whether they are there, and this store's."""

from collections.abc import Iterator
from dataclasses import dataclass

from store.commitments import SECRET_BYTES, same
from store.db import Database
from store.errors import CustodyError
from store.key_directory import Role
from store.keyring import Keyring
from store.log_tree.notes import Signer
from store.services.publishing import named_key
from store.tables import key_marks, publishing


@dataclass(frozen=True, slots=True)
class Marks:
    """What the database knows of these keys: the mark of the lookup key, and the log's vkeys, the newest last."""

    lookup: bytes | None
    log: tuple[str, ...]


async def marks_of(database: Database) -> Marks:
    """Read them."""
    async with database.connection() as connection:
        lookup = await key_marks.get(connection, "lookup")
        leaves = await publishing.key_leaves(connection)
    return Marks(lookup, tuple(map(named_key, leaves)))


def faults(keyring: Keyring, marks: Marks, origin: str) -> Iterator[tuple[Role, str, str]]:
    """Name what is wrong: a key that is missing, that is no key, or that is another store's."""
    names = keyring.directory.names("token")
    for purpose in keyring.missing_token_keys():
        yield "token", purpose, "missing"
    for name in sorted(names):
        if len(keyring.directory.read("token", name) or b"") != SECRET_BYTES:
            yield "token", name, "no_key"
    if "lookup" in names and marks.lookup is not None and not same(marks.lookup, keyring.lookup_mark()):
        yield "token", "lookup", "of_another_store"
    seed = keyring.signing_seed()
    if seed is not None and len(seed) != SECRET_BYTES:
        yield "signing", "log", "no_key"
    elif seed is not None and marks.log and Signer(origin, seed).key.text != marks.log[-1]:
        yield "signing", "log", "of_another_store"


def signs_here(keyring: Keyring) -> bool:
    """Say whether the key that signs the log is on this host; it may live where only the publisher sees it."""
    try:
        return keyring.signing_seed() is not None
    except CustodyError:
        return False
