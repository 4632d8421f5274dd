"""The desk's page of the queue: now and over time, for operators of the whole store."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.kinds import Role
from policies.reasons import Reason
from store.errors import Unavailable
from store.queue import Queue
from tests.support.api import settings_for
from tests.support.console import Running, console
from tests.support.duties import execute

NOTED = (
    "INSERT INTO queue_depths (minute, parts, notes, bytes_class, oldest_s, counts, queue)"
    " SELECT date_trunc('minute', now(), 'UTC') - n * interval '1 minute', 5, 1, 1048576, 0.5,"
    " jsonb_build_object('capacity_exceeded', 900 - 2 * n), 'q' FROM generate_series($1::int, $2::int) AS n"
)


@pytest.fixture
async def running(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Running]:
    async with console(settings_for(database_url, redis_url, keys_dir)) as opened:
        yield opened


async def page_of(running: Running, path: str = "/desk/queue?window=1h") -> str:
    """The page, as an operator of the whole store gets it."""
    answer = await (await running.signed_in(Role.OPERATOR)).get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_before_anything_is_noted_the_page_says_so_and_draws_nothing(running: Running):
    shown = await page_of(running)
    assert "Nothing is noted yet" in shown
    assert "over-time for-wide" not in shown


async def test_where_nothing_was_noted_in_the_window_it_says_since_when_there_is_something(
    running: Running, database_url: str
):
    await execute(database_url, NOTED, 100, 120)
    hour, day = await page_of(running), await page_of(running, "/desk/queue")
    assert "Nothing was noted in this time. The first that is kept is of <time" in hour
    assert "over-time for-wide" not in hour
    assert day.count("over-time for-wide") == 3


async def test_it_is_drawn_told_and_listed_and_the_window_is_in_the_address(
    running: Running, database_url: str
):
    await execute(database_url, NOTED, 1, 30)
    shown = await page_of(running)
    assert 'aria-label="Waiting: at most 6, last 6; 1 gap, between ' in shown
    assert 'aria-label="Oldest waited: at most 0.5 s, last 0.5 s; 1 gap, between ' in shown
    assert 'aria-label="Refused: Capacity exceeded: 58"' in shown
    assert "Operators should look at the queue" in shown
    assert shown.count('<td data-label="Sealed bytes">up to 1MiB</td>') == 30
    assert len(re.findall("2 . Capacity exceeded since", shown)) == 29
    assert shown.count('<td data-label="Refused"><span class="unknown">unknown</span></td>') == 1
    for window in ("1h", "24h", "7d"):
        assert f'href="/desk/queue?window={window}#over-time"' in shown
    assert 'window=1h#over-time" aria-current="true"' in shown
    assert "<script" not in shown.partition("<main")[2]
    assert " style=" not in shown


async def test_since_when_something_was_refused_is_told_with_its_day_where_that_is_another(
    running: Running, database_url: str
):
    await execute(database_url, NOTED, 1, 30)
    await execute(database_url, NOTED, 3_000, 3_030)
    shown = await page_of(running, "/desk/queue?window=7d")
    days = re.findall("Capacity exceeded since ([0-9]{4}-[0-9]{2}-[0-9]{2}) [0-9]{2}:[0-9]{2}<", shown)
    assert days


async def test_what_was_refused_in_a_gap_is_told_beside_the_picture(running: Running, database_url: str):
    await execute(database_url, NOTED, 1, 30)
    await execute(
        database_url,
        "DELETE FROM queue_depths AS d USING (SELECT max(minute) AS last FROM queue_depths) AS ends"
        " WHERE last - d.minute BETWEEN interval '5 minutes' AND interval '23 minutes'",
    )
    shown = await page_of(running)
    assert re.search(
        "While nothing was noted, Custody refused 40 . Capacity exceeded\\. When, is not known", shown
    )
    assert 'aria-label="Refused: Capacity exceeded: 18"' in shown


async def test_of_what_is_not_refused_it_says_nothing_and_whether_that_is_sure(
    running: Running, database_url: str
):
    await execute(database_url, NOTED, 1, 1)
    assert "there is nothing to compare with yet" in await page_of(running)
    await execute(database_url, "UPDATE queue_depths SET counts = '{}'")
    await execute(
        database_url,
        "INSERT INTO queue_depths SELECT minute - interval '1 minute', 0, 0, 0, 0, '{}', 'q' FROM queue_depths",
    )
    assert "<p>Nothing, as far as is known.</p>" in await page_of(running)


async def test_while_the_queue_does_not_answer_what_was_noted_is_shown_all_the_same(
    running: Running, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    await execute(database_url, NOTED, 1, 30)

    async def away(_: Queue) -> None:
        raise Unavailable(Reason.QUEUE_UNAVAILABLE)

    monkeypatch.setattr(Queue, "depth", away)
    shown = await page_of(running)
    assert "The queue does not answer." in shown
    assert 'aria-label="Waiting: at most 6' in shown
    assert "What the queue answered since it began" not in shown


async def test_operators_of_a_scope_see_nothing_of_the_whole_queue(running: Running, database_url: str):
    await execute(database_url, NOTED, 1, 30)
    scope = await running.scope("one")
    shown = (await (await running.signed_in(Role.OPERATOR, scope.scope_id)).get("/desk/queue?window=7d")).text
    assert "The queue as a whole is for operators of the whole store." in shown
    assert "over-time" not in shown
    assert "Capacity exceeded" not in shown


async def test_another_window_is_refused(running: Running):
    answer = await (await running.signed_in(Role.OPERATOR)).get("/desk/queue?window=2h")
    assert answer.status_code == 400
    assert "Window is one of 1h, 24h, 7d." in answer.text
