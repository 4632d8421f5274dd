"""What runtimes say of attempts: forward only, the first word stays, a contradiction is kept."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from policies.reasons import Reason
from tests.support import factories
from tests.support.factories import House, Run


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


async def attempt(house: House) -> dict[str, Any]:
    (row,) = await house.rows(
        "SELECT dispatch, settlement, dispatch_conflict, settlement_conflict, refs FROM attempts"
    )
    return row


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("words", "stays", "conflict"),
    [
        (["completed"], "completed", None),
        (["unknown", "completed"], "completed", None),
        (["completed", "unknown"], "completed", None),
        (["completed", "completed"], "completed", None),
        (["completed", "failed"], "completed", "failed"),
        (["completed", "failed", "cancelled"], "completed", "failed"),
        (["completed", "failed", "completed"], "completed", "failed"),
        (["unknown", "failed", "completed"], "failed", "completed"),
    ],
)
async def test_the_first_word_stays(
    house: House, words: list[str], stays: str, conflict: str | None, together: bool
) -> None:
    run, persister = await house.declare(), house.persister()
    entries = [house.state(run, settlement=word) for word in words]
    for batch in [entries] if together else [[entry] for entry in entries]:
        done = await persister.persist(batch)
        assert {each.outcome for each in done.settlements} == {"noted"}

    row = await attempt(house)
    assert (row["settlement"], row["settlement_conflict"]) == (stays, conflict)
    assert (row["dispatch"], row["dispatch_conflict"]) == ("unknown", None)


async def test_parts_tell_too_and_what_says_nothing_leaves_no_row(house: House) -> None:
    run, persister = await house.declare(), house.persister()
    await persister.persist([house.part(run, b"silent")])
    assert await house.count("attempts") == 0

    told = house.part(run, b"telling", exchange="told", dispatch="dispatched", settlement="failed")
    await persister.persist([told, house.state(run, exchange="told", dispatch="not_dispatched")])

    row = await attempt(house)
    assert (row["dispatch"], row["dispatch_conflict"], row["settlement"]) == (
        "dispatched",
        "not_dispatched",
        "failed",
    )


async def test_a_part_that_is_refused_tells_nothing(house: House) -> None:
    run = await house.declare(content="opt_out")

    await house.persister().persist([house.part(run, b"content", dispatch="dispatched")])

    assert await house.count("attempts") == 0


@pytest.mark.parametrize("together", [True, False])
async def test_references_are_a_union_of_at_most_four(house: House, together: bool) -> None:
    run, persister = await house.declare(), house.persister()
    refs = [bytes([n]) * 32 for n in range(6)]
    entries = [
        house.state(run, refs=refs[:2]),
        house.state(run, refs=refs[1:3]),
        house.state(run, refs=refs[3:]),
    ]
    for batch in [entries] if together else [[entry] for entry in entries]:
        await persister.persist(batch)

    assert (await attempt(house))["refs"] == refs[:4]


async def test_a_second_delivery_changes_nothing(house: House) -> None:
    run, persister = await house.declare(), house.persister()
    entries = [
        house.state(run, dispatch="dispatched", refs=[b"\x01" * 32]), house.state(run, settlement="failed"),
        house.state(run, settlement="completed"),
    ]  # fmt: skip
    await persister.persist(entries)
    before = await house.rows("SELECT * FROM attempts")

    await persister.persist(entries)

    assert await house.rows("SELECT * FROM attempts") == before


async def test_of_a_temporary_run_nothing_is_kept(house: House) -> None:
    run = await house.declare(mode="temporary")

    done = await house.persister().persist([house.state(run, dispatch="dispatched")])

    assert [each.outcome for each in done.settlements] == ["noted"]
    assert await house.count("attempts") == 0


async def test_of_a_run_that_nobody_declared_it_is_refused(house: House) -> None:
    run = await house.declare()
    unknown = Run(run.scope, "nobody", run.scope, run.retain_until)

    done = await house.persister().persist([house.state(unknown, dispatch="dispatched")])

    assert [(each.outcome, each.reason) for each in done.settlements] == [
        ("refused", Reason.RUN_NOT_ADMITTED)
    ]
