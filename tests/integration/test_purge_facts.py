"""Facts go with their run: erased, over, or held no longer; and no erasure is purged before they are gone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from store.commitments import lookup_hash
from store.db import SERVICE_ROLE, Connection
from store.queue import Queue
from store.services.erasures import Erasures, WholeRun, WholeSubject
from store.services.holds import Holds, OnPart, OnRun, OnScope
from store.services.purge import Purge
from store.tables import facts as table
from store.tables import purging
from tests.support import factories
from tests.support.factories import House, Run, evidence_of
from tests.support.facts import classic
from tests.support.publication import publish_at_once


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        await publish_at_once(database_url)
        yield made


@pytest.fixture
def purge(house: House, queue: Queue) -> Purge:
    return Purge(house.duties, house.keyring, queue, grace_s=0.0)


@pytest.fixture
def erasures(house: House, queue: Queue) -> Erasures:
    return Erasures(house.database, house.keyring, queue)


async def told(house: House, run: Run) -> Run:
    """Have the facts of a chain written."""
    await house.persister().persist([house.fact(run, each) for each in classic()])
    return run


async def left(house: House) -> tuple[int, int]:
    return await house.count("facts"), await house.count("fact_runs")


async def over(house: House, run: Run) -> None:
    """The retention of a run ended a moment ago."""
    await house.execute("UPDATE runs SET retain_until = now() WHERE run_uid = $1", run.run_uid)


async def test_they_go_when_the_retention_ends_and_not_before(house: House, purge: Purge) -> None:
    run, other = await told(house, await house.declare()), await told(house, await house.declare())
    assert (await purge.run())["facts"] == 0
    await over(house, run)
    assert (await purge.run())["facts"] == 9
    assert await left(house) == (9, 1)
    assert await house.value("SELECT DISTINCT run_uid FROM facts") == other.run_uid
    assert (await purge.run())["facts"] == 0


async def test_an_erased_run_s_go_before_it_is_answered_as_purged(
    house: House, purge: Purge, erasures: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await told(house, await house.declare())
    asked = await erasures.ask(run.scope, WholeRun(run.run), "op")
    assert await purge.due()

    async def nothing(*_: object) -> int:
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(table, "end", nothing)
        await purge.run()
        assert (await erasures.one(run.scope, asked.erasure_id)).state == "purging"
    assert await left(house) == (9, 1)
    assert (await purge.run())["facts"] == 9
    assert await left(house) == (0, 0)
    assert (await erasures.one(run.scope, asked.erasure_id)).state == "purged"


async def test_those_of_an_erased_subject_go_in_all_its_runs(
    house: House, purge: Purge, erasures: Erasures
) -> None:
    runs = [await told(house, await house.declare()) for _ in range(3)]
    named = await _subject(house, erasures, runs[:2])
    await purge.run()
    assert await house.value("SELECT array_agg(DISTINCT run_uid) FROM facts") == [runs[2].run_uid]
    assert (await erasures.one(house.scope, named)).state == "purged"


async def _subject(house: House, erasures: Erasures, runs: list[Run]) -> UUID:
    mark = lookup_hash(house.keyring.token_key("lookup"), "subject", house.scope, b"somebody")
    await house.execute(
        "UPDATE runs SET subject = $1 WHERE run_uid = ANY($2)", mark, [run.run_uid for run in runs]
    )
    return (await erasures.ask(house.scope, WholeSubject("somebody"), "op")).erasure_id


@pytest.mark.parametrize("reach", ["run", "scope"])
async def test_what_is_held_stays_and_goes_when_the_hold_ends(
    reach: str, house: House, purge: Purge, erasures: Erasures
) -> None:
    run = await told(house, await house.declare())
    on = OnRun(run.run) if reach == "run" else OnScope()
    hold = await Holds(house.database).place(run.scope, on, "matter 7", "op")
    asked = await erasures.ask(run.scope, WholeRun(run.run), "op")
    await over(house, run)
    assert (await purge.run())["facts"] == 0
    erasure = await erasures.one(run.scope, asked.erasure_id)
    assert (erasure.state, erasure.waits_for) == ("deferred", "hold")

    await Holds(house.database).release(run.scope, hold.hold_id, "op")
    await purge.run()
    assert await left(house) == (0, 0)
    assert (await erasures.one(run.scope, asked.erasure_id)).state == "purged"


async def test_a_hold_on_one_part_keeps_no_facts(house: House, purge: Purge) -> None:
    run = await told(house, await house.declare())
    part = house.part(run, b"content")
    await house.persister().persist([part])
    await Holds(house.database).place(run.scope, OnPart(evidence_of(part)), "matter 7", "op")
    await over(house, run)
    assert (await purge.run())["facts"] == 9


async def test_the_database_itself_keeps_what_is_not_over_whoever_asks(house: House) -> None:
    run = await told(house, await house.declare())
    async with house.duties.transaction() as connection:
        assert await table.end(connection, run.scope, run.run_uid) == 0
    await over(house, run)
    await Holds(house.database).place(run.scope, OnRun(run.run), "matter 7", "op")
    async with house.duties.transaction() as connection:
        assert await table.end(connection, run.scope, run.run_uid) == 0
    assert await left(house) == (9, 1)


async def test_a_writer_that_has_the_run_is_left_alone_and_its_facts_go_the_next_time(
    house: House, purge: Purge
) -> None:
    run = await told(house, await house.declare())
    await over(house, run)
    async with house.database.transaction() as connection:
        await purging.lock_run(connection, run.scope, run.run_uid, wait=True)
        assert (await purge.run())["facts"] == 0
    assert (await purge.run())["facts"] == 9


async def test_what_comes_after_the_erasure_is_refused_and_leaves_nothing(
    house: House, purge: Purge, erasures: Erasures
) -> None:
    run = await house.declare()
    late = [house.fact(run, each) for each in classic()]
    await erasures.ask(run.scope, WholeRun(run.run), "op")
    done = await house.persister().persist(late)
    assert {each.outcome for each in done.settlements} == {"refused"}
    await purge.run()
    assert await left(house) == (0, 0)


async def test_many_runs_go_a_few_at_a_time_until_none_is_left(
    house: House, purge: Purge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.services.ending_facts._RUNS", 2)
    for _ in range(5):
        await over(house, await told(house, await house.declare()))
    assert (await purge.run())["facts"] == 45
    assert await left(house) == (0, 0)


async def test_those_of_a_run_that_somebody_else_has_keep_no_others_waiting(
    house: House, purge: Purge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.services.ending_facts._RUNS", 1)
    runs = [await told(house, await house.declare()) for _ in range(3)]
    for run in runs:
        await over(house, run)
    async with house.database.transaction() as connection:
        await purging.lock_run(connection, runs[0].scope, runs[0].run_uid, wait=True)
        assert (await purge.run())["facts"] == 18
    assert (await purge.run())["facts"] == 9


async def test_held_runs_are_asked_about_once_however_much_else_is_destroyed(
    house: House, purge: Purge, erasures: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, erased = await told(house, await house.declare()), await told(house, await house.declare())
    await house.persister().persist([house.part(erased, b"content", exchange=f"x-{n}") for n in range(5)])
    await Holds(house.database).place(held.scope, OnRun(held.run), "matter 7", "op")
    await over(house, held)
    await erasures.ask(erased.scope, WholeRun(erased.run), "op")
    monkeypatch.setattr("store.services.purge._TARGETS", 1)
    asked: list[UUID] = []
    over_by_then = table.over

    async def counted(connection: Connection, scope: UUID, *more: Any) -> list[table.Over]:
        asked.append(scope)
        return await over_by_then(connection, scope, *more)

    monkeypatch.setattr(table, "over", counted)
    done = await purge.run()
    assert (done["erased"], done["facts"]) == (5, 9)
    assert asked == [house.scope]
    assert await left(house) == (9, 1)


async def test_erased_and_ended_runs_are_met_once_each_in_whatever_batches(
    house: House, purge: Purge, erasures: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.services.ending_facts._RUNS", 2)
    runs = [await told(house, await house.declare()) for _ in range(6)]
    await _subject(house, erasures, runs[:3])
    # These end at the very same instant.
    await house.execute("UPDATE runs SET retain_until = now() WHERE NOT erased")
    kept = runs[0], runs[4]
    for run in kept:
        await Holds(house.database).place(run.scope, OnRun(run.run), "matter 7", "op")
    assert (await purge.run())["facts"] == 36
    rows = await house.rows("SELECT DISTINCT run_uid FROM facts")
    assert {row["run_uid"] for row in rows} == {run.run_uid for run in kept}


async def test_a_clock_that_went_back_ends_no_facts_but_erased_ones(
    house: House, purge: Purge, erasures: Erasures
) -> None:
    await purge.run()
    expired, erased = await told(house, await house.declare()), await told(house, await house.declare())
    await over(house, expired)
    await erasures.ask(erased.scope, WholeRun(erased.run), "op")
    await house.execute("UPDATE leases SET seen_at = now() + interval '1 hour'")
    assert (await purge.run())["facts"] == 9
    assert await house.value("SELECT DISTINCT run_uid FROM facts") == expired.run_uid


async def test_the_service_s_role_ends_none(house: House) -> None:
    assert (
        await house.value(
            "SELECT has_function_privilege($1, 'end_facts(uuid, uuid)', 'execute')", SERVICE_ROLE
        )
        is False
    )
    assert await house.value("SELECT has_table_privilege($1, 'facts', 'delete')", SERVICE_ROLE) is False
