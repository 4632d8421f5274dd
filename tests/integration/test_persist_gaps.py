"""Gaps: named for reading, numbers as ranges, exact counts of what does not fit."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from policies.reasons import Reason
from store.queue import Entry
from store.services.gap_records import MOST_NAMES, MOST_RANGE_ROWS, MOST_RANGES
from tests.support import factories
from tests.support.factories import REQUEST, House, evidence_of

LOST = Reason.CLIENT_TRANSPORT
FULL = Reason.CAPACITY_EXCEEDED


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


async def ranges(house: House) -> list[dict[str, Any]]:
    return await house.rows(
        "SELECT session, said_by, reason, sequences::text AS sequences, merged FROM gaps WHERE exchange IS NULL"
        " ORDER BY session, said_by, reason"
    )


async def names(house: House) -> list[dict[str, Any]]:
    return await house.rows(
        "SELECT exchange, said_by, reason, session, sequence, times, superseded_by FROM gaps"
        " WHERE exchange IS NOT NULL ORDER BY exchange, said_by, reason"
    )


async def missing(house: House) -> int:
    """How many observations are not there, counted as gap_records says."""
    return int(
        await house.value(
            "SELECT coalesce(sum(coalesce((SELECT sum(upper(r) - lower(r)) FROM unnest(sequences) r), 0) + merged), 0)"
            " + coalesce(sum(times) FILTER (WHERE exchange IS NOT NULL AND sequence IS NULL), 0) FROM gaps"
        )
    )


async def record(house: House, *entries: Entry) -> None:
    done = await house.persister().persist(entries)
    assert [each.outcome for each in done.settlements] == ["noted"] * len(entries)


# --- ranges


async def test_ranges_are_a_union_by_session_speaker_and_reason(house: House) -> None:
    run = await house.declare()
    await record(
        house,
        house.gap(run, LOST, session="s", first=1, last=3),
        house.gap(run, LOST, session="s", first=3, last=5),
        house.gap(run, LOST, session="s", first=9),
        house.gap(run, Reason.CLIENT_SHUTDOWN, session="s", first=6),
        house.gap(run, LOST, session="t", first=1),
    )
    await record(house, house.gap(run, LOST, session="s", first=6, last=8))

    assert [
        (row["session"], row["reason"], row["sequences"], row["merged"]) for row in await ranges(house)
    ] == [
        ("s", "client_shutdown", "{[6,7)}", 0),
        ("s", "client_transport", "{[1,10)}", 0),
        ("t", "client_transport", "{[1,2)}", 0),
    ]


async def test_a_repeat_changes_nothing(house: House) -> None:
    run = await house.declare()
    gap = house.gap(run, LOST, session="s", first=1, last=1_000_000_000)
    await record(house, gap)
    before = await house.rows("SELECT * FROM gaps")

    await record(house, gap)

    assert await house.rows("SELECT * FROM gaps") == before


@pytest.mark.parametrize("together", [True, False])
async def test_beyond_64_ranges_a_session_is_counted_exactly(house: House, together: bool) -> None:
    run = await house.declare()
    entries = [house.gap(run, LOST, session="s", first=2 * n, last=2 * n) for n in range(1, 101)]
    for batch in [entries] if together else [entries[:50], entries[50:]]:
        await record(house, *batch)

    (row,) = await ranges(house)
    assert row["sequences"].count("[") == MOST_RANGES
    assert row["merged"] == 100 - MOST_RANGES
    assert await missing(house) == 100


async def test_the_64_ranges_are_shared_by_the_reasons_of_a_session(house: House) -> None:
    run = await house.declare()
    reasons = (LOST, Reason.CLIENT_QUEUE_FULL)
    await record(house, *(house.gap(run, reasons[n % 2], session="s", first=2 * n) for n in range(1, 101)))
    await record(house, house.gap(run, LOST, session="other", first=1))

    rows = await ranges(house)
    assert sum(row["sequences"].count("[") for row in rows if row["session"] == "s") == MOST_RANGES
    assert [row["sequences"] for row in rows if row["session"] == "other"] == ["{[1,2)}"]
    assert await missing(house) == 101


async def test_a_range_that_fills_a_hole_still_fits_when_there_are_64(house: House) -> None:
    run = await house.declare()
    await record(house, *(house.gap(run, LOST, session="s", first=2 * n) for n in range(1, MOST_RANGES + 1)))

    await record(house, house.gap(run, LOST, session="s", first=3))

    (row,) = await ranges(house)
    assert (row["sequences"].count("["), row["merged"]) == (MOST_RANGES - 1, 0)


async def test_more_sessions_than_a_run_may_have_are_only_counted(house: House) -> None:
    run = await house.declare()
    await record(
        house, *(house.gap(run, LOST, session=f"s-{n}", first=1) for n in range(MOST_RANGE_ROWS + 20))
    )

    assert len(await ranges(house)) == MOST_RANGE_ROWS + 1
    assert await missing(house) == MOST_RANGE_ROWS + 20


# --- names


async def test_names_say_how_often_and_numbers_are_counted_once(house: House) -> None:
    run = await house.declare()
    identity = ("x", "a", REQUEST)
    await record(
        house,
        house.gap(run, FULL, said_by="store", session="s", first=5, identity=identity),
        house.gap(run, FULL, said_by="store", session="s", first=6, identity=identity),
        house.gap(run, FULL, said_by="store", identity=("y", "a", REQUEST)),
    )

    assert [(row["exchange"], row["sequence"], row["times"]) for row in await names(house)] == [
        ("x", 5, 2),
        ("y", None, 1),
    ]
    assert [row["sequences"] for row in await ranges(house)] == ["{[5,7)}"]
    assert await missing(house) == 3


@pytest.mark.parametrize("numbered", [True, False])
async def test_beyond_256_names_a_run_is_counted_exactly(house: House, numbered: bool) -> None:
    run = await house.declare()
    entries = [
        house.gap(
            run, FULL, said_by="store", identity=(f"x-{n:03}", "a", REQUEST),
            session="s" if numbered else None, first=n if numbered else None,
        )
        for n in range(1, 301)
    ]  # fmt: skip
    await record(house, *entries[:200])
    await record(house, *entries[200:])

    assert len(await names(house)) == MOST_NAMES
    assert await missing(house) == 300


async def test_a_name_delivered_again_is_not_counted_again(house: House) -> None:
    run = await house.declare()
    at = datetime.now(UTC)
    said = [(FULL, at), (FULL, at + timedelta(seconds=1))]
    once = [
        house.gap(run, reason, said_by="store", identity=("x", "a", REQUEST), at=when)
        for reason, when in said
    ]
    again = [
        house.gap(run, reason, said_by="store", identity=("x", "a", REQUEST), at=when, deliveries=2)
        for reason, when in said
    ]
    await record(house, *once)

    await record(house, *again)

    assert [row["times"] for row in await names(house)] == [2]


# --- a temporary run leaves counts by reason, nothing else


async def test_of_a_temporary_run_only_counts_stay(house: House) -> None:
    run = await house.declare(mode="temporary")
    done = await house.persister().persist(
        [
            house.gap(run, LOST, session="s", first=1, last=10),
            house.gap(run, LOST, identity=("x", "a", REQUEST)),
            house.part(run, b"content", session="s", sequence=3),
        ]
    )

    assert [each.outcome for each in done.settlements] == ["refused", "noted", "noted"]
    assert await names(house) == []
    assert [(row["session"], row["reason"], row["sequences"], row["merged"]) for row in await ranges(house)] == [
        (None, "client_transport", "{}", 11), (None, "temporary_mode", "{}", 1),
    ]  # fmt: skip


# --- stored after all


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("said_by", ["client", "store"])
async def test_a_later_part_supersedes_its_gap(house: House, together: bool, said_by: str) -> None:
    run, persister = await house.declare(), house.persister()
    reason = LOST if said_by == "client" else FULL
    gap = house.gap(run, reason, said_by=said_by, identity=("x", "a", REQUEST))
    entry = house.part(run, b"content", exchange="x", attempt="a")
    for batch in [[gap, entry]] if together else [[gap], [entry]]:
        await persister.persist(batch)

    assert [row["superseded_by"] for row in await names(house)] == [evidence_of(entry)]


async def test_a_client_s_gap_about_a_stored_part_is_superseded_from_the_start(house: House) -> None:
    run, persister = await house.declare(), house.persister()
    entry = house.part(run, b"content")
    await persister.persist([entry])

    await persister.persist([house.gap(run, LOST, identity=("exchange-1", "attempt-1", REQUEST))])

    assert [row["superseded_by"] for row in await names(house)] == [evidence_of(entry)]


async def test_a_conflict_is_never_superseded(house: House) -> None:
    run, persister = await house.declare(), house.persister()
    conflict = house.gap(
        run, Reason.IDENTITY_CONFLICT, said_by="store", identity=("exchange-1", "attempt-1", REQUEST)
    )

    await persister.persist([conflict])
    await persister.persist([house.part(run, b"content")])

    assert [row["superseded_by"] for row in await names(house)] == [None]


async def test_other_parts_supersede_nothing(house: House) -> None:
    run, persister = await house.declare(), house.persister()
    await persister.persist([house.gap(run, LOST, identity=("x", "a", REQUEST))])

    await persister.persist([house.part(run, b"content", exchange="x", attempt="b")])

    assert [row["superseded_by"] for row in await names(house)] == [None]


# --- who says it


async def test_a_report_that_is_none_is_at_fault(house: House) -> None:
    run = await house.declare()
    wrong = house.gap(run, LOST, said_by="somebody", session="s", first=1)

    done = await house.persister().persist([wrong])

    assert done.faulty == [wrong]


async def test_two_writers_keep_a_run_s_bounds_together(house: House) -> None:
    run = await house.declare()
    batches = [
        [
            house.gap(
                run, LOST, session="s", first=200 * writer + 2 * n, identity=(f"x-{writer}-{n}", "a", REQUEST)
            )
            for n in range(1, 81)
        ]
        for writer in range(4)
    ]

    await asyncio.gather(*(house.persister().persist(batch) for batch in batches))

    (row,) = await ranges(house)
    assert row["sequences"].count("[") == MOST_RANGES
    assert len(await names(house)) == MOST_NAMES
    assert await missing(house) == 320
