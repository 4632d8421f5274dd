"""The re-check before the write: what was narrowed, revoked or erased since the capture."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from policies.reasons import Reason
from store.commitments import Identity
from store.queue import Entry
from store.services import marks
from store.tables import tombstones
from tests.support import factories
from tests.support.factories import OUTPUT, REQUEST, House, Run, evidence_of


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


async def refused(house: House, entry: Entry) -> Reason | None:
    done = await house.persister().persist([entry])
    (settlement,) = done.settlements
    assert settlement.outcome == "refused"
    assert await house.count("bodies") == 0
    return settlement.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"erased": True}, Reason.ERASED),
        ({"mode": "temporary"}, Reason.TEMPORARY_MODE),
        ({"content": "opt_out"}, Reason.CONTENT_OPT_OUT),
        ({"sampled": False}, Reason.NOT_SAMPLED),
        ({"kinds": [OUTPUT]}, Reason.KIND_NOT_ADMITTED),
        # The strictest of several is said.
        ({"erased": True, "content": "opt_out"}, Reason.ERASED),
    ],
)
async def test_a_run_narrowed_after_the_capture(
    house: House, changes: dict[str, Any], reason: Reason
) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    await house.narrow(run, **changes)

    assert await refused(house, entry) is reason


async def test_a_run_whose_retention_ended_meanwhile(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    await house.execute("UPDATE runs SET retain_until = now()")

    assert await refused(house, entry) is Reason.RETENTION_EXPIRED


async def test_a_run_that_was_closed_still_gets_what_was_accepted_before(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    await house.execute("UPDATE runs SET state = 'closed', closed_at = now()")

    done = await house.persister().persist([entry])

    assert [each.outcome for each in done.settlements] == ["stored"]


async def test_a_run_that_nobody_declared_leaves_no_gap(house: House) -> None:
    run = await house.declare()
    unknown = Run(run.scope, "nobody", run.scope, run.retain_until)

    assert await refused(house, house.part(unknown, b"content")) is Reason.RUN_NOT_ADMITTED
    assert await house.count("gaps") == 0


async def test_the_name_of_another_run_does_not_get_in_under_its_id(house: House) -> None:
    run = await house.declare("mine")
    posing = Run(run.scope, "other", run.run_uid, run.retain_until)

    assert await refused(house, house.part(posing, b"content")) is Reason.RUN_NOT_ADMITTED


async def test_a_bucket_that_expired_is_gone_whatever_the_clock_says(house: House) -> None:
    run = await house.declare()
    await house.execute("UPDATE buckets SET state = 'expired', expired_at = now()")

    assert await refused(house, house.part(run, b"content")) is Reason.RETENTION_EXPIRED


@pytest.mark.parametrize("by", ["evidence", "identity"])
@pytest.mark.parametrize("reason", [Reason.ERASED, Reason.RETENTION_EXPIRED])
async def test_a_tombstone_keeps_a_late_write_out(house: House, by: str, reason: Reason) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    key = house.keyring.token_key("lookup")
    identity = Identity(run.scope, run.run, "exchange-1", "attempt-1", REQUEST)
    mark = (
        marks.evidence_mark(key, run.scope, evidence_of(entry))
        if by == "evidence"
        else marks.identity_mark(key, identity)
    )
    async with house.database.transaction() as connection:
        await tombstones.leave(connection, run.scope, [mark], reason)

    assert await refused(house, entry) is reason


async def test_tombstones_of_another_scope_and_another_part_keep_nothing_out(house: House) -> None:
    run, other = await house.declare(), await house.add_scope()
    entry = house.part(run, b"content")
    mark = marks.evidence_mark(house.keyring.token_key("lookup"), run.scope, evidence_of(entry))
    async with house.database.transaction() as connection:
        await tombstones.leave(connection, other, [mark], Reason.ERASED)

    done = await house.persister().persist([entry])

    assert [each.outcome for each in done.settlements] == ["stored"]


# --- sources


@pytest.mark.parametrize(
    ("sources", "reason"),
    [
        ([("revoked", None)], Reason.SOURCE_REVOKED),
        ([("known", 1), ("revoked", 1)], Reason.SOURCE_REVOKED),
        ([("nobody", None)], Reason.SOURCE_UNKNOWN),
        ([("known", 9)], Reason.SOURCE_UNKNOWN),
        ([("known", 1)], Reason.DEPENDENCY_CHANGED),
    ],
)
async def test_sources_are_asked_again(
    house: House, sources: list[tuple[str, int | None]], reason: Reason
) -> None:
    await house.add_source("known", versions=2)
    await house.add_source("revoked", revoked=True)
    await house.execute(
        "UPDATE source_versions SET withdrawn_at = now() WHERE source = 'known' AND version = 1"
    )
    run = await house.declare()

    assert await refused(house, house.part(run, b"content", sources=sources)) is reason
    assert await house.count("source_sets") == 0


async def test_a_scope_may_allow_unknown_sources(house: House) -> None:
    scope = await house.add_scope({"unknown_sources": "allow"})
    run = await house.declare(scope=scope)

    done = await house.persister().persist([house.part(run, b"content", sources=[("nobody", 3)])])

    assert [each.outcome for each in done.settlements] == ["stored"]
    assert await house.value("SELECT versions FROM source_sets") == [3]


async def test_equal_sets_share_one_row(house: House) -> None:
    await house.add_source("one")
    await house.add_source("two")
    run, persister = await house.declare(), house.persister()
    orders: list[list[tuple[str, int | None]]] = [
        [("one", 1), ("two", None)],
        [("two", None), ("one", 1)],
        [("one", 1)],
    ]

    for n, sources in enumerate(orders):
        await persister.persist([house.part(run, b"content", exchange=f"x-{n}", sources=sources)])

    assert await house.count("source_sets") == 2


# --- one refusal never takes its neighbours with it, and is recorded


async def test_each_part_is_decided_for_itself_and_a_refusal_is_a_gap(house: House) -> None:
    good, bad = await house.declare(), await house.declare()
    entries = [house.part(good, b"good"), house.part(bad, b"bad", session="s", sequence=4)]
    await house.narrow(bad, content="opt_out")

    done = await house.persister().persist(entries)

    assert {each.entry_id: each.outcome for each in done.settlements} == {
        entries[0].id: "stored", entries[1].id: "refused",
    }  # fmt: skip
    rows = await house.rows(
        "SELECT run_uid, said_by, reason, session, sequence, exchange, sequences::text AS sequences, times FROM gaps"
        " ORDER BY exchange NULLS LAST"
    )
    assert [(row["exchange"], row["sequence"], row["sequences"]) for row in rows] == [
        ("exchange-1", 4, None), (None, None, "{[4,5)}"),
    ]  # fmt: skip
    assert {(row["run_uid"], row["said_by"], row["reason"]) for row in rows} == {
        (bad.run_uid, "store", "content_opt_out")
    }


# --- races: whoever narrows waits for the batch, and the batch for whoever narrows


async def test_a_batch_waits_for_a_narrowing_and_sees_it(house: House) -> None:
    run = await house.declare()
    entry = house.part(run, b"content")
    eraser = await asyncpg.connect(house.url)
    try:
        transaction = eraser.transaction()
        await transaction.start()
        await eraser.execute("UPDATE runs SET erased = true")
        writing = asyncio.create_task(house.persister().persist([entry]))
        await _until_somebody_waits(house)
        assert not writing.done()
        await transaction.commit()
        done = await writing
    finally:
        await eraser.close()

    assert [(each.outcome, each.reason) for each in done.settlements] == [("refused", Reason.ERASED)]


async def test_a_batch_waits_for_an_expiring_bucket(house: House) -> None:
    run = await house.declare(keep=timedelta(hours=1))
    entry = house.part(run, b"content")
    expirer = await asyncpg.connect(house.url)
    try:
        transaction = expirer.transaction()
        await transaction.start()
        await expirer.fetch("SELECT 1 FROM buckets FOR UPDATE")
        await expirer.execute("UPDATE buckets SET state = 'expired'")
        writing = asyncio.create_task(house.persister().persist([entry]))
        await _until_somebody_waits(house)
        await transaction.commit()
        done = await writing
    finally:
        await expirer.close()

    assert [(each.outcome, each.reason) for each in done.settlements] == [
        ("refused", Reason.RETENTION_EXPIRED)
    ]


async def test_two_writers_with_the_same_entries_store_them_once(house: House) -> None:
    run = await house.declare()
    entries = [house.part(run, b"content %d" % n, exchange=f"x-{n}") for n in range(40)]

    both = await asyncio.gather(house.persister().persist(entries), house.persister().persist(entries[::-1]))

    for done in both:
        assert [each.outcome for each in done.settlements] == ["stored"] * 40
    assert await house.count("parts") == await house.count("bodies") == await house.count("log_queue") == 40


async def _until_somebody_waits(house: House) -> None:
    for _ in range(200):
        if await house.value("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nobody came to wait")


async def test_a_kind_that_the_scope_no_longer_admits_is_refused_before_the_write(house: House) -> None:
    run = await house.declare()
    await house.execute(
        "UPDATE scopes SET policy = $2 WHERE scope_id = $1", house.scope, '{"kinds": ["observable-output"]}'
    )
    assert await refused(house, house.part(run, b"content")) is Reason.KIND_NOT_ADMITTED
