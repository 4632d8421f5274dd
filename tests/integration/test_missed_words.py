"""A word to the queue is said once. Where it was missed the row still tells, and then the queue hears it after all."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from policies.kinds import Role
from policies.reasons import Reason
from store.errors import Unavailable
from store.queue import Queue, RunKey
from tests.support.api import bearer
from tests.support.capture import Capturing, capturing
from tests.support.duties import execute

KEEP_S = 86_400


# Instead of five seconds and one.
REMEMBERED_S = 0.1


@pytest.fixture
async def at(
    database_url: str, redis_url: str, keys_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Capturing]:
    monkeypatch.setattr("store.services.runs._ROW_AGE_S", REMEMBERED_S)
    async with capturing(database_url, redis_url, keys_dir, run_view_age="100ms") as made:
        yield made


async def until_it_is_read_again() -> None:
    await asyncio.sleep(3 * REMEMBERED_S)


@contextmanager
def unheard() -> Iterator[None]:
    """Let nothing that is said of a run reach the queue, of whatever process; what it is asked it answers."""

    async def away(*_: Any, **__: Any) -> None:
        raise Unavailable(Reason.QUEUE_UNAVAILABLE, cause="away")

    with pytest.MonkeyPatch.context() as patch:
        for word in ("open_run", "narrow_run", "close_run"):
            patch.setattr(Queue, word, away)
        yield


def key_of(at: Capturing) -> RunKey:
    return RunKey(at.scope.scope_id, at.run)


async def opt_out(at: Capturing) -> None:
    answer = await at.api.client.put(f"/v1/runs/{at.run}", json={"content": "opt_out"}, headers=at.key)
    assert answer.json()["effective"] == "at_write"


async def turn_temporary(at: Capturing) -> None:
    answer = await at.api.client.put(f"/v1/runs/{at.run}", json={"mode": "temporary"}, headers=at.key)
    assert answer.json()["effective"] == "at_write"


async def erase(at: Capturing) -> None:
    operator = bearer(await at.api.key(Role.OPERATOR, at.scope.scope_id))
    answer = await at.api.client.post("/v1/erasures", json={"run": at.run}, headers=operator)
    assert answer.is_success, answer.text


async def end(at: Capturing) -> None:
    await execute(
        at.api.services.settings.database_url.reveal(),  # type: ignore[union-attr] # it is set
        "UPDATE runs SET state = 'closed', closing_at = now(), closed_at = now()",
    )


async def close(at: Capturing) -> None:
    answer = await at.api.client.post(f"/v1/runs/{at.run}/close", json={"sessions": {"s": 2}}, headers=at.key)
    assert answer.is_success, answer.text


async def keep_shorter(at: Capturing) -> None:
    answer = await at.api.client.put(f"/v1/runs/{at.run}", json={"retention": f"{KEEP_S}s"}, headers=at.key)
    assert answer.json()["effective"] == "at_write"


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (opt_out, "content_opt_out"),
        (turn_temporary, "temporary_mode"),
        (erase, "erased"),
        (end, "run_closed"),
    ],
)
async def test_a_run_of_which_the_queue_missed_that_it_ended_takes_nothing_more(
    at: Capturing, happens: Callable[[Capturing], Awaitable[None]], reason: str
):
    assert (await at.put(b"one")).status_code == 202
    with unheard():
        await happens(at)
    await until_it_is_read_again()

    answer = await at.put(b"two", exchange="x-2")

    assert answer.json()["reason"] == reason
    told = await at.api.services.queue.run_view(key_of(at))
    assert told is not None
    assert told.state == reason


async def test_while_the_queue_cannot_be_told_the_row_holds(at: Capturing):
    with unheard():
        await opt_out(at)
        answers = [await at.put(b"one", exchange=f"x-{number}") for number in range(2)]

    assert {answer.json()["reason"] for answer in answers} == {"content_opt_out"}


async def test_a_closing_that_the_queue_missed_lets_in_what_was_announced_and_no_more(at: Capturing):
    with unheard():
        await close(at)
    await until_it_is_read_again()

    answers = [
        await at.put(b"x", exchange=f"x-{number}", custody_session="s", custody_sequence=str(number))
        for number in (1, 2, 3)
    ]

    assert [answer.status_code for answer in answers] == [202, 202, 403]
    assert answers[2].json()["reason"] == "run_closed"


async def test_a_shorter_retention_that_the_queue_missed_reaches_it(at: Capturing):
    with unheard():
        await keep_shorter(at)
    await until_it_is_read_again()

    assert (await at.put(b"one")).status_code == 202

    told = await at.api.services.queue.run_view(key_of(at))
    assert told is not None
    assert told.retain_until <= datetime.now(UTC) + timedelta(seconds=KEEP_S)


async def test_a_run_on_which_row_and_queue_agree_costs_no_word(
    at: Capturing, monkeypatch: pytest.MonkeyPatch
):
    said: list[str] = []
    for word in ("open_run", "narrow_run", "close_run"):
        real = getattr(Queue, word)

        async def heard(*given: Any, _word: str = word, _real: Any = real, **named: Any) -> Any:
            said.append(_word)
            return await _real(*given, **named)

        monkeypatch.setattr(Queue, word, heard)
    for wish in ({}, {"retention": "36h"}, {"content": "opt_out"}):
        await at.declare(**wish)
        await until_it_is_read_again()
        said.clear()
        await at.put(b"one", exchange=f"x-{len(wish)}")
        assert said == [], wish


async def test_a_run_remembered_from_row_and_queue_is_remembered_once(at: Capturing):
    await at.declare("run-2", sources=[{"source": "doc-7"}])
    book = at.api.services.runs

    view = await book.view(key_of(at))

    assert view is not None
    assert view is book._rows.last(key_of(at))
