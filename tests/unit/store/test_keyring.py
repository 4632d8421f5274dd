"""Keys are read from the directory seldom, forgotten within a minute, and gone when destroyed."""

from datetime import UTC, datetime, timedelta, timezone
from typing import get_args
from uuid import UUID

import pytest

from policies.reasons import Reason
from store.errors import Corrupt, Unavailable
from store.key_directory import FileKeyDirectory
from store.keyring import REMEMBERED_S, Keyring, Purpose

SCOPE, BUCKET = UUID(int=1), UUID(int=2)
NOW = datetime(2026, 1, 2, 12, 30, tzinfo=UTC)
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


class Counted(FileKeyDirectory):
    """A key directory that counts how often it is asked."""

    reads = 0
    listings = 0

    def read(self, role, name):
        self.reads += 1
        return super().read(role, name)

    def names(self, role):
        self.listings += 1
        return super().names(role)


class Ticking:
    """A monotonic clock that goes when told."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def directory(tmp_path):
    return Counted(tmp_path / "keys")


@pytest.fixture
def ticking():
    return Ticking()


@pytest.fixture
def keyring(directory, ticking):
    return Keyring(directory, ticking)


def test_a_bucket_key_is_made_once(keyring):
    assert keyring.create_bucket_key(SCOPE, BUCKET)
    key = keyring.bucket_key(SCOPE, BUCKET)
    assert len(key) == 32
    assert not keyring.create_bucket_key(SCOPE, BUCKET)
    assert keyring.bucket_key(SCOPE, BUCKET) == key
    assert keyring.bucket_keys() == {(SCOPE, BUCKET)}


def test_a_bucket_without_a_key_is_key_lost(keyring):
    keyring.create_bucket_key(SCOPE, BUCKET)
    for scope, bucket in ((SCOPE, UUID(int=9)), (UUID(int=9), BUCKET)):
        assert not keyring.has_bucket_key(scope, bucket)
        with pytest.raises(Corrupt) as raised:
            keyring.bucket_key(scope, bucket)
        assert raised.value.reason is Reason.KEY_LOST


def test_a_key_that_comes_later_is_found_at_once(keyring, directory, ticking):
    keyring.create_bucket_key(SCOPE, UUID(int=9))
    with pytest.raises(Corrupt):
        keyring.bucket_key(SCOPE, BUCKET)
    Keyring(directory, ticking).create_bucket_key(SCOPE, BUCKET)
    assert keyring.bucket_key(SCOPE, BUCKET)


def test_a_bucket_key_is_remembered_for_a_minute_however_often_it_is_used(keyring, directory, ticking):
    keyring.create_bucket_key(SCOPE, BUCKET)
    for _ in range(60):
        keyring.bucket_key(SCOPE, BUCKET)
        ticking.now += REMEMBERED_S / 60
    assert directory.reads == 1
    keyring.bucket_key(SCOPE, BUCKET)
    assert directory.reads == 2


def test_a_key_that_another_process_destroyed_is_gone_within_a_minute(keyring, directory, ticking):
    keyring.create_bucket_key(SCOPE, BUCKET)
    keyring.bucket_key(SCOPE, BUCKET)
    Keyring(directory, ticking).destroy_bucket_key(SCOPE, BUCKET)
    assert not keyring.has_bucket_key(SCOPE, BUCKET)
    ticking.now += REMEMBERED_S
    with pytest.raises(Corrupt):
        keyring.bucket_key(SCOPE, BUCKET)


def test_a_key_that_this_process_destroyed_or_dropped_is_gone_now(keyring, directory, ticking):
    keyring.create_bucket_key(SCOPE, BUCKET)
    keyring.bucket_key(SCOPE, BUCKET)
    keyring.destroy_bucket_key(SCOPE, BUCKET)
    with pytest.raises(Corrupt):
        keyring.bucket_key(SCOPE, BUCKET)
    keyring.create_bucket_key(SCOPE, BUCKET)
    keyring.bucket_key(SCOPE, BUCKET)
    Keyring(directory, ticking).destroy_bucket_key(SCOPE, BUCKET)
    keyring.drop(BUCKET)
    with pytest.raises(Corrupt):
        keyring.bucket_key(SCOPE, BUCKET)


def test_not_more_keys_are_remembered_than_bounded(keyring, monkeypatch):
    monkeypatch.setattr("store.keyring._MOST_REMEMBERED", 3)
    for number in range(5):
        keyring.create_bucket_key(SCOPE, UUID(int=number))
        keyring.bucket_key(SCOPE, UUID(int=number))
    assert len(keyring._remembered["bucket"].kept) == 3


def test_an_hour_uses_the_key_of_that_hour(keyring):
    made = keyring.create_intake_keys(NOW, 2)
    assert [start for start, _ in keyring.intake_keys()] == [
        datetime(2026, 1, 2, hour, tzinfo=UTC) for hour in (12, 13, 14)
    ]
    assert [key_id for _, key_id in keyring.intake_keys()] == made
    used = [keyring.current_intake_key(NOW + timedelta(hours=hour)).key_id for hour in range(3)]
    assert used == made
    assert keyring.current_intake_key(datetime(2026, 1, 2, 12, 59, 59, 999999, tzinfo=UTC)).key_id == made[0]
    assert keyring.current_intake_key(NOW.astimezone(timezone(timedelta(hours=5)))).key_id == made[0]


def test_keys_are_made_only_for_hours_that_have_none(keyring):
    first = keyring.create_intake_keys(NOW, 1)
    assert len(first) == 2
    assert keyring.create_intake_keys(NOW, 1) == []
    assert len(keyring.create_intake_keys(NOW + timedelta(hours=1), 2)) == 2
    assert len(keyring.intake_keys()) == 4


def test_an_hour_without_a_key_is_an_outage(keyring):
    with pytest.raises(Unavailable) as raised:
        keyring.current_intake_key(NOW)
    assert raised.value.reason is Reason.QUEUE_UNAVAILABLE
    keyring.create_intake_keys(NOW, 0)
    with pytest.raises(Unavailable):
        keyring.current_intake_key(NOW + timedelta(hours=1))


def test_the_hot_path_asks_the_directory_once_a_minute(keyring, directory, ticking):
    keyring.create_intake_keys(NOW, 0)
    directory.reads = directory.listings = 0
    for _ in range(1000):
        key = keyring.current_intake_key(NOW)
        assert keyring.intake_secret(key.key_id) == key.secret
    assert (directory.reads, directory.listings) == (1, 1)
    ticking.now += REMEMBERED_S
    keyring.current_intake_key(NOW)
    assert (directory.reads, directory.listings) == (2, 1)


def test_a_missing_key_makes_the_directory_be_listed_at_most_once_a_second(keyring, directory, ticking):
    keyring.create_intake_keys(NOW, 0)
    directory.listings = 0
    for _ in range(100):
        with pytest.raises(Corrupt) as raised:
            keyring.intake_key(b"\x09" * 8)
        assert raised.value.reason is Reason.KEY_LOST
        with pytest.raises(Unavailable):
            keyring.current_intake_key(NOW + timedelta(hours=1))
    assert directory.listings == 1
    made = Keyring(directory, ticking).create_intake_keys(NOW, 1)
    ticking.now += 1
    assert keyring.current_intake_key(NOW + timedelta(hours=1)).key_id == made[0]
    assert keyring.intake_key(made[0]).key_id == made[0]


def test_where_two_duties_made_a_key_for_one_hour_all_use_the_same_and_read_both(directory, ticking):
    for key_id in ("22" * 8, "11" * 8):
        directory.create("intake", f"2026010212-{key_id}", bytes.fromhex(key_id) * 4)
    rings = [Keyring(directory, ticking) for _ in range(2)]
    assert [ring.current_intake_key(NOW).key_id for ring in rings] == [b"\x11" * 8] * 2
    assert rings[0].intake_secret(b"\x22" * 8) == b"\x22" * 32


def test_a_destroyed_intake_key_opens_nothing(keyring, directory, ticking):
    other = Keyring(directory, ticking)
    [key_id] = keyring.create_intake_keys(NOW, 0)
    for ring in (keyring, other):
        assert ring.intake_secret(key_id)
    keyring.destroy_intake_key(key_id)
    assert keyring.intake_keys() == []
    with pytest.raises(Corrupt):
        keyring.intake_secret(key_id)
    ticking.now += REMEMBERED_S
    with pytest.raises(Corrupt):
        other.intake_secret(key_id)
    with pytest.raises(Unavailable):
        other.current_intake_key(NOW)


def test_a_token_key_that_was_removed_is_made_anew_and_the_others_stay(directory, ticking):
    Keyring(directory, ticking).create_token_keys()
    before = {purpose: directory.read("token", purpose) for purpose in PURPOSES}
    directory.destroy("token", "ticket")
    Keyring(directory, ticking).create_token_keys()
    after = {purpose: directory.read("token", purpose) for purpose in PURPOSES}
    assert {purpose for purpose in PURPOSES if after[purpose] != before[purpose]} == {"ticket"}


def test_token_keys_are_one_a_purpose_and_stay(keyring, directory, ticking):
    with pytest.raises(Unavailable):
        keyring.token_key("ticket")
    keyring.create_token_keys()
    keys = [keyring.token_key(purpose) for purpose in PURPOSES]
    assert len(set(keys)) == len(PURPOSES)
    keyring.create_token_keys()
    assert [Keyring(directory, ticking).token_key(purpose) for purpose in PURPOSES] == keys
    reads = directory.reads
    ticking.now += 3600
    assert [keyring.token_key(purpose) for purpose in PURPOSES] == keys
    assert directory.reads == reads
