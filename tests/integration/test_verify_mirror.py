"""What `verify` finds in the mirror, one damage at a time; and that it finds nothing where all is well."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.db import DUTIES_ROLE, Database
from store.log_tree.notes import Checkpoint, Signer
from store.log_tree.tiles import Tile
from store.mirror import Mirror
from store.services.publishing import Publishing
from store.services.verify_mirror import MirrorCheck
from tests.support import log
from tests.support.duties import execute
from tests.support.exporting import LOG

OTHER = Signer(LOG.key.name, b"o" * 32)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=DUTIES_ROLE, size=2)
    yield opened
    await opened.close()


@pytest.fixture
async def root(database: Database, database_url: str, tmp_path: Path) -> Path:
    """A mirror of 600 leaves, of which the database has ten more by now."""
    publishing = Publishing(database, Mirror(tmp_path / "mirror"), LOG)
    await publishing.begin()
    for count in (300, 300):
        await log.grow(database_url, count)
        await publishing.round()
    await log.grow(database_url, 10)
    return tmp_path / "mirror"


async def found(database: Database, root: Path) -> set[tuple[str, str]]:
    faults: set[tuple[str, str]] = set()
    assert await MirrorCheck(database, Mirror(root), lambda kind, where: faults.add((kind, str(where)))).run()
    return faults


async def test_a_whole_mirror_has_no_faults_and_is_counted(database, root):
    check = MirrorCheck(database, Mirror(root), lambda *_: pytest.fail("a fault"))
    assert await check.run()
    assert check.counted == {"signatures": 2, "mirror leaves": 600, "mirror tiles": 4}


async def test_what_became_wider_while_it_was_looked_at_is_no_fault(database, root, database_url):
    mirror = Mirror(root)
    note = mirror.checkpoint()
    await Publishing(database, mirror, LOG).round()
    await log.grow(database_url, 10)
    await Publishing(database, mirror, LOG).round()
    assert mirror.read(Tile(0, 2, 88)) is None
    (root / "checkpoint").write_bytes(note or b"")
    assert await found(database, root) == set()


async def test_a_store_that_never_published_has_no_mirror_to_check(database, tmp_path):
    assert not await MirrorCheck(database, Mirror(tmp_path / "none"), lambda *_: pytest.fail("a fault")).run()


FILES = {
    "checkpoint": {"mirror_damaged"},
    "log.vkey": {"mirror_of_another_key"},
    "tile/0/000": {"mirror_damaged"},
    "tile/0/002.p/88": {"mirror_damaged"},
    "tile/1/000.p/2": {"mirror_damaged"},
    "tile/entries/000": {"mirror_damaged", "mirror_entry_mismatch"},
    "tile/entries/002.p/88": {"mirror_damaged", "mirror_entry_mismatch"},
}


async def test_a_flipped_bit_is_found_and_so_is_a_file_that_is_gone(database, root):
    for path, kinds in FILES.items():
        whole = (root / path).read_bytes()
        damaged = bytearray(whole)
        damaged[-3] ^= 1
        (root / path).write_bytes(damaged)
        faults = await found(database, root)
        assert {kind for kind, _ in faults} == kinds, path
        assert path in {where for _, where in faults} or kinds != {"mirror_damaged"}
        (root / path).unlink()
        gone = {kind for kind, _ in await found(database, root)}
        assert gone == ({"mirror_of_another_key"} if path == "log.vkey" else {"mirror_missing"}), path
        (root / path).write_bytes(whole)
    assert await found(database, root) == set()


EDITS = {
    "a leaf in the database": ("UPDATE log_entries SET leaf = 'xx' WHERE idx = 5", {"mirror_entry_mismatch"}),
    "a leaf that is gone": ("DELETE FROM log_entries WHERE idx = 599", {"mirror_entry_mismatch"}),
    "a checkpoint in the database": (
        "UPDATE log_checkpoints SET note = (SELECT note FROM log_checkpoints WHERE size = 300) WHERE size = 600",
        {"checkpoint_mismatch"},
    ),
}


@pytest.mark.parametrize("what", EDITS)
async def test_an_edit_in_the_database_is_found(database, root, database_url, what):
    statement, kinds = EDITS[what]
    await execute(database_url, statement)
    assert {kind for kind, _ in await found(database, root)} == kinds


async def test_a_checkpoint_that_somebody_else_signed_is_found(database, root, database_url):
    note = OTHER.sign(Checkpoint(LOG.key.name, 7, bytes(32)).text)
    await execute(
        database_url, "INSERT INTO log_checkpoints (size, note) VALUES (7, decode($1, 'hex'))", note.hex()
    )
    assert await found(database, root) == {("checkpoint_unsigned", "size 7")}


async def test_a_database_that_went_back_is_found(database, root, database_url):
    await log.go_back(database_url, 290)
    assert ("log_rolled_back", "290 of 600 leaves") in await found(database, root)
