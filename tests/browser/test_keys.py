"""Habits of those who read all day: keys, and copying what is on the page. Behaviour, not markup."""

import json
import re

import pytest

from policies.kinds import Role
from tests.browser.seed import MAIN
from tests.browser.watch import Sight

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

CLIPBOARD = ("clipboard-read", "clipboard-write")
SEARCH = f"/runs/{MAIN}/exchanges/search/attempts"


async def focused(seen: Sight) -> str:
    """Return what has the focus, as it is read."""
    return str(await seen.page.evaluate("(document.activeElement.textContent || '').trim()"))


async def copied(seen: Sight, name: str) -> str:
    """Press a button that copies, and return what is on the clipboard then."""
    await seen.page.evaluate("navigator.clipboard.writeText('before')")
    await seen.page.get_by_role("button", name=name, exact=True).first.click()
    await seen.page.get_by_role("button", name="Copied").wait_for()
    await seen.page.get_by_role("status").get_by_text("Copied").wait_for()
    return str(await seen.page.evaluate("navigator.clipboard.readText()"))


async def test_j_and_k_go_from_row_to_row_and_enter_opens_one(window):
    async with window(Role.REVIEWER) as seen:
        page = seen.page
        await seen.open("/runs?label=team%3Dbatch&mode=normal")
        for key, at in (("j", "nightly-59"), ("j", "nightly-58"), ("j", "nightly-57"), ("k", "nightly-58")):
            await page.keyboard.press(key)
            assert await focused(seen) == at
            assert await page.locator("tr.at").count() == 1
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/runs/nightly-58")


async def test_j_and_k_stop_at_the_ends_of_the_list(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open("/runs?label=team%3Dsearch")
        for key in ("k", "k", "j", "j"):
            await seen.page.keyboard.press(key)
            assert await focused(seen) == MAIN


async def test_n_and_p_turn_the_pages_of_a_list(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open("/runs?label=team%3Dbatch&mode=normal")
        first = await seen.page.locator("tr[data-row] th").first.inner_text()
        await seen.page.keyboard.press("n")
        await seen.page.wait_for_url("**cursor=**")
        assert await seen.page.locator("tr[data-row] th").first.inner_text() != first
        await seen.page.keyboard.press("p")
        await seen.page.wait_for_url("**back=**")
        assert await seen.page.locator("tr[data-row] th").first.inner_text() == first


async def test_n_and_p_go_from_attempt_to_attempt_in_the_same_view(place, window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"{SEARCH}/1?view=raw")
        for key, attempt in (("n", 2), ("n", 3), ("p", 2)):
            await seen.page.keyboard.press(key)
            await seen.page.wait_for_url(f"{place.console.url}{SEARCH}/{attempt}?view=raw")
        assert await seen.page.get_by_role("link", name="Raw", exact=True).get_attribute("aria-current")


async def test_n_and_p_go_from_change_to_change_where_nothing_else_follows(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{MAIN}/compare?left=search/2&right=search/3")
        changes = seen.page.locator("[data-stop]")
        most = await changes.count()
        assert most > 1
        for key, at in (("n", 0), ("n", 1), ("p", 0)):
            await seen.page.keyboard.press(key)
            assert await changes.nth(at).evaluate("each => each.classList.contains('at')"), (key, at)
        assert await seen.page.locator(".at").count() == 1


async def test_a_slash_goes_to_the_search_and_escape_leaves_it(window):
    async with window(Role.REVIEWER) as seen:
        page = seen.page
        await seen.open("/runs")
        await page.keyboard.press("/")
        await page.keyboard.type("jk?/n")
        assert await page.get_by_label("Find by run").input_value() == "jk?/n"
        assert not await page.get_by_role("dialog").is_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        assert await page.locator("tr.at").count() == 1
        assert await page.get_by_label("Find by run").input_value() == "jk?/n"


async def test_a_question_mark_shows_the_keys_and_escape_closes_them(window):
    async with window(Role.REVIEWER) as seen:
        page, keys = seen.page, seen.page.get_by_role("dialog", name="Keys")
        await seen.open(f"/runs/{MAIN}")
        await page.keyboard.press("?")
        await keys.wait_for()
        assert {each.strip() for each in await keys.locator("kbd").all_inner_texts()} == {
            *("j", "k", "Enter", "n", "p", "/", "g", "r", "?", "Esc")
        }
        # While it is open, keys of the page behind it do nothing.
        await page.keyboard.press("j")
        assert await page.locator(".at").count() == 0
        await page.keyboard.press("Escape")
        await keys.wait_for(state="hidden")
        await page.get_by_role("button", name=re.compile("Keys")).click()
        await keys.get_by_role("button", name="Close").click()
        await keys.wait_for(state="hidden")


async def test_g_and_r_lead_to_the_runs_and_a_browsers_own_keys_stay_its_own(window):
    async with window(Role.REVIEWER) as seen:
        page = seen.page
        await seen.open("/log")
        await page.keyboard.press("r")
        await page.keyboard.press("Control+j")
        assert page.url.endswith("/log")
        assert await page.locator(".at").count() == 0
        await page.keyboard.press("g")
        await page.keyboard.press("r")
        await page.wait_for_url("**/runs")


async def test_an_id_is_copied_as_it_is(place, window):
    async with window(Role.REVIEWER, permissions=CLIPBOARD) as seen:
        await seen.open(f"/runs/{MAIN}")
        assert await copied(seen, "Copy id") == MAIN
        await seen.open(f"/parts/{place.parts['request']}")
        assert await copied(seen, "Copy id") == place.parts["request"]


async def test_the_json_that_is_copied_is_what_the_api_answers(place, window):
    path = f"/v1/parts/{place.parts['request']}"
    async with window(Role.REVIEWER, permissions=CLIPBOARD) as seen:
        await seen.open(f"/parts/{place.parts['request']}")
        await seen.page.get_by_text("JSON", exact=True).click()
        found = json.loads(await copied(seen, "Copy JSON"))
    answered = await place.call("GET", path, Role.REVIEWER)
    assert {**found, "observed_at": ""} == {**answered, "observed_at": ""}


async def test_the_line_for_curl_has_a_placeholder_and_no_key(place, window):
    async with window(Role.REVIEWER, permissions=CLIPBOARD) as seen:
        await seen.open(f"/parts/{place.parts['request']}")
        line = await copied(seen, "Copy curl")
        assert '"Authorization: Bearer $CUSTODY_TOKEN"' in line
        assert f"/v1/parts/{place.parts['request']}" in line
        assert place.keys[Role.REVIEWER] not in await seen.page.content()
        assert "ck_" not in line


async def test_where_the_browser_does_not_let_it_copy_the_text_is_selected_instead(place, window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/parts/{place.parts['request']}")
        await seen.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        await seen.page.get_by_role("button", name="Copy curl").click()
        await seen.page.get_by_role("button", name="Selected: copy it with your own keys").wait_for()
        chosen = await seen.page.evaluate("getSelection().toString()")
        assert chosen == await seen.page.locator("#curl-text").inner_text()
