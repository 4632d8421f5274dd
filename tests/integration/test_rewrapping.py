"""Changing the keys of buckets: nothing is lost, whoever reads, writes, holds, expires or dies meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from policies.limits import ShardLimits
from policies.reasons import Reason
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from store.queue import Queue
from store.services import rewrapping
from store.services.expiry import Expiry
from store.services.holds import Holds, OnPart
from store.services.outcomes import Outcomes
from store.services.persist import Persister
from store.services.rewrapping import Rewrapping, Selection
from store.services.verify_parts import bodies_of, faults_of
from store.tables import outcomes as table
from store.tables import verify as verify_table
from tests.support import factories
from tests.support.duties import end_span
from tests.support.factories import House, evidence_of
from tests.support.held import Body, body_of

pytestmark = pytest.mark.timeout(60)
ALL = Selection()


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrapping, "BATCH", 2)


def changing(house: House) -> Rewrapping:
    return Rewrapping(house.duties, house.keyring, grace_s=0)


def anew(house: House, keys_dir: Path) -> Keyring:
    """A process that remembers nothing."""
    return Keyring(FileKeyDirectory(keys_dir), lambda: 0.0)


async def stored(house: House, count: int, *, run: Any = None, first: int = 0) -> list[UUID]:
    run = run or await house.declare()
    entries = [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(first, first + count)]
    done = await house.persister().persist(entries)
    assert not done.waiting
    return [evidence_of(entry) for entry in entries]


async def body(house: House, evidence: UUID) -> Body:
    found = await body_of(house.url, evidence)
    assert found is not None
    return found


async def wrapped_in(house: House, evidence: UUID) -> UUID:
    return (await body(house, evidence)).bucket_id


async def faults(house: House, keyring: Keyring) -> list[str]:
    """What `verify` finds in parts and buckets."""
    async with house.database.connection() as connection:
        parts = await verify_table.parts_after(connection, (UUID(int=0), UUID(int=0)), 1000)
        bodies = await bodies_of(connection, parts)
    assert parts
    return [fault for part in parts for fault in faults_of(part, bodies.get(part.key), keyring)]


async def test_secrets_are_wrapped_anew_and_everything_else_stays(house: House, keys_dir: Path) -> None:
    evidence = await stored(house, 5)
    before = [await body(house, each) for each in evidence]
    rows = await house.value("SELECT array_agg(p ORDER BY p.evidence)::text FROM parts p")
    keys = house.keyring.bucket_keys()
    bucket = before[0].bucket_id

    done = await changing(house).run("op", Selection(bucket=bucket))

    assert (done.secrets, done.changed, done.left) == (5, 1, [])
    after = [await body(house, each) for each in evidence]
    assert [each.ciphertext for each in after] == [each.ciphertext for each in before]
    assert not {each.wrapped for each in after} & {each.wrapped for each in before}
    assert await house.value("SELECT array_agg(p ORDER BY p.evidence)::text FROM parts p") == rows
    assert await faults(house, anew(house, keys_dir)) == []
    now = house.keyring.bucket_keys()
    assert (keys - now, len(now)) == ({(house.scope, bucket)}, len(keys))
    # A backup of before opens nothing any more.
    assert not anew(house, keys_dir).has_bucket_key(house.scope, bucket)
    assert await house.value(
        "SELECT array_agg(target) FROM operator_actions WHERE action = 'bucket_key_changed' AND key_id = 'op'"
    ) == [bucket.hex]


@pytest.mark.long
async def test_all_of_a_scope_and_nothing_of_another(house: House, keys_dir: Path) -> None:
    other = await house.add_scope()
    await stored(house, 3)
    keys = house.keyring.bucket_keys()

    done = await changing(house).run("op", Selection(scope=house.scope))

    kept = keys & house.keyring.bucket_keys()
    assert {scope for scope, _ in kept} == {other}
    assert done.changed == len(keys - kept)
    assert await house.value("SELECT count(*) FROM buckets WHERE old_key_id IS NOT NULL") == 0
    assert await faults(house, anew(house, keys_dir)) == []


async def test_who_sealed_for_the_old_key_seals_again(house: House, keys_dir: Path) -> None:
    run = await house.declare()
    (one,) = await stored(house, 1, run=run)
    # A process of its own, which goes on remembering the key that is destroyed.
    writer = Persister(house.database, Keyring(FileKeyDirectory(keys_dir), lambda: 0.0), most_bytes=1 << 20)
    entries = [house.part(run, b"late", exchange="late")]
    # What it remembers is where its run goes, and under which key.
    await writer.persist([house.part(run, b"early", exchange="early")])
    bucket = await wrapped_in(house, one)

    await changing(house).run("op", Selection(bucket=bucket))
    done = await writer.persist(entries)

    assert [settlement.outcome for settlement in done.settlements] == ["stored"]
    assert await wrapped_in(house, evidence_of(entries[0])) != bucket
    assert await faults(house, anew(house, keys_dir)) == []


@pytest.mark.long
async def test_writers_and_readers_go_on_while_keys_change(house: House, keys_dir: Path) -> None:
    run = await house.declare()
    evidence = await stored(house, 20, run=run)
    stop = asyncio.Event()

    async def write() -> int:
        number = 100
        while not stop.is_set():
            evidence.extend(await stored(house, 3, run=run, first=number))
            number += 3
        return number

    async def read() -> int:
        times = 0
        while not stop.is_set():
            # Twice, as readers do: the row may be read before, and the key looked for after it is gone.
            assert not await faults(house, anew(house, keys_dir)) or not await faults(house, house.keyring)
            times += 1
        return times

    working = asyncio.gather(write(), read())
    rewrap = Rewrapping(house.duties, house.keyring, grace_s=0.1)
    for _ in range(2):
        async with house.database.connection() as connection:
            bucket = await connection.fetchval("SELECT bucket_id FROM parts LIMIT 1")
        assert (await rewrap.run("op", Selection(bucket=bucket))).left == []
    stop.set()
    number, times = await working

    assert number > 103
    assert times > 1
    assert await house.value("SELECT count(*) FROM bodies") == len(evidence)
    assert await faults(house, anew(house, keys_dir)) == []


async def test_what_was_begun_is_finished_by_the_next_one(
    house: House, keys_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = await stored(house, 5)
    bucket = await wrapped_in(house, evidence[0])

    async def cut(*_: object) -> int:
        raise asyncio.CancelledError

    monkeypatch.setattr(Rewrapping, "_wrap", cut)
    with pytest.raises(asyncio.CancelledError):
        await changing(house).run("op", Selection(bucket=bucket))
    monkeypatch.undo()
    assert await faults(house, anew(house, keys_dir)) == []
    await stored(house, 2, first=50)

    done = await changing(house).run("op", Selection(bucket=bucket, unfinished=True))

    assert (done.secrets, done.changed, done.left) == (5, 1, [])
    assert await faults(house, anew(house, keys_dir)) == []
    assert not house.keyring.has_bucket_key(house.scope, bucket)
    assert (await changing(house).run("op", Selection(unfinished=True))).changed == 0


async def test_what_nobody_can_open_keeps_its_key_and_without_a_key_there_is_a_new_one(
    house: House, keys_dir: Path
) -> None:
    run = await house.declare()
    evidence = await stored(house, 3, run=run)
    bucket = await wrapped_in(house, evidence[0])
    await house.execute("UPDATE bodies SET wrapped = $2 WHERE evidence = $1", evidence[0], bytes(60))

    done = await changing(house).run("op", Selection(bucket=bucket))

    assert (done.secrets, done.changed, [each.bucket_id for each in done.left]) == (2, 0, [bucket])
    assert house.keyring.has_bucket_key(house.scope, bucket)

    # Lost keys wrap nothing that could be saved; the bucket takes parts again.
    for key in (bucket, done.left[0].key_id):
        house.keyring.destroy_bucket_key(house.scope, key)
    assert (await house.persister().persist([house.part(run, b"x", exchange="y")])).waiting
    assert (await changing(house).run("op", Selection(bucket=bucket))).left == []
    assert (await changing(house).run("op", Selection(bucket=bucket))).left == []
    (late,) = await stored(house, 1, run=run, first=9)
    assert sorted(await faults(house, anew(house, keys_dir))) == ["key_lost"] * 3
    assert await wrapped_in(house, late) not in {bucket, done.left[0].key_id}


async def test_held_bodies_and_expiry_find_the_keys_that_are_there(
    house: House, keys_dir: Path, redis_url: str
) -> None:
    held, gone = await stored(house, 2)
    await Holds(house.database).place(house.scope, OnPart(held), "m", "op")
    bucket = await wrapped_in(house, held)
    await changing(house).run("op", ALL)
    span = await house.value("SELECT span_start FROM parts WHERE evidence = $1", held)
    await end_span(house.url, span)

    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    try:
        assert (await Expiry(house.duties, house.keyring, queue, 86_400).run())["expired"] == 1
    finally:
        await queue.close()

    keyring = anew(house, keys_dir)
    assert await body_of(house.url, gone) is None
    assert await faults(house, keyring) == []
    of_span = "SELECT array_agg(k) FROM buckets b, unnest(ARRAY[bucket_id, key_id, old_key_id]) k WHERE span_start = $1"
    left = {
        key for key in await house.value(of_span, span) if key and keyring.has_bucket_key(house.scope, key)
    }
    assert left == set()
    # And the one that holds: its key is changed with the others.
    holding = await wrapped_in(house, held)
    assert (await changing(house).run("op", ALL)).left == []
    assert await wrapped_in(house, held) not in {holding, bucket}
    assert await faults(house, anew(house, keys_dir)) == []


async def test_a_repeat_is_compared_under_the_key_that_is_there(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    (evidence,) = await stored(house, 1)
    bucket = await wrapped_in(house, evidence)
    real = table.sealed_of

    async def changed_since(*arguments: Any) -> Any:
        # The row is read, and then its bucket's key is changed.
        monkeypatch.setattr(table, "sealed_of", real)
        found = await real(*arguments)
        await changing(house).run("op", Selection(bucket=bucket))
        return found

    monkeypatch.setattr(table, "sealed_of", changed_since)
    outcomes = Outcomes(house.database, AsyncMock(), house.keyring, AsyncMock(), AsyncMock(), timedelta(0))
    assert await outcomes.compare(house.scope, evidence, b"content 0") is None
    assert await outcomes.compare(house.scope, evidence, b"other") is Reason.IDENTITY_CONFLICT
