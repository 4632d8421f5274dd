"""Facts, as the writer writes them: once each, as many as a run may have, and only of runs that keep any."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from policies.reasons import Reason
from store.queue import Entry, FactHeader
from store.services.persist import Persister
from store.services.write_batch import BatchWriter
from store.tables import runs
from tests.support import factories
from tests.support.factories import MOST_BYTES, House, Run
from tests.support.facts import classic, coverage, delivery, seen, stage, surface


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


def bounded(house: House, most: int) -> Persister:
    return Persister(house.database, house.keyring, most_bytes=MOST_BYTES, most_facts=most)


async def outcomes(persister: Persister, entries: Sequence[Entry]) -> list[tuple[str, Reason | None]]:
    """What became of each entry, in their order."""
    done = await persister.persist(entries)
    assert (done.waiting, done.faulty) == ([], [])
    found = {each.entry_id: (each.outcome, each.reason) for each in done.settlements}
    assert len(done.settlements) == len(entries)
    return [found[entry.id] for entry in entries]


async def kept(house: House, run: Run) -> dict[str, Any]:
    rows = await house.rows("SELECT kept, is_full, ends_at FROM fact_runs WHERE run_uid = $1", run.run_uid)
    return rows[0] if rows else {}


async def test_each_type_is_written_with_what_is_asked_by(house: House) -> None:
    run = await house.declare()
    told = [
        stage("a-1", "execution", "started", execution=1), seen("x-1", "a-1"), seen("x-2", None, link="unknown"),
        surface("x-1"), coverage("file-1", 10, action="a-2"), delivery("report", "met"),
    ]  # fmt: skip
    entries = [house.fact(run, each) for each in told]
    assert set(await outcomes(house.persister(), entries)) == {("noted", None)}

    rows = await house.rows(
        "SELECT fact, type, action, exchange, at, fact_uid, body FROM facts ORDER BY fact_uid"
    )
    assert [(row["type"], row["action"], row["exchange"]) for row in rows] == [
        ("stage", "a-1", None), ("occurrence", "a-1", "x-1"), ("occurrence", None, "x-2"), ("surface", None, "x-1"),
        ("coverage", "a-2", None), ("delivery", None, None),
    ]  # fmt: skip
    for row, each in zip(rows, told, strict=True):
        assert msgspec.json.decode(row["body"]) == each
        assert row["at"].isoformat() == "2026-11-30T08:15:00+00:00"
    assert await kept(house, run) == {"kept": 6, "is_full": False, "ends_at": run.retain_until}


@pytest.mark.parametrize("together", [True, False])
async def test_told_again_the_first_stays(house: House, together: bool) -> None:
    run, persister = await house.declare(), house.persister()
    first = house.fact(run, stage("a-1", "execution", "started", execution=1))
    again = house.fact(run, {**stage("a-1", "execution", "started", execution=1), "tool": "another"})
    for batch in [[first, again]] if together else [[first], [again], [first]]:
        assert set(await outcomes(persister, batch)) == {("noted", None)}
    (row,) = await house.rows("SELECT body FROM facts")
    assert msgspec.json.decode(row["body"])["tool"] == "read_table"
    assert (await kept(house, run))["kept"] == 1


async def test_one_name_in_two_runs_is_two_facts(house: House) -> None:
    runs = [await house.declare(), await house.declare()]
    told = stage("a-1", "execution", "started")
    await outcomes(house.persister(), [house.fact(run, told) for run in runs])
    assert await house.count("facts") == 2


async def test_a_run_keeps_as_many_as_it_may_and_says_that_it_is_full(house: House) -> None:
    run, other, persister = await house.declare(), await house.declare(), bounded(house, 3)
    entries = [house.fact(run, stage("a-1", "execution", "started", execution=n)) for n in range(1, 6)]
    more = house.fact(other, stage("a-1", "execution", "started"))
    found = await outcomes(persister, [*entries, more])
    full = ("refused", Reason.CAPACITY_EXCEEDED)
    assert found == [*[("noted", None)] * 3, full, full, ("noted", None)]
    assert await kept(house, run) == {"kept": 3, "is_full": True, "ends_at": run.retain_until}
    assert (await kept(house, other))["is_full"] is False
    # What it has is still told again without harm.
    assert await outcomes(persister, [entries[3], entries[0]]) == [full, ("noted", None)]
    assert await house.count("facts") == 4


async def test_writers_of_one_run_s_facts_do_not_write_more_than_it_may_have(house: House) -> None:
    run = await house.declare()
    batches = [
        [
            house.fact(run, stage(f"a-{n % 7}", "execution", "started", execution=n))
            for n in range(at, at + 12)
        ]
        for at in range(1, 60, 6)
    ]
    done = await asyncio.gather(*(bounded(house, 40).persist(batch) for batch in batches))
    noted = sum(each.outcome == "noted" for one in done for each in one.settlements)
    assert await house.count("facts") == 40
    assert await kept(house, run) == {"kept": 40, "is_full": True, "ends_at": run.retain_until}
    assert noted >= 40


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"mode": "temporary"}, Reason.TEMPORARY_MODE),
        ({"content": "opt_out"}, Reason.CONTENT_OPT_OUT),
        ({"sampled": False}, Reason.NOT_SAMPLED),
        ({"keep": timedelta(seconds=-1)}, Reason.RETENTION_EXPIRED),
    ],
)
async def test_a_run_that_keeps_no_content_keeps_no_facts(
    house: House, said: dict[str, Any], reason: Reason
) -> None:
    run = await house.declare(**said)
    assert await outcomes(house.persister(), [house.fact(run, each) for each in classic()]) == [
        ("refused", reason)
    ] * len(classic())
    assert await house.count("facts") == await house.count("fact_runs") == 0


async def test_facts_are_a_sign_of_their_run_and_so_are_those_that_are_told_again(house: House) -> None:
    run = await house.declare(keep=timedelta(days=2))
    await house.execute("UPDATE runs SET declared_at = now() - interval '25 hours'")

    async def silent() -> list[str]:
        async with house.duties.connection() as connection:
            due = await runs.never_closed_due(connection, run.scope, 86_400.0, 10)
        return [each.run for each in due]

    assert await silent() == [run.run]
    for _ in range(2):
        await outcomes(house.persister(), [house.fact(run, each) for each in classic()])
        assert await silent() == []
        await house.execute("UPDATE fact_runs SET told_at = now() - interval '25 hours'")
        assert await silent() == [run.run]


async def test_a_run_that_is_erased_or_nowhere_keeps_none_and_its_neighbours_do(house: House) -> None:
    erased, known, gone = await house.declare(), await house.declare(), await house.declare()
    await house.narrow(erased, erased=True)
    await house.execute("DELETE FROM runs WHERE run_uid = $1", gone.run_uid)
    told = stage("a-1", "execution", "started")
    assert await outcomes(house.persister(), [house.fact(run, told) for run in (erased, gone, known)]) == [
        ("refused", Reason.ERASED),
        ("refused", Reason.RUN_NOT_ADMITTED),
        ("noted", None),
    ]


async def test_facts_and_parts_of_a_closed_run_are_written_when_they_were_taken_before(house: House) -> None:
    run = await house.declare()
    entries = [house.part(run, b"content"), house.fact(run, stage("a-1", "execution", "started"))]
    await house.narrow(run, state="closing")
    await house.execute("UPDATE runs SET state = 'closed', closed_at = now() WHERE run_uid = $1", run.run_uid)
    assert {outcome for outcome, _ in await outcomes(house.persister(), entries)} == {"stored", "noted"}


async def test_one_that_cannot_be_read_takes_no_other_with_it_and_leaves_no_gap(house: House) -> None:
    run = await house.declare()
    good = house.fact(run, stage("a-1", "execution", "started"), deliveries=3)
    header = good.header
    assert isinstance(header, FactHeader)
    bad = msgspec.structs.replace(
        good, id="1-999", header=msgspec.structs.replace(header, body=b'{"type":"verse"}')
    )
    written = await BatchWriter(house.persister(), max_deliveries=3).write([bad, good])
    assert {each.entry_id: (each.outcome, each.reason) for each in written.settlements} == {
        good.id: ("noted", None),
        bad.id: ("refused", Reason.WRITE_FAILED),
    }
    assert (await house.count("facts"), await house.count("gaps")) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "ends"),
    [({"erased": True}, "-infinity"), ({"retain_until": None}, None)],
)
async def test_whoever_narrows_a_run_says_when_its_facts_end(
    house: House, changes: dict[str, Any], ends: str | None
) -> None:
    run = await house.declare()
    await outcomes(house.persister(), [house.fact(run, stage("a-1", "execution", "started"))])
    sooner = run.retain_until - timedelta(hours=1)
    await house.narrow(run, **{name: sooner if value is None else value for name, value in changes.items()})
    assert await house.value(
        "SELECT ends_at::text = coalesce($1, $2::timestamptz::text) FROM fact_runs", ends, sooner
    )
