"""The publisher's rounds, over a real database and a real directory: what it signs, refuses and survives."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.reasons import Reason
from store.db import DUTIES_ROLE, Database
from store.errors import ConfigFaults, Corrupt, Unavailable
from store.log_tree.notes import Checkpoint, Signer, verify_checkpoint
from store.log_tree.tiles import Tile, bundle, grown, parse_bundle, split_hashes
from store.mirror import Differs, Files, Mirror
from store.services.publishing import Publishing, named_key
from tests.support import log, naive_tree
from tests.support.duties import execute, leaves, scalar
from tests.support.flaky import FlakyFiles

SIGNER = Signer("example.org/log", b"s" * 32)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=DUTIES_ROLE, size=4)
    yield opened
    await opened.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


@pytest.fixture
def publishing(database: Database, root: Path) -> Publishing:
    return Publishing(database, Mirror(root), SIGNER)


async def state(url: str):
    sizes = await scalar(url, "SELECT array[size, published_size] FROM log_state")
    return sizes, await scalar(url, "SELECT stop FROM log_state")


async def vouched_for(root: Path, url: str) -> int:
    """Check everything that the mirror's checkpoint vouches for, by a tree of our own; return its size."""
    mirror = Mirror(root)
    note = mirror.checkpoint()
    assert note is not None
    checkpoint = verify_checkpoint(note, SIGNER.key)
    there = (await log.entries(url))[: checkpoint.size]
    assert checkpoint == Checkpoint(SIGNER.key.name, len(there), log.root_of(there))
    level = [naive_tree.leaf(each) for each in there]
    for tile in grown(0, checkpoint.size):
        if tile.tile == 0 and tile.level:
            full = len(level) // 256 * 256
            level = [naive_tree.root(level[at : at + 256]) for at in range(0, full, 256)]
        first = tile.tile * 256
        assert split_hashes(mirror.read(tile) or b"") == level[first : first + tile.width], tile
        if tile.level == 0:
            bundle = mirror.read(Tile(None, tile.tile, tile.width))
            assert parse_bundle(bundle or b"") == there[first : first + tile.width], tile
    kept = await scalar(url, "SELECT note FROM log_checkpoints WHERE size = $1", checkpoint.size)
    assert kept in (None, note)
    return checkpoint.size


async def test_what_is_committed_is_signed_and_can_be_read_without_us(publishing, root, database_url):
    await publishing.begin()
    (leaf,) = await leaves(database_url)
    assert (leaf["k"], leaf["op"], leaf["u"]) == ("key", "add", SIGNER.key.text)
    assert Mirror(root).key() == SIGNER.key.text
    await publishing.begin()
    assert len(await leaves(database_url)) == 1
    for size in (1, 2, 255, 256, 257, 600):
        before = (await state(database_url))[0][0]
        await log.grow(database_url, size - before)
        done = await publishing.round()
        assert (done.size, done.signed, done.stop) == (size, size - before, None)
        assert await vouched_for(root, database_url) == size
        again = await publishing.round()
        assert (again.size, again.signed) == (size, 0)
    assert await state(database_url) == ([600, 600], None)
    # Of what was narrower there is no more than what the checkpoint before named.
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()) == [
        ".lock", "checkpoint", "log.vkey",
        "tile/0/000", "tile/0/001", "tile/0/002.p/88", "tile/1/000.p/1", "tile/1/000.p/2",
        "tile/entries/000", "tile/entries/001", "tile/entries/002.p/88",
    ]  # fmt: skip


@pytest.mark.long
async def test_a_tree_with_a_third_level_and_a_backlog_of_several_batches(publishing, root, database_url):
    await log.grow(database_url, 65_535)
    assert (await publishing.round()).signed == 65_535
    for size in (65_536, 65_537):
        await log.grow(database_url, 1)
        assert (await publishing.round()).size == size
        assert await vouched_for(root, database_url) == size


async def test_a_database_that_went_back_stops_the_log_until_an_operator_acts(publishing, root, database_url):
    await log.grow(database_url, 300)
    await publishing.round()
    note = Mirror(root).checkpoint()
    await log.go_back(database_url, 280)
    assert (await publishing.round()).stop == "rolled_back"
    # It stays, also once the database has grown again.
    await log.grow(database_url, 40, "other")
    assert (await publishing.round()).stop == "rolled_back"
    assert Mirror(root).checkpoint() == note
    assert (await state(database_url))[1] == "rolled_back"


@pytest.mark.parametrize("more", [0, 40])
async def test_other_leaves_at_the_same_size_or_below_are_a_fork(publishing, root, database_url, more):
    await log.grow(database_url, 300)
    await publishing.round()
    note = Mirror(root).checkpoint()
    await log.go_back(database_url, 299)
    await log.grow(database_url, 1 + more, "other")
    assert (await publishing.round()).stop == "forked"
    assert (await publishing.round()).stop == "forked"
    assert Mirror(root).checkpoint() == note


async def test_a_leaf_that_is_not_what_the_tree_was_made_of_is_not_signed(publishing, database_url):
    await log.grow(database_url, 3)
    await execute(database_url, "UPDATE log_entries SET leaf = 'xx' WHERE idx = 1")
    assert (await publishing.round()).stop == "forked"


async def test_a_leaf_that_is_missing_is_not_signed_over(publishing, database_url):
    await log.grow(database_url, 3)
    await execute(database_url, "DELETE FROM log_entries WHERE idx = 2")
    assert (await publishing.round()).stop == "forked"


async def test_another_checkpoint_in_the_database_is_a_fork(publishing, database_url):
    await log.grow(database_url, 3)
    await execute(database_url, "INSERT INTO log_checkpoints (size, note) VALUES (3, 'another')")
    assert (await publishing.round()).stop == "forked"


async def test_without_its_mirror_nothing_is_compared_and_nothing_written_anew(
    publishing, root, database_url
):
    await log.grow(database_url, 3)
    await publishing.round()
    compared = await scalar(database_url, "SELECT compared_at FROM log_state")
    root.rename(root.with_name("away"))
    with pytest.raises(Corrupt) as fault:
        await publishing.round()
    assert fault.value.reason is Reason.INTEGRITY_MISMATCH
    assert Mirror(root).checkpoint() is None
    assert await scalar(database_url, "SELECT compared_at FROM log_state") == compared
    assert (await state(database_url))[1] is None


@pytest.mark.parametrize("path", ["checkpoint", "tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44"])
async def test_a_damaged_mirror_is_said_and_grown_from_no_more(publishing, root, database_url, path):
    await log.grow(database_url, 300)
    await publishing.round()
    whole = bytearray((root / path).read_bytes())
    whole[-5] ^= 1
    (root / path).write_bytes(whole)
    await log.grow(database_url, 1)
    with pytest.raises(Corrupt):
        await publishing.round()
    (root / path).unlink()
    with pytest.raises(Corrupt):
        await publishing.round()
    assert (await state(database_url)) == ([301, 300], None)


async def test_what_a_killed_round_left_of_leaves_that_are_lost_is_written_over(
    publishing, root, database_url
):
    await log.grow(database_url, 250)
    await publishing.round()
    kept = (root / "checkpoint").read_bytes()
    await log.grow(database_url, 50, "lost")
    await publishing.round()
    # As if it had been killed before it signed, and the database had gone back and taken another way.
    (root / "checkpoint").write_bytes(kept)
    await log.go_back(database_url, 250)
    kept_leaves = await log.entries(database_url)
    Mirror(root).put(Tile(None, 0, 250), bundle(kept_leaves))
    Mirror(root).put(Tile(0, 0, 250), b"".join(map(naive_tree.leaf, kept_leaves)))
    await log.grow(database_url, 50, "other")
    assert (await publishing.round()).size == 300
    assert await vouched_for(root, database_url) == 300


async def test_the_log_of_somebody_else_is_refused(publishing, database, root, database_url):
    await publishing.begin()
    other = Signer("example.org/log", b"o" * 32)
    with pytest.raises(ConfigFaults, match="CUSTODY_MIRROR_DIR"):
        await Publishing(database, Mirror(root), other).begin()
    with pytest.raises(ConfigFaults, match="another key"):
        await Publishing(database, Mirror(root.with_name("new")), other).begin()
    with pytest.raises(ConfigFaults, match="another origin"):
        await Publishing(database, Mirror(root.with_name("new2")), Signer("example.org/x", b"s" * 32)).begin()
    assert [named_key(b'{"k":"key","u":"a"}')] == ["a"]


async def test_two_publishers_sign_the_same_or_nothing(database, root, database_url):
    pair = [Publishing(database, Mirror(root), SIGNER) for _ in range(2)]
    for _ in range(10):
        await log.grow(database_url, 3)
        done = await asyncio.gather(*(each.round() for each in pair), return_exceptions=True)
        # One has the mirror; the other is told so, or comes after.
        assert [each for each in done if not isinstance(each, Unavailable)]
        assert not [
            each for each in done if isinstance(each, Exception) and not isinstance(each, Unavailable)
        ]
    await pair[0].round()
    assert await vouched_for(root, database_url) == 30


class SlowFiles(Files):
    """Takes its time to write, and says when it has begun and how often it was done."""

    def __init__(self) -> None:
        self.begun, self.done = threading.Event(), 0

    def write(self, path: Path, data: bytes) -> None:
        self.begun.set()
        time.sleep(0.2)
        super().write(path, data)
        self.done += 1


async def test_who_loses_the_lease_in_a_round_has_ended_before_another_has_the_mirror(
    database, root, database_url
):
    await log.grow(database_url, 3)
    files = SlowFiles()
    mirror = Mirror(root, files)
    task = asyncio.create_task(Publishing(database, mirror, SIGNER).round())
    assert await asyncio.to_thread(files.begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0.05)
    with pytest.raises(Unavailable), Mirror(root).taken():
        raise AssertionError
    with pytest.raises(asyncio.CancelledError):
        await task
    done = files.done
    assert done
    await asyncio.sleep(0.3)
    assert files.done == done
    assert (await Publishing(database, Mirror(root), SIGNER).round()).size == 3


@pytest.mark.long
@pytest.mark.parametrize("when", ["not_done", "done"])
async def test_whatever_fails_in_a_round_the_next_one_mends(database, database_url, tmp_path, when):
    """Every call of the system, in a round that fills a tile and begins another."""

    async def begun(place: Path) -> None:
        await Publishing(database, Mirror(place), SIGNER).round()

    await log.grow(database_url, 250)
    counting, calls = FlakyFiles(), 0
    first = tmp_path / "first"
    await begun(first)
    await log.grow(database_url, 20)
    await Publishing(database, Mirror(first, counting), SIGNER).round()
    calls = counting.calls
    assert calls > 40
    for call in range(1, calls + 1):
        await log.go_back(database_url, 250)
        # As if nothing had been published yet: each case has a mirror of its own.
        await execute(database_url, "DELETE FROM log_checkpoints")
        await execute(database_url, "UPDATE log_state SET published_size = 0")
        place = tmp_path / f"{call}"
        await begun(place)
        await log.grow(database_url, 20)
        flaky = FlakyFiles(call, when)
        with pytest.raises(Unavailable):
            await Publishing(database, Mirror(place, flaky), SIGNER).round()
        assert await vouched_for(place, database_url) in (250, 270)
        await log.grow(database_url, 1)
        assert (await Publishing(database, Mirror(place), SIGNER).round()).size == 271
        assert await vouched_for(place, database_url) == 271
    with pytest.raises(Differs):
        Mirror(first).put(Tile(0, 0), b"")
