"""What the page of one run asks for: every attempt once and in order however it is paged, and counts that add up."""

import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from policies.kinds import Role
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store.services.paging import Asked, Pager, Reader
from store.services.run_maps import STRETCHES, MapAttempt, RunMaps
from store.services.run_reads import RunReads
from store.tables import run_pages, sessions
from tests.support import factories
from tests.support.factories import House, Run

ATTEMPTS = 23
LIMIT = 5


@pytest.fixture
async def house(database_url: str, keys_dir: Path) -> AsyncIterator[House]:
    async with factories.house(database_url, keys_dir) as made:
        yield made


def maps(house: House) -> RunMaps:
    return RunMaps(house.database, Pager(lambda: b"k" * 32), house.keyring)


def reader(house: House) -> Reader:
    return Reader(house.scope, "key", Role.REVIEWER, frozenset())  # type: ignore[arg-type] # a scope's id


async def filled(house: House) -> Run:
    """A run whose attempts were received in threes at one instant, of which the last ones were missed only."""
    run = await house.declare()
    began = datetime.now(UTC) - timedelta(hours=1)
    entries = [
        house.part(
            run,
            b"{}",
            exchange=f"x-{number % 7}",
            attempt=f"a-{number}",
            received_at=began + timedelta(minutes=number // 3),
        )
        for number in range(ATTEMPTS - 3)
    ]
    entries += [
        house.gap(
            run, Reason.CLIENT_TRANSPORT, identity=(f"x-{number % 7}", f"a-{number}", factories.REQUEST)
        )
        for number in range(ATTEMPTS - 3, ATTEMPTS)
    ]
    await house.persister().persist(entries)
    return run


def named(attempts: Sequence[MapAttempt]) -> list[str]:
    return [each.attempt for each in attempts]


async def test_pages_of_a_run_hold_every_attempt_once_forth_and_back(house: House):
    run = await filled(house)
    book, who = maps(house), reader(house)
    whole = await book.of_run(who, run.run, Asked(limit=200))
    assert sorted(named(whole.attempts)) == sorted(f"a-{number}" for number in range(ATTEMPTS))
    assert [each.first_at for each in whole.attempts] == sorted(each.first_at for each in whole.attempts)
    forth, cursor, pages = [], None, []
    while True:
        page = await book.of_run(who, run.run, Asked(limit=LIMIT, cursor=cursor))
        pages.append(page)
        forth += named(page.attempts)
        cursor = page.ways.next
        if cursor is None:
            break
    assert forth == named(whole.attempts)
    assert pages[0].ways.previous is None
    back, cursor = named(pages[-1].attempts), pages[-1].ways.previous
    while cursor is not None:
        page = await book.of_run(who, run.run, Asked(limit=LIMIT, cursor=cursor), back=True)
        back = named(page.attempts) + back
        cursor = page.ways.previous
    assert back == forth


async def test_every_page_says_how_far_the_whole_run_reaches_and_how_it_stands_in_time(house: House):
    run = await filled(house)
    book, who = maps(house), reader(house)
    whole = await book.of_run(who, run.run, Asked(limit=200))
    assert whole.whole == []
    assert (whole.extent.attempts, whole.extent.exchanges) == (ATTEMPTS, 7)
    assert whole.extent.first_at == whole.attempts[0].first_at
    assert whole.extent.last_at == max(each.first_at for each in whole.attempts)
    first = await book.of_run(who, run.run, Asked(limit=LIMIT))
    later = await book.of_run(who, run.run, Asked(limit=LIMIT, cursor=first.ways.next))
    for page in (first, later):
        assert page.extent == whole.extent
        assert len(page.whole) == STRETCHES
        assert sum(sum(each.parts.values()) for each in page.whole) == ATTEMPTS - 3
        assert sum(sum(each.missed.values()) for each in page.whole) == 3
        # The first came in the first stretch, and the last of all in the last one.
        assert page.whole[0].parts
        assert page.whole[-1].missed


async def test_a_run_of_one_instant_is_one_stretch(house: House):
    run, at = await house.declare(), datetime.now(UTC)
    await house.persister().persist(
        [house.part(run, b"{}", exchange=f"x-{number}", received_at=at) for number in range(LIMIT + 1)]
    )
    found = await maps(house).of_run(reader(house), run.run, Asked(limit=LIMIT))
    assert [sum(each.parts.values()) for each in found.whole] == [LIMIT + 1] + [0] * (STRETCHES - 1)


async def test_an_empty_run_has_no_extent(house: House):
    run = await house.declare()
    found = await maps(house).of_run(reader(house), run.run, Asked(limit=LIMIT))
    assert (found.attempts, found.whole, found.extent.first_at, found.extent.attempts) == ([], [], None, 0)


async def test_pages_of_an_exchange_hold_its_attempts_alone(house: House):
    run = await filled(house)
    book, who = maps(house), reader(house)
    whole = await book.of_exchange(who, run.run, "x-2", Asked(limit=200))
    assert set(named(whole.attempts)) == {f"a-{number}" for number in range(2, ATTEMPTS, 7)}
    first = await book.of_exchange(who, run.run, "x-2", Asked(limit=2))
    rest = await book.of_exchange(who, run.run, "x-2", Asked(limit=2, cursor=first.ways.next))
    assert named(first.attempts) + named(rest.attempts) == named(whole.attempts)
    again = await book.of_exchange(who, run.run, "x-2", Asked(limit=2, cursor=rest.ways.previous), back=True)
    assert named(again.attempts) == named(first.attempts)
    assert [each.before for each in (whole, first, rest, again)] == [0, 0, 2, 0]
    none = await book.of_exchange(who, run.run, "x-none", Asked(limit=2))
    assert (none.attempts, none.before) == ([], 0)


async def test_an_attempt_stands_where_the_page_of_its_exchange_has_it(house: House):
    run, at = await house.declare(), datetime.now(UTC) - timedelta(hours=1)
    # All at one instant but the last, which was missed then, and stored once it was sent again.
    entries = [house.part(run, b"{}", exchange="x", attempt=f"a-{n}", received_at=at) for n in range(6)]
    late = house.part(run, b"{}", exchange="x", attempt="a-late")
    gap = house.gap(run, Reason.CLIENT_TRANSPORT, identity=("x", "a-late", factories.REQUEST), at=at)
    await house.persister().persist([*entries, gap])
    await house.persister().persist([late, house.state(run, exchange="x-2")])
    names = named((await maps(house).of_exchange(reader(house), run.run, "x", Asked(limit=200))).attempts)
    assert names[-1] == "a-late"
    reads = RunReads(house.database, Pager(lambda: b"k" * 32), house.keyring, examined=200)
    found = [await reads.attempt_among(reader(house), run.run, "x", name) for name in names]
    assert [each and (each.place, each.count) for each in found] == [(n, 7) for n in range(1, 8)]
    assert [each and each.previous for each in found] == [None, *names[:-1]]
    assert [each and each.next for each in found] == [*names[1:], None]
    assert await reads.attempt_among(reader(house), run.run, "x", None) == found[-1]
    for exchange, attempt in (("x", "a-none"), ("x-none", None), ("x-2", "a-1")):
        assert await reads.attempt_among(reader(house), run.run, exchange, attempt) is None
    assert await reads.attempt_among(reader(house), "no-run", "x", None) is None


async def test_numbers_of_sessions_are_those_that_were_stored_whatever_their_bits(house: House):
    run, chance = await house.declare(), random.Random(7)
    stored = {
        "edges": {1, 63, 64, 65, 127, 128, 2**53 - 1},
        "whole": set(range(1, 129)),
        "some": set(chance.sample(range(1, 2_000), 150)),
    }
    entries = [
        house.part(run, b"{}", exchange=f"{session}-{number}", session=session, sequence=number)
        for session, numbers in stored.items()
        for number in numbers
    ]
    entries += [
        house.part(run, b"{}", exchange="none"),
        house.part(run, b"{}", exchange="unnumbered", session="edges"),
    ]
    await house.persister().persist(entries)
    async with house.database.connection() as connection:
        found = await run_pages.numbered_parts(connection, run.scope, run.run_uid)
        by_ranges = await sessions.stored_numbers(connection, run.scope, run.run_uid)
    expected = {
        session: SequenceSet.of((number, number + 1) for number in numbers)
        for session, numbers in stored.items()
    }
    assert found.sessions == expected == by_ranges
    assert (found.parts, found.unnumbered) == (len(entries), 2)
