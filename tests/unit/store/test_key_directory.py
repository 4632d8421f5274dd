"""Key files: made once and durably, private, in two copies, and gone from both when destroyed."""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.reasons import Reason
from store.errors import ConfigFaults, Unavailable
from store.key_directory import ROLES, FileKeyDirectory

SECRET, OTHER = b"s" * 32, b"o" * 32


@pytest.fixture
def places(tmp_path):
    return tmp_path / "keys", tmp_path / "copy"


@pytest.fixture
def directory(places):
    return FileKeyDirectory(*places)


def files(place):
    return sorted(path.name for path in place.rglob("*") if path.is_file())


def test_a_key_is_kept_in_both_places_and_nobody_else_may_read_it(directory, places):
    assert directory.create("bucket", "one", SECRET)
    assert directory.read("bucket", "one") == SECRET
    for place in places:
        path = place / "bucket" / "one"
        assert path.read_bytes() == SECRET
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert files(place) == ["one"]


def test_without_a_copy_there_is_one_file(tmp_path):
    directory = FileKeyDirectory(tmp_path / "keys")
    assert directory.create("token", "ticket", SECRET)
    assert files(tmp_path) == ["ticket"]


def test_roles_may_live_apart(tmp_path):
    directory = FileKeyDirectory(tmp_path / "keys", token=tmp_path / "t", signing=tmp_path / "s")
    for role in ROLES:
        directory.create(role, role, SECRET)
    assert files(tmp_path / "t") == ["token"]
    assert files(tmp_path / "s") == ["signing"]
    assert files(tmp_path / "keys") == ["bucket", "intake"]


def test_a_name_is_taken_once(directory):
    assert directory.create("bucket", "one", SECRET)
    assert not directory.create("bucket", "one", OTHER)
    assert directory.read("bucket", "one") == SECRET


def test_of_many_makers_of_one_name_one_wins(directory, places):
    made = []
    start = threading.Barrier(8)

    def make(number):
        start.wait(10)
        made.append((directory.create("bucket", "one", bytes([number]) * 32), number))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [number for won, number in made if won]
    assert len(winners) == 1
    for place in places:
        assert (place / "bucket" / "one").read_bytes() == bytes(winners) * 32
        assert files(place) == ["one"]


def test_a_missing_copy_is_completed_with_the_first_secret(directory, places):
    directory.create("bucket", "one", SECRET)
    (places[1] / "bucket" / "one").unlink()
    assert not directory.create("bucket", "one", OTHER)
    assert (places[1] / "bucket" / "one").read_bytes() == SECRET


def test_a_name_that_only_the_copy_has_is_taken(directory, places):
    directory.create("token", "lookup", SECRET)
    (places[0] / "token" / "lookup").unlink()
    assert not directory.create("token", "lookup", OTHER)
    assert directory.read("token", "lookup") == SECRET
    assert (places[0] / "token" / "lookup").read_bytes() == SECRET


def test_the_copy_serves_where_the_first_is_gone(directory, places):
    directory.create("bucket", "one", SECRET)
    (places[0] / "bucket" / "one").unlink()
    assert directory.read("bucket", "one") == SECRET
    assert directory.names("bucket") == {"one"}


def test_destruction_reaches_both_and_may_be_repeated(directory, places):
    for name in ("one", "two"):
        directory.create("bucket", name, SECRET)
    directory.destroy("bucket", "one")
    directory.destroy("bucket", "one")
    assert directory.read("bucket", "one") is None
    assert directory.names("bucket") == {"two"}
    assert [files(place) for place in places] == [["two"], ["two"]]


def test_many_are_destroyed_in_one_look_at_each_directory(directory, places, monkeypatch):
    names = [f"key-{number}" for number in range(20)]
    for name in [*names, "other"]:
        directory.create("bucket", name, SECRET)
    looked: list[Path] = []
    look = Path.iterdir

    def noting(place: Path) -> Iterator[Path]:
        looked.append(place)
        return look(place)

    monkeypatch.setattr(Path, "iterdir", noting)
    directory.destroy("bucket", *names)
    monkeypatch.undo()
    assert [files(place) for place in places] == [["other"], ["other"]]
    assert len(looked) == len(places)


def test_destruction_that_was_cut_off_is_seen_and_finished(directory, places):
    directory.create("bucket", "one", SECRET)
    (places[0] / "bucket" / "one").unlink()
    assert directory.names("bucket") == {"one"}
    directory.destroy("bucket", "one")
    assert [files(place) for place in places] == [[], []]


def test_destruction_takes_what_a_killed_creation_left(directory, places, monkeypatch):
    directory.create("bucket", "other", OTHER)

    def killed(*_, **__):
        raise KeyboardInterrupt

    # The process is gone between link and unlink: the secret is there under two names.
    monkeypatch.setattr("pathlib.Path.unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        directory.create("bucket", "one", SECRET)
    monkeypatch.undo()
    assert len(files(places[0])) == 3
    assert directory.names("bucket") == {"one", "other"}
    directory.destroy("bucket", "one")
    assert SECRET not in [path.read_bytes() for path in places[0].rglob("*") if path.is_file()]
    assert directory.names("bucket") == {"other"}


def test_destruction_fails_where_a_copy_cannot_be_reached(directory, places):
    directory.create("bucket", "one", SECRET)
    places[1].rename(places[1].with_name("unmounted"))
    with pytest.raises(Unavailable) as raised:
        directory.destroy("bucket", "one")
    assert raised.value.reason is Reason.STORE_UNAVAILABLE
    places[1].with_name("unmounted").rename(places[1])
    directory.destroy("bucket", "one")
    assert [files(place) for place in places] == [[], []]


def test_no_such_key_is_none_but_no_directory_is_an_outage(directory, places):
    directory.create("bucket", "one", SECRET)
    assert directory.read("bucket", "two") is None
    with pytest.raises(Unavailable):
        directory.read("intake", "one")
    for place in places:
        place.rename(place.with_name("away-" + place.name))
    with pytest.raises(Unavailable):
        directory.read("bucket", "one")


def test_a_disk_that_fails_is_an_outage_and_leaves_no_half_key(directory, places, monkeypatch):
    directory.create("bucket", "other", OTHER)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable) as raised:
        directory.create("bucket", "one", SECRET)
    assert "keys" not in str(raised.value)
    monkeypatch.undo()
    assert directory.names("bucket") == {"other"}
    assert files(places[0]) == ["other"]


def test_the_home_of_all_roles_is_made_for_its_owner_alone_too(directory, places):
    directory.create("bucket", "one", SECRET)
    assert [stat.S_IMODE(place.stat().st_mode) for place in places] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o711, 0o777])
def test_a_directory_that_is_open_to_others_is_refused(places, mode):
    FileKeyDirectory(*places).create("bucket", "one", SECRET)
    (places[1] / "bucket").chmod(mode)
    directory = FileKeyDirectory(*places)
    for act in (
        lambda: directory.read("bucket", "one"),
        lambda: directory.create("bucket", "two", SECRET),
        lambda: directory.names("bucket"),
        lambda: directory.destroy("bucket", "one"),
    ):
        with pytest.raises(ConfigFaults, match="chmod 0700"):
            act()
    assert len(directory.faults()) == 1
    assert directory.faults("token") == []
    (places[1] / "bucket").chmod(0o700)
    assert directory.faults() == []
    assert directory.read("bucket", "one") == SECRET


@pytest.mark.parametrize("name", ["", ".", "..", "../one", "a/b", ".one.tmp", "a\0b", "a\n"])
def test_a_name_cannot_lead_elsewhere(directory, name):
    for act in (
        lambda: directory.create("bucket", name, SECRET),
        lambda: directory.read("bucket", name),
        lambda: directory.destroy("bucket", name),
    ):
        with pytest.raises(ValueError, match="not a name"):
            act()
