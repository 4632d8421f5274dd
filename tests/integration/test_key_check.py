"""Looking at all keys: each thing that can be wrong with them is found, and nothing that is as it should be."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from policies.limits import ShardLimits
from store.clock import monotonic
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.queue import Queue
from store.services.duties import Outcome, counted
from store.services.key_check import EMPTY, OPENED, UNKNOWN, KeyCheck, KeyReport
from store.services.key_marks import make_keys
from store.services.rewrapping import Rewrapping, Selection
from tests.support import factories
from tests.support.duties import execute, scalar
from tests.support.factories import House
from tests.support.logs import heard

pytestmark = pytest.mark.timeout(60)
ORIGIN = "custody.example/log"


class Looked:
    """A house whose keys have a copy, with one stored part, and the check of them."""

    def __init__(self, house: House, places: tuple[Path, Path], queue: Queue) -> None:
        self.house, self.places, self.queue = house, places, queue

    def check(self) -> KeyCheck:
        keyring = Keyring(FileKeyDirectory(*self.places), monotonic)
        return KeyCheck(self.house.duties, keyring, self.queue, ORIGIN)

    async def faults(self) -> list[tuple[str, str]]:
        return sorted({(fault.role, fault.what) for fault in (await self.check().look()).faults})

    async def used(self) -> Path:
        """The key's file of the bucket in which there is something, below either place."""
        name: str = await scalar(
            self.house.url,
            "SELECT replace(scope_id::text, '-', '') || '.' || replace(bucket_id::text, '-', '') FROM bodies",
        )
        return Path("bucket") / name


@pytest.fixture
async def looked(database_url: str, keys_dir: Path, tmp_path: Path, redis_url: str) -> AsyncIterator[Looked]:
    places = (keys_dir, tmp_path / "copy")
    directory = FileKeyDirectory(*places)
    for role in ("token", "bucket", "intake"):
        directory.complete(role, *directory.names(role), anew=True)
    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    async with factories.house(database_url, keys_dir) as house:
        house.keyring.directory = directory
        await make_keys(house.duties, house.keyring)
        run = await house.declare()
        assert not (await house.persister().persist([house.part(run, b"content")])).waiting
        made = Looked(house, places, queue)
        await made.check().look(repair=True, anew=True)
        yield made
    await queue.close()


async def test_sound_keys_are_no_fault_and_a_missing_copy_is_brought_back(looked: Looked) -> None:
    report = await looked.check().look()
    assert report.faults == []
    assert report.checked[OPENED] == 1
    assert report.checked[OPENED] + report.checked[EMPTY] == await scalar(
        looked.house.url, "SELECT count(*) FROM buckets WHERE state = 'live'"
    )
    assert report.not_checked == []

    # One copy of two keys is lost: that is said, and mended by the next daily look.
    used = await looked.used()
    for place, name in zip(looked.places, (used, Path("token") / "lookup"), strict=True):
        (place / name).unlink()
    assert await looked.faults() == [("bucket", "copy_missing"), ("token", "copy_missing")]

    counts = await looked.check().run()

    assert (counts["repaired"], counts["faults"]) == (2, 0)
    assert await looked.faults() == []
    assert (looked.places[0] / used).read_bytes() == (looked.places[1] / used).read_bytes()


async def test_a_key_that_is_gone_is_an_alarm_before_anybody_reads(looked: Looked) -> None:
    used = await looked.used()
    for place in looked.places:
        (place / used).unlink()
    with heard() as log:
        counts = await looked.check().run()
    assert (counts["lost"], counts["faults"]) == (1, 1)
    (line,) = [
        line for line in map(json.loads, log.getvalue().splitlines()) if line["event"] == "bucket_key_lost"
    ]
    assert UUID(line["bucket"]).hex == used.suffix[1:]

    # Another key in its place in one copy, and another one in the other.
    for number, place in enumerate(looked.places):
        (place / used).write_bytes(bytes([number]) * 32)
        (place / used).chmod(0o600)
    assert await looked.faults() == [("bucket", "copy_differs"), ("bucket", "does_not_open")]
    # Nobody guesses which of them is right.
    assert (await looked.check().run())["repaired"] == 0


async def test_keys_of_another_store_or_gone_and_an_hour_without_one(looked: Looked) -> None:
    leaf = '{"k":"key","op":"add","t":"2026-01-01T00:00:00.000000Z","u":"custody.example/log+00000000+AQ=="}'
    await execute(
        looked.house.url, "INSERT INTO log_queue (scope_id, leaf) VALUES ($1, $2)", UUID(int=0), leaf.encode()
    )
    for place in looked.places:
        for path in (place / "intake").iterdir():
            path.unlink()
        (place / "token" / "cursor").unlink()
        (place / "token" / "receipt").write_bytes(b"short")
        (place / "token" / "lookup").write_bytes(b"x" * 32)
    assert await looked.faults() == [
        ("intake", "key_lost"),
        ("signing", "of_another_store"),
        ("token", "missing"),
        ("token", "no_key"),
        ("token", "of_another_store"),
    ]


async def test_keys_that_should_be_gone_and_those_that_nobody_knows(looked: Looked) -> None:
    used = await looked.used()
    looked.house.keyring.create_bucket_key(looked.house.scope, UUID(int=7))
    report = await looked.check().look()
    assert (report.faults, report.checked[UNKNOWN]) == ([], 1)
    await execute(
        looked.house.url, "UPDATE buckets SET state = 'destroyed' WHERE bucket_id = $1", UUID(used.suffix[1:])
    )
    assert await looked.faults() == [("bucket", "key_left")]


async def test_a_key_that_was_changed_and_brought_back_should_be_gone(looked: Looked) -> None:
    name = await looked.used()
    bucket = await scalar(looked.house.url, "SELECT bucket_id FROM bodies")
    old = (looked.places[0] / name).read_bytes()
    done = await Rewrapping(looked.house.duties, looked.house.keyring, 0).run("op", Selection(bucket=bucket))
    assert (done.changed, await looked.faults()) == (1, [])
    for place in looked.places:
        (place / name).touch(0o600)
        (place / name).write_bytes(old)
    assert await looked.faults() == [("bucket", "key_left")]


async def test_a_copy_that_is_away_keeps_nothing_else_from_being_looked_at(looked: Looked) -> None:
    looked.places[1].rename(looked.places[1].with_name("away"))
    report: KeyReport = await looked.check().look(repair=True)
    assert any("mounted" in fault.what for fault in report.faults)
    assert report.checked[OPENED] == 1
    assert report.repaired == 0
    assert not looked.places[1].exists()
    # Only who says so has it begun anew.
    assert (await looked.check().look(repair=True, anew=True)).sound


def test_counts_are_read_back_as_they_were_written() -> None:
    counts: dict[str, Any] = {"live": 95, "faults": 3}
    assert counted(str(Outcome("bucket_keys", "ok", counts)), "faults") == 3
    assert counted(str(Outcome("bucket_keys", "ok", {"faults": 0})), "faults") == 0
    assert [counted(text, "faults") for text in (None, "failed: store_unavailable", "skipped: locked")] == [
        None
    ] * 3
