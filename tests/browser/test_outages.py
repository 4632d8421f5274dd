"""What a reviewer is told while something of ours is away: each is a state with its own words, and goes by itself.

A store of its own, whose servers and processes are stopped for real and started again.
"""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio

from console import words
from policies.kinds import Role
from policies.reasons import Reason
from store.services.keys import COMMAND_LINE, Wanted
from tests.browser.conftest import Open
from tests.browser.seed import Place
from tests.browser.watch import Sight, sight
from tests.support.api import DAY
from tests.support.services import short_directory
from tests.support.stack import Proc, own_postgres, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
    pytest.mark.xdist_group("outages"),
]

RUN = "in-an-outage"
STORED = f"/runs/{RUN}/exchanges/stored/attempts/1"
WAITS = f"/runs/{RUN}/exchanges/waits/attempts/1"
LEASE = "8s"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house() -> AsyncIterator[Place]:
    """A store with one stored part, and servers that nobody else needs."""
    async with AsyncExitStack() as exits:
        directory = exits.enter_context(short_directory())
        stack = await exits.enter_async_context(
            own_postgres(directory, durable=False, reads_lease=LEASE, overdue_after="500ms")
        )
        stack.publisher(), stack.duties(), stack.writer()
        api, console = await stack.api(), await stack.console()
        client = await exits.enter_async_context(
            httpx.AsyncClient(base_url=api.url, timeout=20, trust_env=False)
        )
        scope = await stack.scope()
        place = Place(stack, api, console, scope, client)
        for role in (Role.RUNTIME, Role.REVIEWER, Role.OPERATOR):
            made = await (await stack.services()).keys.create(Wanted(role, scope.scope_id, DAY), COMMAND_LINE)
            place.keys[role] = made.text
        await place.declare(RUN)
        place.parts["stored"] = await place.post(RUN, "stored", {"messages": "It is still there."})
        await place.published()
        yield place


@pytest.fixture
def look(house: Place, browser: Any) -> Open:
    """Opens a window on that store."""

    @asynccontextmanager
    async def opened(role: Role, **options: Any) -> AsyncIterator[Sight]:
        async with sight(browser, house.console.url, **options) as seen:
            await seen.enter(house.keys[role])
            yield seen

    return opened


def proc(house: Place, name: str) -> Proc:
    """Return the process of this name that runs."""
    return next(each for each in house.stack.procs if each.name == name and each.alive)


async def shows(seen: Sight, path: str, text: str, within_s: float = 20) -> None:
    """Open a page again until it says this."""

    async def look() -> bool:
        await seen.open(path, status=None)
        return text in await seen.page.locator("body").inner_text()

    await until(look, f"{path} says {text!r}", within_s)


async def is_refused(seen: Sight, path: str, reason: Reason) -> None:
    """Hold that a page answers an outage: its status, its words, that it is none of the reader's doing; no content."""
    await seen.open(path, status=503)
    state = seen.page.locator("main .state")
    assert await state.get_attribute("data-reason") == reason
    said = words.at_read(reason)
    text = await seen.text()
    assert all(each in text for each in (said.name, said.sentence, said.advice)), text
    assert "It is still there." not in await seen.page.content()


@pytest.mark.parametrize("scripts", [True, False])
async def test_what_waits_to_be_written_is_queued_then_late_and_then_stored(house, look, scripts: bool):
    exchange = "waits" if scripts else "waits-too"
    path = WAITS.replace("waits", exchange)
    writer = proc(house, "writer")
    async with look(Role.REVIEWER, java_script_enabled=scripts) as seen:
        writer.pause()
        try:
            said = await house.accepted(RUN, exchange, {"messages": "It came in the end."})
            assert said == "queued"
            await shows(seen, path, words.OVERDUE.sentence)
            state = seen.page.locator("#request .state")
            assert await state.get_attribute("data-reason") == "write_timeout"
            assert words.OVERDUE.advice in await state.inner_text()
            await seen.open(f"/runs/{RUN}")
            assert f"{exchange} / 1: request, accepted" in await seen.text()
            await seen.open(f"/runs/{RUN}/gaps")
            row = seen.page.locator("tr[data-row]", has_text=exchange)
            text = await row.inner_text()
            assert "provisional" in text
            assert all(each in text for each in (words.OVERDUE.name, words.OVERDUE.advice, "the queue"))
        finally:
            writer.go_on()
        await shows(seen, path, "It came in the end.")
        await seen.open(f"/runs/{RUN}/gaps")
        assert await seen.page.locator("tr[data-row]", has_text=exchange).count() == 0


async def test_with_the_queue_away_what_is_stored_is_read_and_what_waits_is_said_to_be_unknown(house, look):
    async with look(Role.REVIEWER) as seen:
        house.stack.stop_valkey()
        try:
            await seen.open(STORED)
            assert "It is still there." in await seen.text()
            output = seen.page.locator("#output .state")
            assert await output.get_attribute("data-reason") == "queue_unavailable"
            assert "whether it waits there cannot be told" in await output.inner_text()
            for path in (f"/runs/{RUN}", f"/runs/{RUN}/gaps", f"/runs/{RUN}/exchanges/stored"):
                await seen.open(path)
                assert (
                    "The queue does not answer: what waits to be written cannot be told now."
                    in await seen.text()
                )
        finally:
            house.stack.start_valkey()
        await shows(seen, f"/runs/{RUN}", "In time")
        await until_gone(seen, f"/runs/{RUN}", "The queue does not answer")


async def until_gone(seen: Sight, path: str, text: str) -> None:
    async def look() -> bool:
        await seen.open(path)
        return text not in await seen.page.locator("body").inner_text()

    await until(look, f"{path} says {text!r} no more")


async def test_with_the_proof_overdue_no_evidence_is_shown_and_every_page_says_why(house, look):
    late = "Reads are closed: the log was not compared with its mirror in time."
    async with look(Role.REVIEWER) as seen:
        await answers(seen, STORED, 200)
        proc(house, "publisher").kill()
        try:
            await answers(seen, STORED, 503)
            await seen.open("/log")
            stopped = seen.page.locator("[data-log='not_compared']")
            assert late in await stopped.inner_text()
            assert "See whether the publisher runs and can write its mirror." in await stopped.inner_text()
            assert await seen.page.locator("#checkpoint-text").count() == 0
            await is_refused(seen, STORED, Reason.READS_CLOSED)
            await is_refused(seen, f"/parts/{house.parts['stored']}/raw", Reason.READS_CLOSED)
            await is_refused(seen, "/runs", Reason.READS_CLOSED)
            await shows(seen, "/session", late)
            for path in ("/runs", "/exports", "/session"):
                await seen.open(path, status=None)
                alarm = seen.page.get_by_role("region", name="Stops and alarms")
                assert re.search("No evidence is shown until then; captures go on", await alarm.inner_text())
        finally:
            house.stack.publisher()
        await answers(seen, STORED, 200)
        assert "It is still there." in await seen.text()
        await until_gone(seen, STORED, late)


async def answers(seen: Sight, path: str, status: int) -> None:
    """Open a page again until it answers so: what a process knows of the log may be a second old."""

    async def look() -> bool:
        return bool((await seen.open(path, status=None)).status == status)

    await until(look, f"{path} answers {status}", 30)


async def test_with_postgres_away_every_page_says_so_and_is_there_again_after(house, look):
    async with look(Role.REVIEWER) as seen:
        await answers(seen, STORED, 200)
        house.stack.stop_postgres()
        try:
            for path in (STORED, "/runs", f"/runs/{RUN}/gaps", "/log", "/exports", "/runs/find?q=anything"):
                await is_refused(seen, path, Reason.STORE_UNAVAILABLE)
                assert "This is an outage, not a refusal" in await seen.text()
            # At the door too, and with what was filled in told to nobody.
            async with look_without_a_session(house, seen) as stranger:
                await stranger.open("/sign-in")
                await stranger.page.get_by_label("Key", exact=True).fill(house.keys[Role.REVIEWER])
                await stranger.page.get_by_role("button", name="Sign in").click()
                await stranger.page.locator("[data-reason='store_unavailable']").wait_for()
                assert house.keys[Role.REVIEWER] not in await stranger.page.content()
        finally:
            house.stack.start_postgres()
        # The same session, and the same address.
        await answers(seen, STORED, 200)
        await seen.page.reload()
        assert "It is still there." in await seen.text()


@asynccontextmanager
async def look_without_a_session(house: Place, beside: Sight) -> AsyncIterator[Sight]:
    assert beside.context.browser is not None
    async with sight(beside.context.browser, house.console.url) as seen:
        yield seen
