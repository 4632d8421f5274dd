"""No link leads to nothing, and every address is one to come back to."""

import re

import pytest

from policies.kinds import Role
from tests.browser.acted import ACTED
from tests.browser.walk import anchors, routes, walked

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

STARTS = {
    Role.REVIEWER: (f"/runs/{ACTED}", "/runs", "/session"),
    Role.CUSTODIAN: (f"/runs/{ACTED}", "/runs", "/session", "/accesses"),
    Role.AUDITOR: (f"/runs/{ACTED}", "/runs", "/session", "/accesses"),
}
# Answers to what somebody types or sends, where no link leads: tests of their own have them.
TYPED = {"/runs/find", "/runs/suggest"}
# Nobody's own; and what is the operator's, which tests of the desk go through.
NOT_THEIRS = re.compile("/(static/.*|livez|metrics|sign-in|desk.*)")
OF_WATCHERS = {"/accesses", "/lists/accesses/{form:str}"}


@pytest.mark.parametrize("role", list(STARTS))
async def test_links_lead_through_every_kind_of_page_and_none_to_nothing(place, window, role: Role):
    async with window(role) as seen:
        walk = await walked(seen.context.request, place.console.url, *STARTS[role])
    assert walk.nowhere == []
    kinds = {route for route in routes() if not NOT_THEIRS.fullmatch(route)} - TYPED
    if role is Role.REVIEWER:
        kinds -= OF_WATCHERS
    if role is Role.AUDITOR:
        kinds -= {"/parts/{evidence:str}/raw"}
    assert {*walk.pages, *walk.files} >= kinds


async def test_what_a_page_says_of_itself_is_on_it(place, window):
    async with window(Role.REVIEWER) as seen:
        request = seen.context.request
        walk = await walked(request, place.console.url, *STARTS[Role.REVIEWER])
        for path in walk.all_pages():
            text = await (await request.get(place.console.url + path)).text()
            assert anchors(text) == set(), path


async def test_every_page_is_the_same_after_a_reload_and_from_its_address_alone(place, window):
    async with window(Role.REVIEWER) as seen, window(Role.REVIEWER) as other:
        walk = await walked(seen.context.request, place.console.url, *STARTS[Role.REVIEWER])
        for path in (paths[-1] for paths in walk.pages.values()):
            await seen.open(path)
            where, heading = seen.page.url, await seen.page.locator("main h1").inner_text()
            await seen.page.reload()
            assert (seen.page.url, await seen.page.locator("main h1").inner_text()) == (where, heading)
            await other.open(path)
            assert await other.page.locator("main h1").inner_text() == heading
