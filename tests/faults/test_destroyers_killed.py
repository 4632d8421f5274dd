"""Purge and expiry killed before and after each step: nothing comes back, nothing is lost, `verify` is clean."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from store.db import SERVICE_ROLE, Database
from store.queue import Queue
from store.services.erasures import Erasures, StoredPart
from store.services.expiry import Expiry
from store.services.holds import Holds, OnPart
from store.services.purge import Purge
from store.services.sequencing import Sequencer
from store.services.verify import verify
from tests.support import factories
from tests.support.duties import end_span
from tests.support.factories import House, evidence_of
from tests.support.held import body_of

ROOT = Path(__file__).parents[2]
DAY = 86_400
# A process that does one duty and is killed at a step: before it, or as soon as it has happened.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from store.clock import monotonic
from store.db import DUTIES_ROLE, Database
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.queue import Queue
from policies.limits import ShardLimits
from store.services import hold_buckets
from store.services.expiry import Expiry
from store.services.purge import Purge
from tests.support.dying import die_at

duty, step, when, database_url, redis_url, keys = sys.argv[1:]
hold_buckets.BATCH = 1
die_at(step, when)

async def main():
    database = await Database.open(database_url, role=DUTIES_ROLE, size=4)
    keyring = Keyring(FileKeyDirectory(Path(keys)), monotonic)
    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    if duty == "purge":
        await Purge(database, keyring, queue, 1.0).run()
    else:
        await Expiry(database, keyring, queue, 86400).run()

asyncio.run(main())
"""
PURGE = [
    "store.tables.purging:mark",
    "store.tables.tombstones:leave",
    "store.tables.log_queue:copy",
    "store.tables.purging:delete_bodies",
    "store.tables.held_bodies:set_stale",
    "store.tables.held_bodies:retire",
    "store.tables.held_bodies:insert_bucket",
    "store.tables.held_bodies:put_wrapped",
    "store.keyring:Keyring.destroy_bucket_key",
    "store.tables.held_bodies:set_destroyed",
    "store.tables.spans:vacuum",
    "store.queue:Queue.rewrite_file",
    "store.tables.purging:set_destroyed_parts",
    "store.tables.erasures:set_cleared",
    "store.tables.purging:done",
    "store.tables.erasures:settle",
]
EXPIRY = [
    "store.tables.held_bodies:move",
    "store.tables.buckets:mark_expired",
    "store.tables.log_queue:copy",
    "store.tables.spans:detach",
    "store.tables.spans:drop",
    "store.keyring:Keyring.destroy_bucket_keys",
    "store.queue:Queue.rewrite_file",
    "store.tables.buckets:mark_destroyed",
]


@dataclass
class Doomed:
    """A house with what is to go and what is to stay."""

    house: House
    queue: Queue
    redis_url: str
    keys_dir: Path
    service: Database

    async def parts(self, count: int, keep: timedelta = timedelta(days=1)) -> list[UUID]:
        run = await self.house.declare(keep=keep)
        entries = [self.house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(count)]
        await self.house.persister().persist(entries)
        return [evidence_of(entry) for entry in entries]

    async def hold(self, evidence: UUID) -> UUID:
        return (await Holds(self.service).place(self.house.scope, OnPart(evidence), "m", "op")).hold_id

    async def let_go(self, hold: UUID) -> None:
        await Holds(self.service).release(self.house.scope, hold, "op")
        await self.house.execute("ALTER TABLE holds DISABLE TRIGGER holds_forward_only")
        await self.house.execute("UPDATE holds SET released_at = released_at - interval '1 hour'")
        await self.house.execute("ALTER TABLE holds ENABLE TRIGGER holds_forward_only")

    async def expire(self, evidence: UUID) -> None:
        span = await self.house.value("SELECT span_start FROM parts WHERE evidence = $1", evidence)
        await end_span(self.house.url, span)
        await self.house.execute("UPDATE leases SET paced_at = NULL")

    def expiry(self) -> Expiry:
        return Expiry(self.house.duties, self.house.keyring, self.queue, DAY)

    def purge(self) -> Purge:
        return Purge(self.house.duties, self.house.keyring, self.queue, 1.0)

    async def killed_at(self, duty: str, step: str, when: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, duty, step, when, self.house.url, self.redis_url, str(self.keys_dir),
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert await process.wait() == -signal.SIGKILL, f"{step} was never reached"

    async def publish(self) -> None:
        await Sequencer(self.house.duties, timedelta(minutes=15)).run()
        await self.house.execute("UPDATE log_state SET published_size = size")

    async def sound(self) -> None:
        report = await verify(self.house.database, self.house.keyring, self.queue)
        assert report.sound, report.faults


@pytest.fixture
async def doomed(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Doomed]:
    async with factories.house(database_url, keys_dir) as house, factories.queue_at(redis_url) as queue:
        service = await Database.open(database_url, role=SERVICE_ROLE, size=4)
        yield Doomed(house, queue, redis_url, keys_dir, service)
        await service.close()


async def purge_killed(doomed: Doomed, step: str, when: str) -> None:
    """One part is erased, one was held beyond its bucket until now; one that is still held and one of a run stay."""
    held, kept = await doomed.parts(2)
    hold = await doomed.hold(held)
    await doomed.hold(kept)
    await doomed.expire(held)
    assert (await doomed.expiry().run())["expired"] == 1
    erased, stays = await doomed.parts(2, timedelta(days=2))
    await doomed.let_go(hold)
    asked = await Erasures(doomed.service, doomed.house.keyring, doomed.queue).ask(
        doomed.house.scope, StoredPart(erased), "op"
    )
    await doomed.publish()

    await doomed.killed_at("purge", step, when)
    await doomed.sound()
    state = "SELECT state FROM parts WHERE evidence = $1"
    assert await doomed.house.value(state, erased) in ("purging", "purged")

    for _ in range(2):
        await doomed.purge().run()
        await doomed.publish()
    await doomed.purge().run()
    for gone in (erased, held):
        assert await doomed.house.value(state, gone) == "purged"
        assert await body_of(doomed.house.url, gone) is None
    for there in (kept, stays):
        await doomed.house.read_back(there)
    erasures = Erasures(doomed.service, doomed.house.keyring, doomed.queue)
    assert (await erasures.one(doomed.house.scope, asked.erasure_id)).state == "purged"
    said = await doomed.house.rows(
        "SELECT subject, count(*) AS times FROM log_entries WHERE kind = 'purge' GROUP BY subject"
    )
    assert {row["subject"]: row["times"] for row in said} == {erased: 1, held: 1}
    await doomed.sound()


async def expiry_killed(doomed: Doomed, step: str, when: str) -> None:
    """Of one span two parts are held, in two moves; their siblings go."""
    first, second, *siblings = await doomed.parts(5)
    for each in (first, second):
        await doomed.hold(each)
    await doomed.expire(first)
    await doomed.killed_at("expiry", step, when)
    await doomed.sound()
    await doomed.house.execute("UPDATE leases SET paced_at = NULL")
    for _ in range(2):
        await doomed.expiry().run()
    for each in siblings:
        assert await body_of(doomed.house.url, each) is None
    for each in (first, second):
        await doomed.house.read_back(each)
    await doomed.publish()
    counted = await doomed.house.rows("SELECT count(*) AS n FROM log_entries WHERE kind = 'expire'")
    assert counted == [{"n": 1}]
    await doomed.sound()


async def test_one_step_of_expiry(doomed: Doomed):
    await expiry_killed(doomed, "store.tables.spans:drop", "before")


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", PURGE)
async def test_a_purge_that_is_killed_at_any_step_is_continued(doomed: Doomed, step: str, when: str):
    await purge_killed(doomed, step, when)


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", EXPIRY)
async def test_an_expiry_that_is_killed_at_any_step_is_continued(doomed: Doomed, step: str, when: str):
    await expiry_killed(doomed, step, when)
