"""`verify` re-derives the proof log: whatever is changed in its tables, or in what its leaves are about, is found."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from store.commitments import close_commitment, leaf
from store.log_tree.notes import Checkpoint, Signer
from store.services import accounting, verify_log
from store.services.verify import Report, verify
from store.tables import log
from tests.support import factories
from tests.support.factories import House
from tests.support.log_queue import EXPIRE_LEAVES, PURGE_LEAVES, queue, sequencer

SIGNER = Signer("custody.local/log", bytes(32))
OPENING = b"o" * 32
AN_HOUR_AGO = datetime.now(UTC).replace(microsecond=7) - timedelta(hours=1)


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    """A log of more than a tile: a part purged, a bucket expired, a run closed, a checkpoint; and a leaf that waits."""
    async with factories.house(database_url, keys_dir) as made:
        run = await made.declare()
        await made.persister().persist([made.part(run, b"%d" % n, exchange=f"x-{n}") for n in range(3)])
        await queue(database_url, [leaf("key", op="add", t=n, u="v") for n in range(260)], made.scope)
        await sequencer(made.duties).run()
        await made.execute(
            "UPDATE parts SET state = 'purging', purge_reason = 'erased' WHERE exchange = 'x-0'"
        )
        await made.execute(f"{PURGE_LEAVES} WHERE state = 'purging'")
        await made.execute("UPDATE buckets SET state = 'expired', expired_at = now()")
        await made.execute(EXPIRE_LEAVES)
        await made.execute("UPDATE runs SET state = 'closed', closed_at = $1", AN_HOUR_AGO)
        async with made.duties.transaction() as connection:
            record = await accounting.account(connection, made.scope, run.run_uid, run.run)
        await made.execute(
            "INSERT INTO closings (scope_id, run_uid, closed_at, opening, record) VALUES ($1, $2, $3, $4, $5)",
            made.scope, run.run_uid, AN_HOUR_AGO, OPENING, record,
        )  # fmt: skip
        told = leaf("close", t=AN_HOUR_AGO, m=close_commitment(OPENING, record), r=run.run_uid)
        await queue(database_url, [told], made.scope)
        await sequencer(made.duties).run()
        await made.execute("UPDATE log_state SET origin = 'custody.local/log'")
        await sign(made)
        await queue(database_url, [leaf("key", op="add", t=1, u="v")], made.scope)
        yield made


async def sign(house: House) -> None:
    async with house.duties.connection() as connection:
        state = await log.state(connection)
        note = SIGNER.sign(Checkpoint("custody.local/log", state.size, state.root).text)
        await connection.execute("INSERT INTO log_checkpoints (size, note) VALUES ($1, $2)", state.size, note)


async def check(house: House, batch: int = 500) -> Report:
    return await verify(house.database, house.keyring, batch=batch)


@pytest.mark.parametrize("batch", [3, 100, 500])
async def test_of_a_sound_log_everything_is_checked_and_nothing_found(house: House, batch: int):
    report = await check(house, batch)
    assert report.sound, report.faults
    size = await house.count("log_entries")
    assert report.checked["leaves"] == size + 1
    assert (report.checked["tiles"], report.checked["checkpoints"]) == (1, 1)
    assert not any("close leaves" in each for each in report.not_checked)


def flip(table: str, column: str) -> str:
    """Change one bit."""
    return f"UPDATE {table} SET {column} = set_byte({column}, 9, get_byte({column}, 9) # 1)"  # noqa: S608 - a test's own names


def entry(kind: str, before: str, after: str) -> str:
    """Change the text of the first leaf of a kind."""
    return (
        f"UPDATE log_entries SET leaf = convert_to(replace(convert_from(leaf, 'UTF8'), '{before}', '{after}'), 'UTF8')"  # noqa: S608 - a test's own words
        f" WHERE idx = (SELECT min(idx) FROM log_entries WHERE kind = '{kind}')"
    )


def again(kind: str) -> str:
    """Queue what is in the log already."""
    return (
        f"INSERT INTO log_queue (scope_id, leaf) SELECT scope_id, leaf FROM log_entries WHERE kind = '{kind}'"  # noqa: S608 - a test's own words
    )


CHANGES = [
    (entry("key", '"u":"v"', '"u":"w"'), "log_tile_mismatch"),
    (entry("purge", '"t":1', '"t":2'), "log_end_mismatch"),
    (entry("purge", '"t":1', '"t":2'), "checkpoint_mismatch"),
    (entry("part", '"t":', '"t":1'), "leaf_mismatch"),
    (entry("part", '"k"', '"q"'), "leaf_unreadable"),
    (entry("key", ",", ", "), "leaf_unreadable"),
    (entry("expire", '"n":', '"k":"key","n":'), "leaf_unreadable"),
    (entry("purge", '"of":', '"of":1'), "purge_of_mismatch"),
    (entry("expire", '"n":', '"n":1'), "expire_count_mismatch"),
    (entry("close", '"t":', '"t":1'), "closing_leaf_missing"),
    (entry("close", '="', 'A"'), "closing_mismatch"),
    ("UPDATE log_entries SET subject = gen_random_uuid() WHERE kind = 'part'", "log_entry_mismatch"),
    ("UPDATE log_entries SET scope_id = gen_random_uuid() WHERE kind = 'part'", "leaf_without_part"),
    ("UPDATE log_entries SET kind = 'hold' WHERE kind = 'close'", "log_entry_mismatch"),
    ("DELETE FROM log_entries WHERE idx = 2", "log_entry_missing"),
    ("DELETE FROM log_entries WHERE idx = 2", "leaf_missing"),
    ("DELETE FROM log_entries WHERE kind = 'purge'", "purge_leaf_missing"),
    ("DELETE FROM log_entries WHERE kind = 'expire'", "expire_leaf_missing"),
    ("DELETE FROM log_entries WHERE kind = 'close'", "closing_leaf_missing"),
    (
        "INSERT INTO log_entries SELECT 999, scope_id, kind, subject, leaf FROM log_entries LIMIT 1",
        "log_beyond_its_end",
    ),
    ("INSERT INTO log_tiles SELECT 0, 1, hashes FROM log_tiles", "log_beyond_its_end"),
    ("INSERT INTO log_checkpoints SELECT size + 1, note FROM log_checkpoints", "log_beyond_its_end"),
    ("INSERT INTO log_checkpoints SELECT size - 1, note FROM log_checkpoints", "checkpoint_mismatch"),
    (flip("log_checkpoints", "note"), "checkpoint_mismatch"),
    ("UPDATE log_checkpoints SET note = 'none'", "checkpoint_mismatch"),
    (flip("log_tiles", "hashes"), "log_tile_mismatch"),
    ("DELETE FROM log_tiles", "log_tile_mismatch"),
    (flip("log_state", "root"), "log_end_mismatch"),
    (flip("log_state", "edge[1]"), "log_end_mismatch"),
    (flip("log_state", "open_tiles[1]"), "log_end_mismatch"),
    ("UPDATE log_state SET size = size - 1", "log_beyond_its_end"),
    ("UPDATE log_state SET size = size + 1", "log_entry_missing"),
    ("UPDATE parts SET state = 'stored'", "purge_without_effect"),
    ("UPDATE parts SET state = 'purging', purge_reason = 'erased'", "purge_leaf_missing"),
    ("UPDATE parts SET stored_at = stored_at + interval '1 second'", "leaf_mismatch"),
    ("UPDATE parts SET bucket_id = gen_random_uuid()", "leaf_mismatch"),
    (flip("parts", "commitment"), "leaf_mismatch"),
    (flip("parts", "meta_commitment"), "leaf_mismatch"),
    ("DELETE FROM parts", "leaf_without_part"),
    ("UPDATE buckets SET state = 'live'", "expire_without_effect"),
    ("UPDATE closings SET record = 'other'", "closing_mismatch"),
    (flip("closings", "opening"), "closing_mismatch"),
    ("DELETE FROM closings", "closing_mismatch"),
    ("UPDATE closings SET closed_at = closed_at + interval '1 second'", "closing_mismatch"),
    ("UPDATE runs SET state = 'open'", "run_reopened"),
    ("INSERT INTO sessions SELECT scope_id, run_uid, 's-1', 9 FROM runs", "account_mismatch"),
    (
        "INSERT INTO closings SELECT scope_id, run_uid, closed_at - interval '1 day', opening, 'x' FROM closings",
        "closing_leaf_missing",
    ),
    (again("expire"), "expire_leaf_twice"),
    (again("part"), "leaf_twice"),
]  # fmt: skip
TABLES = (
    "log_entries",
    "log_tiles",
    "log_state",
    "log_checkpoints",
    "log_queue",
    "closings",
    "sessions",
    "runs",
    "parts",
    "buckets",
)


async def test_what_was_changed_behind_our_back_is_found(house: House):
    owner = await asyncpg.connect(house.url)
    # No trigger and no foreign key stands in this insider's way.
    await owner.execute("SET session_replication_role = replica")
    for table in TABLES:
        await owner.execute(f"CREATE TABLE saved_{table} AS TABLE {table}")
    unnoticed = []
    for change, kind in CHANGES:
        await owner.execute(change)
        found = {fault.kind for fault in (await check(house)).faults}
        if kind not in found:
            unnoticed.append((change, kind, found))
        for table in TABLES:
            identity = "OVERRIDING SYSTEM VALUE " if table == "log_queue" else ""
            await owner.execute(f"DELETE FROM {table}")  # noqa: S608 - a test's own names
            await owner.execute(f"INSERT INTO {table} {identity}TABLE saved_{table}")
    await owner.close()
    assert unnoticed == []
    assert (await check(house)).sound


async def test_a_leaf_that_is_sequenced_meanwhile_is_seen_once(house: House, monkeypatch: pytest.MonkeyPatch):
    look, run = log.entries, await house.declare()
    entries = [house.part(run, b"late %d" % n, exchange=f"late-{n}") for n in range(20)]
    await house.persister().persist(entries)

    async def then_it_goes_on(*asked) -> list[log.Entry]:
        found = await look(*asked)
        await sequencer(house.duties).run()
        return found

    monkeypatch.setattr(log, "entries", then_it_goes_on)
    monkeypatch.setattr(verify_log, "_unmatched", None)
    report = await check(house, 50)
    assert report.sound, report.faults


async def test_a_closing_of_a_version_that_kept_no_record_is_not_checked_and_said(house: House):
    await house.execute("DELETE FROM closings")
    await house.execute("UPDATE runs SET close_opening = $1", OPENING)
    report = await check(house)
    assert report.sound, report.faults
    assert "1 close leaves of a version that kept no record" in report.not_checked
