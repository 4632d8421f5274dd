"""`verify` finds what is wrong, names it, and finds nothing where nothing is."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from policies.reasons import Reason
from store.db import SERVICE_ROLE, Database
from store.errors import Unavailable
from store.services import verify_log
from store.services.verify import Report, verify
from store.tables import verify as table
from tests.support import factories
from tests.support.factories import REQUEST, House, queue_at, queue_up
from tests.support.log_queue import EXPIRE_LEAVES, PURGE_LEAVES
from tests.support.writers import writing


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    """Five parts of two runs in two buckets, one with sources, and a superseded gap."""
    async with factories.house(database_url, keys_dir) as made:
        await made.add_source("doc-7", versions=3)
        near, far = await made.declare(), await made.declare(keep=timedelta(days=2, hours=1))
        parts = [
            made.part(
                run,
                b"content %d " % n * (50 * n + 1),
                exchange=f"x-{n}",
                sources=[("doc-7", 3)] if n == 1 else [],
            )
            for n, run in enumerate([near, near, far, far, near])
        ]
        await made.persister().persist(parts)
        yield made


async def found(house: House, batch: int = 500) -> set[str]:
    return {fault.kind for fault in (await check(house, batch)).faults}


async def check(house: House, batch: int = 500) -> Report:
    return await verify(house.database, house.keyring, batch=batch)


@pytest.mark.parametrize("batch", [1, 2, 5, 500])
async def test_of_what_is_sound_everything_is_checked_and_nothing_found(house: House, batch: int) -> None:
    report = await check(house, batch)

    assert report.sound
    assert (report.checked["parts"], report.checked["bodies"], report.checked["leaves"]) == (5, 5, 5)
    assert "the write queue" in report.not_checked


async def test_an_empty_store_is_sound(database_url: str, keys_dir: Path) -> None:
    async with factories.house(database_url, keys_dir) as house:
        report = await check(house)

    assert (report.sound, report.checked["parts"]) == (True, 0)
    assert report.checked["buckets"] > 0


def swap(*columns: str) -> str:
    """Give every body what is another's."""
    swapped = ", ".join(f"{column} = b.{column}" for column in columns)
    return f"UPDATE bodies a SET {swapped} FROM bodies b WHERE a.evidence <> b.evidence"  # noqa: S608


def flip(table: str, column: str, byte: int) -> str:
    """Change one bit."""
    return f"UPDATE {table} SET {column} = set_byte({column}, {byte}, get_byte({column}, {byte}) # 1)"  # noqa: S608


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (flip("bodies", "ciphertext", 40), "ciphertext_unreadable"),
        (flip("bodies", "ciphertext", 0), "ciphertext_unreadable"),
        (flip("bodies", "wrapped", 59), "secret_unreadable"),
        ("UPDATE bodies SET exact_bytes = exact_bytes + 1", "size_mismatch"),
        (flip("parts", "commitment", 3), "content_mismatch"),
        (flip("parts", "meta_commitment", 3), "metadata_mismatch"),
        (flip("parts", "meta_opening", 3), "metadata_mismatch"),
        ("UPDATE parts SET size_class = 2 * size_class", "size_mismatch"),
        ("UPDATE parts SET media_type = 'text/plain'", "metadata_mismatch"),
        ("UPDATE parts SET session = 's', sequence = 3", "metadata_mismatch"),
        ("UPDATE parts SET received_at = received_at + interval '1 microsecond'", "metadata_mismatch"),
        ("UPDATE parts SET attempt = 'other'", "ciphertext_unreadable"),
        ("UPDATE runs SET run = run || '-other'", "metadata_mismatch"),
        ("UPDATE source_sets SET versions = '{2}'", "source_set_mismatch"),
        ("DELETE FROM source_sets", "source_set_mismatch"),
        ("DELETE FROM runs", "run_missing"),
        ("DELETE FROM buckets", "bucket_missing"),
        ("DELETE FROM bodies", "body_missing"),
        ("UPDATE parts SET state = 'lost_in_restore'", "body_without_part"),
        ("DELETE FROM parts", "body_without_part"),
        ("DELETE FROM parts", "leaf_without_part"),
        ("DELETE FROM log_queue", "leaf_missing"),
        ("INSERT INTO log_queue (scope_id, leaf) SELECT scope_id, leaf FROM log_queue", "leaf_twice"),
        ("UPDATE log_queue SET leaf = replace(encode(leaf, 'escape'), '\"t\":1', '\"t\":2')::bytea", "leaf_mismatch"),
        ("UPDATE log_queue SET leaf = 'no leaf'", "leaf_unreadable"),
        (swap("ciphertext"), "ciphertext_unreadable"),
        (swap("wrapped"), "secret_unreadable"),
        (
            swap("wrapped", "ciphertext"),
            "secret_unreadable",
        ),
        ("ALTER TABLE bodies DETACH PARTITION {partition}", "partition_missing"),
    ],
)  # fmt: skip
async def test_what_was_changed_behind_our_back_is_found(house: House, change: str, kind: str) -> None:
    partition = await house.value("SELECT tableoid::regclass::text FROM bodies LIMIT 1")

    await house.execute(change.replace("{partition}", partition))

    assert kind in await found(house)
    assert kind in await found(house, batch=2)


async def test_a_fault_names_the_part_and_nothing_else(house: House) -> None:
    evidence = await house.value("SELECT evidence FROM parts ORDER BY evidence LIMIT 1")
    await house.execute("DELETE FROM bodies WHERE evidence = $1", evidence)

    report = await check(house)

    (fault,) = report.faults
    assert (fault.kind, fault.scope_id, fault.id) == ("body_missing", house.scope, str(evidence))


async def test_a_lost_bucket_key(house: House) -> None:
    for scope, bucket in house.keyring.bucket_keys():
        house.keyring.destroy_bucket_key(scope, bucket)

    assert {"key_lost", "bucket_key_missing"} <= await found(house)


async def test_a_bucket_that_is_made_or_goes_meanwhile_is_no_fault(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, gone = table.buckets_after, await house.value("SELECT bucket_id FROM buckets LIMIT 1")

    async def then_it_goes(*asked: Any) -> list[table.BucketRow]:
        rows = await look(*asked)
        house.keyring.destroy_bucket_key(house.scope, gone)
        await house.execute("UPDATE buckets SET state = 'expired' WHERE bucket_id = $1", gone)
        return rows

    monkeypatch.setattr(table, "buckets_after", then_it_goes)
    assert "bucket_key_missing" not in await found(house)


async def test_what_is_stored_while_it_counts_makes_it_look_at_new_parts_only(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, run = table.bodies_after, await house.declare()

    async def one_more_comes(*asked: Any) -> list[table.BodyKey]:
        monkeypatch.setattr(table, "bodies_after", look)
        await house.persister().persist([house.part(run, b"late")])
        return await look(*asked)

    async def all_in_memory(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(table, "bodies_after", one_more_comes)
    monkeypatch.setattr(verify_log, "_unmatched", all_in_memory)
    report = await check(house)
    assert (report.sound, report.checked["parts"], report.checked["leaves"]) == (True, 5, 6)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("DELETE FROM log_queue WHERE id = (SELECT min(id) FROM log_queue)", "leaf_missing"),
        (
            "INSERT INTO log_queue (scope_id, leaf) SELECT scope_id, leaf FROM log_queue ORDER BY id LIMIT 1",
            "leaf_twice",
        ),
    ],
)
@pytest.mark.parametrize("old", [True, False])
async def test_one_leaf_that_is_missing_or_there_twice_is_found_among_old_and_new(
    house: House, change: str, kind: str, old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.services.verify._NEW", timedelta(days=-1 if old else 1))
    await house.execute(change)
    assert [fault.kind for fault in (await check(house)).faults] == [kind]


async def test_a_key_that_outlived_its_bucket(house: House) -> None:
    await house.execute("UPDATE buckets SET state = 'expired', expired_at = now()")
    await house.execute(EXPIRE_LEAVES)
    await house.execute("UPDATE buckets SET state = 'destroyed', destroyed_at = now()")

    assert await found(house) == {"bucket_key_left"}


async def test_an_expired_bucket_whose_bodies_are_gone_is_no_fault(house: House) -> None:
    await house.execute("UPDATE buckets SET state = 'expired', expired_at = now()")
    await house.execute(EXPIRE_LEAVES)
    await house.execute("DELETE FROM bodies")

    assert (await check(house)).sound


async def test_a_part_on_its_way_out_is_no_fault(house: House) -> None:
    await house.execute("UPDATE parts SET state = 'purging', purge_reason = 'erased'")
    await house.execute(PURGE_LEAVES)
    assert (await check(house)).sound
    await house.execute("DELETE FROM bodies")
    assert (await check(house)).sound
    await house.execute("UPDATE parts SET state = 'purged'")
    assert (await check(house)).sound


async def test_a_purged_part_whose_body_stayed_is_a_fault(house: House) -> None:
    await house.execute("UPDATE parts SET state = 'purging', purge_reason = 'erased'")
    await house.execute(PURGE_LEAVES)
    await house.execute("UPDATE parts SET state = 'purged'")

    assert await found(house) == {"body_without_part"}


async def test_a_gap_that_names_a_part_that_is_not_there(house: House) -> None:
    run = await house.declare()
    gap = house.gap(run, Reason.CLIENT_TRANSPORT, identity=("x", "a", REQUEST))
    entry = house.part(run, b"content", exchange="x", attempt="a")
    await house.persister().persist([gap, entry])
    assert (await check(house)).sound

    await house.execute("UPDATE gaps SET superseded_by = gap_id")

    assert await found(house) == {"superseded_by_nothing"}


async def test_an_outage_is_no_fault(house: House) -> None:
    nowhere = await Database.open("postgresql://nobody@127.0.0.1:1/nowhere", role=SERVICE_ROLE, size=1)
    try:
        with pytest.raises(Unavailable):
            await verify(nowhere, house.keyring)
    finally:
        await nowhere.close()


async def test_reservations_of_the_queue_are_counted(house: House, redis_url: str) -> None:
    async with queue_at(redis_url) as queue:
        run = await house.declare()
        await queue_up(queue, run, [house.part(run, b"waits")])
        report = await verify(house.database, house.keyring, queue)
        assert (report.sound, report.checked["queue shards"]) == (True, 1)
        assert "the write queue" not in report.not_checked

        await queue._links.calls.execute_command("HSET", "custody:{q0}:pending", "parts", 7)

        assert [fault.kind for fault in (await verify(house.database, house.keyring, queue)).faults] == [
            "reservations_wrong"
        ]


async def test_beside_writers_at_work_nothing_is_found(house: House, redis_url: str) -> None:
    async with queue_at(redis_url) as queue, writing(house, queue, batch=8):
        for n in range(10):
            run = await house.declare()
            entries = [house.part(run, b"content %d" % m, exchange=f"x-{m}") for m in range(20)]
            await queue_up(queue, run, entries)
            report = await verify(house.database, house.keyring, batch=7)
            assert report.sound, report.faults
            assert report.checked["parts"] >= 5 + n


async def test_what_it_reads_it_does_not_change(house: House) -> None:
    async def everything() -> list[list[dict[str, Any]]]:
        tables = ("parts", "bodies", "log_queue", "gaps", "attempts", "source_sets", "buckets")
        return [await house.rows(f"SELECT * FROM {table}") for table in tables]  # noqa: S608 - a test's own names

    before = await everything()

    await check(house)

    assert await everything() == before
