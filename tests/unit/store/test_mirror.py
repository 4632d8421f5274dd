"""The mirror: files made once, whole, equal or refused; and every call of the system failing both ways."""

import pytest

from policies.reasons import Reason
from store.errors import Unavailable
from store.log_tree.tiles import Tile
from store.mirror import Differs, Mirror
from tests.support.flaky import FlakyFiles

TILE, BUNDLE = Tile(0, 0, 3), Tile(None, 0, 3)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "mirror"


def files(root):
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def write(mirror):
    """Everything that a round writes, one after the other."""
    with mirror.taken():
        mirror.claim("log+1+key")
        mirror.put(TILE, b"t" * 96)
        mirror.put(BUNDLE, b"\x00\x01a" * 3)
        mirror.publish(b"note of 3")
        mirror.put(Tile(0, 0, 4), b"t" * 128)
        mirror.publish(b"note of 4")
        mirror.tidy(TILE, {4})
        mirror.tidy(BUNDLE, ())


WRITTEN = {
    "checkpoint": b"note of 4",
    "log.vkey": b"log+1+key\n",
    "tile/0/000.p/4": b"t" * 128,
}


def test_it_reads_back_what_was_written_and_leaves_nothing_else(root):
    mirror = Mirror(root)
    assert mirror.checkpoint() is None
    assert mirror.key() is None
    write(mirror)
    assert files(root) == WRITTEN
    again = Mirror(root)
    assert again.checkpoint() == b"note of 4"
    assert again.key() == "log+1+key"
    assert again.read(Tile(0, 0, 4)) == b"t" * 128
    assert again.read(TILE) is None


def test_what_is_there_is_equal_or_refused_and_stays(root):
    mirror = Mirror(root)
    with mirror.taken():
        mirror.put(TILE, b"one")
        mirror.put(TILE, b"one")
        with pytest.raises(Differs, match=r"tile/0/000\.p/3"):
            mirror.put(TILE, b"two")
        assert mirror.read(TILE) == b"one"
        mirror.drop(TILE)
        mirror.put(TILE, b"two")
        mirror.claim("log+1+key")
        with pytest.raises(Differs):
            mirror.claim("log+2+key")
    assert mirror.read(TILE) == b"two"


def test_one_at_a_time_has_it_and_a_file_half_written_is_swept(root):
    mirror = Mirror(root)
    with mirror.taken():
        (root / ".new").mkdir()
        (root / ".new" / "half").write_bytes(b"ha")
        with pytest.raises(Unavailable, match="BlockingIOError"), Mirror(root).taken():
            raise AssertionError
    with Mirror(root).taken():
        assert files(root) == {}


def test_a_disk_that_came_back_empty_is_written_to_again(root):
    mirror = Mirror(root)
    write(mirror)
    (root / "tile" / "0" / "000.p" / "4").unlink()
    (root / "tile" / "0" / "000.p").rmdir()
    with mirror.taken():
        with pytest.raises(Unavailable):
            mirror.put(Tile(0, 0, 5), b"t")
        mirror.put(Tile(0, 0, 5), b"t")
    assert mirror.read(Tile(0, 0, 5)) == b"t"


@pytest.mark.parametrize("when", ["not_done", "done"])
def test_whatever_fails_is_reported_and_doing_all_of_it_again_mends_it(tmp_path, when):
    counting = FlakyFiles()
    write(Mirror(tmp_path / "all", counting))
    assert counting.calls > 40
    seen = set()
    for call in range(1, counting.calls + 1):
        root = tmp_path / f"{when}-{call}"
        flaky = FlakyFiles(call, when)
        mirror = Mirror(root, flaky)
        with pytest.raises(Unavailable) as outage:
            write(mirror)
        assert outage.value.reason is Reason.STORE_UNAVAILABLE
        assert str(root) not in str(outage.value)
        assert flaky.failed is not None
        seen.add(flaky.failed)
        # In the same process, or in another one that finds what was left.
        write(mirror if call % 2 else Mirror(root))
        assert files(root) == WRITTEN, (call, flaky.failed)
    assert seen == {"read", "names", "make", "write", "link", "rename", "remove", "remove_directory", "sync"}
