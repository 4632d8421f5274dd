"""The sequencer against a real database: every leaf once, in order, whoever dies or meets whom."""

import asyncio
import json
from datetime import timedelta

import asyncpg
import pytest

from store import ids
from store.commitments import leaf
from store.db import Database
from store.errors import Corrupt, RowRefused
from store.log_tree.hashes import leaf_hash
from store.services import sequencing
from store.tables import load, log
from tests.support import naive_tree
from tests.support.duties import execute, scalar
from tests.support.log_queue import entries, part_leaf, purge_leaf, queue, rows, sequencer


async def sound(url: str) -> list[bytes]:
    """The stored end and tiles follow from the entries; returns them."""
    found = await entries(url)
    hashes = [leaf_hash(entry) for entry in found]
    (state,) = await rows(url, "SELECT size, root FROM log_state")
    assert (state["size"], state["root"]) == (len(found), naive_tree.root(hashes))
    tiles = await rows(url, "SELECT level, tile, hashes FROM log_tiles ORDER BY level, tile")
    hash_at = naive_tree.reader(hashes)
    expected = [
        (level, tile, b"".join(hash_at(8 * level, tile * 256 + at) for at in range(256)))
        for level in range(3)
        for tile in range(len(found) >> 8 * (level + 1))
    ]
    assert [tuple(row) for row in tiles] == expected
    return found


async def test_leaves_get_their_places_in_the_order_of_the_queue(database_url: str, database: Database):
    duty = sequencer(database)
    assert not await duty.due()
    assert await duty.run() == {"sequenced": 0, "waiting": 0, "stands_still": 0}
    leaves = [part_leaf() for _ in range(600)]
    await queue(database_url, leaves[:1])
    assert await duty.due()
    assert (await duty.run())["sequenced"] == 1
    await queue(database_url, leaves[1:256])
    await duty.run()
    await queue(database_url, leaves[256:])
    await duty.run()
    assert await sound(database_url) == leaves
    assert await scalar(database_url, "SELECT count(*) FROM log_queue") == 0
    assert not await duty.due()


async def test_more_than_a_batch_is_taken_in_batches(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sequencing, "BATCH", 100)
    leaves = [part_leaf() for _ in range(1_000)]
    await queue(database_url, leaves)
    assert (await sequencer(database).run())["sequenced"] == 1_000
    assert await sound(database_url) == leaves


async def test_kinds_and_subjects_are_kept_for_finding(database_url: str, database: Database):
    vectors = json.loads((naive_tree.CONTRACT / "vectors.json").read_text())
    kinds = vectors["log_order"]
    await queue(database_url, [vectors["leaves"][kind].encode() for kind in [*kinds, "key"]])
    await sequencer(database).run()
    found = await rows(database_url, "SELECT kind, subject, leaf FROM log_entries ORDER BY idx")
    assert [row["kind"] for row in found] == [*kinds, "key"]
    names = {"part": "p", "purge": "p", "close": "r", "hold": "h", "revoke": "si", "expire": "b"}
    for row in found:
        said = json.loads(row["leaf"]).get(names.get(row["kind"], ""))
        assert (row["subject"] and row["subject"].hex) == said
    root = await scalar(database_url, "SELECT root FROM log_state")
    assert [leaf_hash(row["leaf"]).hex() for row in found[:8]] == vectors["leaf_hashes"]
    assert root == naive_tree.root([leaf_hash(row["leaf"]) for row in found])


async def test_an_id_that_is_committed_late_is_not_passed_over(database_url: str, database: Database):
    late = await asyncpg.connect(database_url)
    transaction = late.transaction()
    await transaction.start()
    held = part_leaf()
    await late.execute("INSERT INTO log_queue (scope_id, leaf) VALUES (gen_random_uuid(), $1)", held)
    first = part_leaf()
    await queue(database_url, [first])
    await sequencer(database).run()
    assert await entries(database_url) == [first]
    await transaction.commit()
    await late.close()
    await sequencer(database).run()
    assert await sound(database_url) == [first, held]


async def test_a_purge_leaf_says_where_its_part_is(database_url: str, database: Database):
    old, new = ids.new_evidence_id(), ids.new_evidence_id()
    await queue(database_url, [part_leaf(), part_leaf(old)])
    await sequencer(database).run()
    await queue(database_url, [part_leaf(new), purge_leaf(new), purge_leaf(old)])
    await sequencer(database).run()
    found = [json.loads(entry) for entry in await sound(database_url)]
    assert [(each["p"], each["of"]) for each in found[3:]] == [(new.hex, 2), (old.hex, 1)]
    assert found[3].keys() == {"k", "of", "p", "t", "v", "w"}
    async with database.connection() as connection:
        assert await log.index_of(connection, new, "purge") == 3
        assert await log.index_of(connection, new, "close") is None


async def test_a_purge_leaf_without_its_part_waits_and_keeps_nobody(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sequencing, "BATCH", 5)
    lost, here = ids.new_evidence_id(), [part_leaf() for _ in range(12)]
    await queue(database_url, [purge_leaf(lost)] * 11)
    too_long = leaf("key", op="add", t=1, u="v" * 65_535)
    await queue(database_url, [b"no leaf", b'{"k":"part","t":1,"v":1}', too_long])
    await queue(database_url, here)
    counts = await sequencer(database).run()
    assert counts == {"sequenced": 12, "waiting": 14, "stands_still": 0}
    assert await sound(database_url) == here
    await queue(database_url, [part_leaf(lost)])
    assert (await sequencer(database).run())["waiting"] == 3
    assert len(await sound(database_url)) == 12 + 1 + 11
    assert await scalar(database_url, "SELECT count(*) FROM log_queue") == 3


async def test_two_at_once_give_no_index_twice_and_none_to_nobody(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sequencing, "BATCH", 50)
    leaves = [part_leaf() for _ in range(2_000)]

    async def write() -> None:
        for at in range(0, 2_000, 40):
            await queue(database_url, leaves[at : at + 40])

    async def take() -> int:
        taken = 0
        for _ in range(20):
            taken += (await sequencer(database).run())["sequenced"]
            await asyncio.sleep(0.01)
        return taken

    _, *taken = await asyncio.gather(write(), take(), take(), take())
    taken.append((await sequencer(database).run())["sequenced"])
    assert sum(taken) == 2_000
    assert await sound(database_url) == leaves


@pytest.mark.parametrize("point", ["take_queue", "indexes_of", "append", "append_tiles", "advance"])
async def test_whoever_dies_in_between_has_done_nothing(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch, point: str
):
    class Died(BaseException):
        pass

    evidence = ids.new_evidence_id()
    leaves = [part_leaf() for _ in range(300)] + [part_leaf(evidence), purge_leaf(evidence)]
    await queue(database_url, leaves)
    done = getattr(log, point)

    async def dies(*arguments, **named):
        await done(*arguments, **named)
        raise Died

    monkeypatch.setattr(log, point, dies)
    with pytest.raises(Died):
        await sequencer(database).run()
    monkeypatch.undo()
    assert await entries(database_url) == []
    assert await scalar(database_url, "SELECT count(*) FROM log_queue") == 302
    await sequencer(database).run()
    assert (await sound(database_url))[:-1] == leaves[:-1]


@pytest.mark.parametrize(
    "change",
    [
        "root = sha256('x')",
        "edge[1] = sha256('x')",
        "edge = edge || sha256('x')",
        "open_tiles[1] = sha256('x')",
        "open_tiles = '{}'",
        "size = 4",
    ],
)
async def test_nothing_is_built_on_an_end_that_was_changed(
    database_url: str, database: Database, change: str
):
    await queue(database_url, [part_leaf() for _ in range(3)])
    await sequencer(database).run()
    await execute(database_url, f"UPDATE log_state SET {change}")  # noqa: S608 - a test's own change
    await queue(database_url, [part_leaf()])
    with pytest.raises(Corrupt):
        await sequencer(database).run()
    assert await scalar(database_url, "SELECT count(*) FROM log_queue") == 1


async def test_an_end_that_was_set_back_whole_collides_with_the_entries(
    database_url: str, database: Database
):
    await queue(database_url, [part_leaf()])
    await sequencer(database).run()
    await execute(database_url, "DELETE FROM log_state")
    await execute(database_url, "INSERT INTO log_state DEFAULT VALUES")
    await queue(database_url, [part_leaf()])
    with pytest.raises(RowRefused):
        await sequencer(database).run()
    assert len(await entries(database_url)) == 1


@pytest.mark.parametrize(
    "change",
    [
        *(f"stop = '{word}', stopped_at = now()" for word in ("rolled_back", "forked", "restoring")),
        "compared_at = now() - interval '11 seconds'",
        # Young, but of before a failover, a restore or a restart.
        "compared_at = now(), compared_on = 'elsewhere'",
    ],
)
async def test_it_stands_still_while_the_log_is_stopped_or_not_compared(
    database_url: str, database: Database, change: str
):
    await queue(database_url, [part_leaf()])
    await execute(database_url, f"UPDATE log_state SET {change}")  # noqa: S608 - a test's own change
    assert await sequencer(database).run() == {"sequenced": 0, "waiting": 0, "stands_still": 1}
    assert await entries(database_url) == []
    await execute(
        database_url,
        "UPDATE log_state SET stop = NULL, stopped_at = NULL, compared_at = now(), compared_on = this_database()",
    )
    assert (await sequencer(database).run())["sequenced"] == 1


async def test_it_goes_on_for_as_long_as_it_was_compared_lately(database_url: str, database: Database):
    await queue(database_url, [part_leaf()])
    await execute(database_url, "UPDATE log_state SET compared_at = now() - interval '8 seconds'")
    duty = sequencing.Sequencer(database, timedelta(seconds=7))
    assert (await duty.run())["stands_still"] == 1
    assert (await sequencer(database).run())["sequenced"] == 1


PLANS = {
    "take_queue": (["bigint", "bigint", "integer"], ["4000", "5000", "100"], {"log_queue_pkey"}),
    "entries_from": (["bigint", "bigint"], ["5000", "5100"], {"log_entries_pkey"}),
    "indexes_of": (["uuid[]", "text"], ["ARRAY[gen_random_uuid()]", "'part'"], {"log_entries_by_subject"}),
    "tiles": (["integer[]", "bigint[]"], ["'{0,0}'", "'{3,9}'"], {"log_tiles_pkey"}),
}


async def test_nothing_is_looked_for_in_the_whole_log(database_url: str):
    owner = await asyncpg.connect(database_url)
    await owner.execute(
        "INSERT INTO log_entries SELECT i, gen_random_uuid(), 'part', gen_random_uuid(), '{}'"
        " FROM generate_series(0, 9999) AS i"
    )
    await owner.execute(
        "INSERT INTO log_tiles SELECT 0, i, decode(repeat('00', 8192), 'hex') FROM generate_series(0, 999) i"
    )
    await owner.execute(
        "INSERT INTO log_queue (scope_id, leaf) SELECT gen_random_uuid(), '{}' FROM generate_series(0, 9999)"
    )
    await owner.execute("ANALYZE log_entries, log_tiles, log_queue")
    await owner.execute("SET plan_cache_mode = force_generic_plan")
    for name, (types, values, indexes) in PLANS.items():
        await owner.execute(f"PREPARE {name} ({', '.join(types)}) AS {load('log')[name]}")
        rows_of = await owner.fetch(f"EXPLAIN (COSTS OFF) EXECUTE {name} ({', '.join(values)})")
        plan = "\n".join(row[0] for row in rows_of)
        assert "Seq Scan" not in plan, plan
        assert all(index in plan for index in indexes), plan
    await owner.close()
