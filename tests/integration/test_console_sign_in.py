"""Signing in to the console and out again: sessions, their ends, and forms that are not ours."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.kinds import Role
from tests.support.api import settings_for
from tests.support.console import Running, console


@pytest.fixture
async def running(database_url: str, redis_url: str, keys_dir: Path) -> AsyncIterator[Running]:
    async with console(settings_for(database_url, redis_url, keys_dir)) as opened:
        yield opened


async def test_a_key_signs_in_and_out(running: Running):
    scope = await running.scope()
    browser = running.browser()

    before = await browser.get("/runs")
    entered = await browser.sign_in(await running.key(Role.REVIEWER, scope.scope_id), "/runs?label=a")
    inside = await browser.get("/runs")
    left = await browser.post("/sign-out")
    after = await browser.get("/runs")

    assert (before.status_code, before.headers["location"]) == (303, "/sign-in?next=%2Fruns")
    assert (entered.status_code, entered.headers["location"]) == (303, "/runs?label=a")
    assert (inside.status_code, "No run was declared" in inside.text) == (200, True)
    assert (left.status_code, left.headers["location"]) == (303, "/sign-in?out=1")
    assert after.status_code == 303


async def test_what_is_no_key_and_a_runtimes_key_are_the_same_answer(running: Running):
    scope = await running.scope()
    runtime = await running.key(Role.RUNTIME, scope.scope_id)
    unknown = "ck_reviewer_" + "0" * 16 + "_" + "A" * 43
    answers = [await running.browser().sign_in(text) for text in (runtime, unknown, "hello")]

    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text.partition("<main")[2].partition("value=")[0] for answer in answers}) == 1
    assert not any("custody-session" in str(answer.headers) for answer in answers)
