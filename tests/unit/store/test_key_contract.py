"""What the keyring may rely on, whatever stands behind its interface: others than files are held to this class too."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from store.errors import Unavailable
from store.key_directory import ROLES, FileKeyDirectory, KeyDirectory

SECRET, OTHER = b"s" * 32, b"o" * 32
# Each makes a view of one directory; two of them are two processes.
Opener = Callable[[], KeyDirectory]


@pytest.fixture(params=["one place", "with a copy"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    copy = tmp_path / "copy" if request.param == "with a copy" else None
    return lambda: FileKeyDirectory(tmp_path / "keys", copy)


class TestKeyDirectory:
    def test_what_is_kept_is_read_by_everybody_and_as_it_was(self, opened: Opener) -> None:
        secret = bytes(range(32))
        assert opened().create("bucket", "one", secret)
        assert opened().read("bucket", "one") == secret
        assert opened().names("bucket") == {"one"}

    def test_roles_share_no_names(self, opened: Opener) -> None:
        directory = opened()
        for number, role in enumerate(ROLES):
            assert directory.create(role, "one", bytes([number]) * 32)
        directory.destroy("intake", "one")
        assert [directory.read(role, "one") for role in ROLES] == [bytes(32), None, b"\2" * 32, b"\3" * 32]

    def test_a_name_is_taken_once_and_its_secret_stays(self, opened: Opener) -> None:
        assert opened().create("token", "one", SECRET)
        assert not opened().create("token", "one", OTHER)
        assert opened().read("token", "one") == SECRET

    def test_of_many_who_want_a_name_one_has_it(self, opened: Opener) -> None:
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda n: opened().create("bucket", "one", bytes([n]) * 32), range(8)))
        assert won.count(True) == 1
        assert opened().read("bucket", "one") == bytes([won.index(True)]) * 32

    def test_none_is_said_only_where_there_is_none(self, opened: Opener) -> None:
        with pytest.raises(Unavailable):
            opened().read("bucket", "one")
        opened().create("bucket", "two", SECRET)
        assert opened().read("bucket", "one") is None

    def test_what_is_destroyed_is_gone_for_everybody_and_for_good(self, opened: Opener) -> None:
        one, other = opened(), opened()
        for name in ("one", "two", "three"):
            one.create("bucket", name, SECRET)
        assert other.read("bucket", "one") == SECRET
        one.destroy("bucket", "one", "two")
        one.destroy("bucket", "one", "never")
        assert [other.read("bucket", name) for name in ("one", "two", "three")] == [None, None, SECRET]
        assert other.names("bucket") == {"three"}
        assert other.complete("bucket", "one", "two") == []
        assert other.names("bucket") == {"three"}

    def test_copies_of_what_is_kept_are_even(self, opened: Opener) -> None:
        directory = opened()
        for name in ("one", "two"):
            directory.create("bucket", name, SECRET)
        assert directory.uneven("bucket") == {}
        assert directory.complete("bucket", "one", "two") == []
        assert directory.faults() == []

    @pytest.mark.parametrize("name", ["", "..", "../one", "a/b", "a\0b", "a\n", "ä", "x" * 201])
    def test_other_names_are_refused(self, opened: Opener, name: str) -> None:
        with pytest.raises(ValueError, match="not a name"):
            opened().create("bucket", name, SECRET)


# --- copies that are lost, away, read only, or other


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "keys", tmp_path / "copy"


@pytest.mark.parametrize("lost", [0, 1])
def test_one_copy_that_is_lost_is_seen_and_brought_back(places: tuple[Path, Path], lost: int) -> None:
    directory = FileKeyDirectory(*places)
    for name in ("one", "two"):
        directory.create("bucket", name, SECRET)
    (places[lost] / "bucket" / "one").unlink()

    assert directory.uneven("bucket") == {"one": "missing"}
    assert directory.complete("bucket", "one", "two") == ["one"]

    assert directory.uneven("bucket") == {}
    assert (places[lost] / "bucket" / "one").read_bytes() == SECRET


def test_copies_that_differ_are_said_and_left(places: tuple[Path, Path]) -> None:
    directory = FileKeyDirectory(*places)
    directory.create("bucket", "one", SECRET)
    (places[1] / "bucket" / "one").write_bytes(OTHER)
    assert directory.uneven("bucket") == {"one": "differs"}
    assert directory.complete("bucket", "one") == []
    assert directory.read("bucket", "one") == SECRET


def test_a_copy_that_went_away_is_no_place_for_new_keys(places: tuple[Path, Path]) -> None:
    directory = FileKeyDirectory(*places)
    directory.create("bucket", "one", SECRET)
    away = places[1].rename(places[1].with_name("away"))
    # As after a start: where a disk is mounted no more, its empty directory is left.
    places[1].mkdir(mode=0o700)
    restarted = FileKeyDirectory(*places)

    with pytest.raises(Unavailable):
        restarted.create("bucket", "two", OTHER)
    with pytest.raises(Unavailable):
        restarted.complete("bucket", "one")
    with pytest.raises(Unavailable):
        restarted.destroy("bucket", "one")

    assert restarted.read("bucket", "two") is None
    assert list(places[1].iterdir()) == []
    assert [fault for fault in restarted.faults() if "mounted" in fault]
    assert (away / "bucket" / "one").read_bytes() == SECRET


def test_a_copy_is_begun_anew_where_somebody_says_so(places: tuple[Path, Path]) -> None:
    FileKeyDirectory(places[0]).create("bucket", "one", SECRET)
    directory = FileKeyDirectory(*places)
    assert directory.complete("bucket", "one", anew=True) == ["one"]
    assert directory.uneven("bucket") == {}
    assert directory.create("bucket", "two", OTHER)


def test_nothing_has_a_name_where_a_copy_takes_no_file(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = FileKeyDirectory(*places)
    directory.create("bucket", "other", OTHER)
    real = os.open

    # By hand: whoever runs these tests may be somebody for whom modes mean nothing.
    def read_only(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and str(path).startswith(str(places[1])):
            raise OSError(30, "Read-only file system")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(Unavailable):
        directory.create("bucket", "one", SECRET)
    monkeypatch.undo()

    assert directory.names("bucket") == {"other"}
    assert sorted(path.name for path in places[0].rglob("*") if path.is_file()) == ["other"]


def test_destruction_that_a_copy_refuses_is_not_undone_by_completing(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = FileKeyDirectory(*places)
    directory.create("bucket", "one", SECRET)
    real = Path.unlink

    def read_only(path: Path, missing_ok: bool = False) -> None:
        if path.is_relative_to(places[1]):
            raise OSError(30, "Read-only file system")
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(Unavailable):
        directory.destroy("bucket", "one")
    monkeypatch.undo()
    # It is said to be there, so that whoever destroys does it again.
    assert directory.names("bucket") == {"one"}
    directory.destroy("bucket", "one")
    assert directory.complete("bucket", "one") == []
    assert directory.names("bucket") == set()


def test_files_that_others_may_read_are_counted(places: tuple[Path, Path]) -> None:
    directory = FileKeyDirectory(*places)
    directory.create("bucket", "one", SECRET)
    (places[1] / "bucket" / "one").chmod(0o644)
    assert ["1 files in" in fault and "chmod 0600" in fault for fault in directory.faults()] == [True]
