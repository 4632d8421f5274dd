"""What a run's tools did, in a real browser: from the run to an action, its chain, and the requests that held it."""

import re
from typing import Final

import pytest

from console.lens_words import ROWS
from policies.chain import Row
from policies.kinds import Role
from tests.browser.acted import ACTED, ACTIONS, LONG, OVER
from tests.browser.seed import MAIN
from tests.browser.test_pictures import PLACE, taken
from tests.browser.watch import Sight

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

WIDTHS: Final = (390, 1280, 1920)
ANSWER: Final = (
    "One external dispatch, succeeded; the view is the first five rows; request 8 carries only the reference, "
    "request 9 carries those five rows; the source was not read whole; two occurrences, one execution."
)
LISTS: Final = {
    "actions": "Tools",
    "surface": "Tools offered",
    "coverage": "Files read",
    "delivery": "Delivery",
}


def path_of(run: str, action: str = "") -> str:
    return f"/runs/{run}/actions" + (f"/{action}" if action else "")


async def chain(seen: Sight):
    """Return the one picture that this width shows."""
    found = seen.page.locator("svg.chain:visible")
    assert await found.count() == 1
    return found


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("width", [390, 1280])
async def test_from_a_run_by_its_action_to_the_request_that_held_five_rows(window, width: int, scripts: bool):
    async with window(
        Role.REVIEWER, viewport={"width": width, "height": 900}, java_script_enabled=scripts
    ) as seen:
        await seen.open(f"/runs/{ACTED}")
        await seen.page.get_by_role("link", name="Tools", exact=True).click()
        await seen.page.wait_for_url(f"**{path_of(ACTED)}")
        await seen.page.get_by_role("link", name=ACTIONS["cut"], exact=True).click()
        await seen.page.wait_for_url(f"**{path_of(ACTED, ACTIONS['cut'])}")
        assert await seen.page.locator(".answer").inner_text() == ANSWER
        drawn = await chain(seen)
        assert await drawn.get_attribute("aria-label") == f"Chain: {ANSWER}"
        await drawn.get_by_role("link", name="Request 9, x-9 / 1: rows 0 to 5 of 120. Cut.").click()
        await seen.page.wait_for_url(f"**/runs/{ACTED}/exchanges/x-9/attempts/1")


async def test_every_row_of_the_table_is_met_with_where_to_look_first(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(path_of(ACTED))
        for row, action in ACTIONS.items():
            said = ROWS[Row(row)]
            listed = seen.page.locator(
                "tr[data-row]", has=seen.page.get_by_role("link", name=action, exact=True)
            )
            await listed.get_by_role("link", name=said.name).click()
            entry = await seen.page.locator(f"[id='{row}']").inner_text()
            assert said.of_action in entry
            assert said.advice in entry
        for row, action in ACTIONS.items():
            await seen.open(path_of(ACTED, action))
            note = await seen.page.locator(f".note[data-lens='{row}']").inner_text()
            assert all(each in note for each in (ROWS[Row(row)].name, ROWS[Row(row)].advice))


async def test_each_request_says_which_row_applies_to_it(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(path_of(ACTED, ACTIONS["cut"]))
        for row, held in (("reference_only", "only the reference"), ("cut", "rows 0 to 5 of 120")):
            text = await seen.page.locator(f"tr[data-lens='{row}']").inner_text()
            assert held in text
            assert ROWS[Row(row)].of_request in text


async def test_requests_beyond_a_page_are_reached_and_lead_back(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(path_of(ACTED, ACTIONS["carried"]))
        requests = seen.page.locator("#requests")
        met = await requests.locator("th[scope=row]").all_inner_texts()
        await requests.get_by_role("link", name="Next page").click()
        await seen.page.wait_for_url("**after=*")
        met += await requests.locator("th[scope=row]").all_inner_texts()
        assert met == [f"Request {number}" for number in (8, *range(10, 30))]
        await requests.get_by_role("link", name="First page").click()
        assert await requests.locator("th[scope=row]").first.inner_text() == "Request 8"


async def test_lists_are_turned_to_by_their_names_and_say_what_was_told(window):
    said = {
        "surface": (
            "Mismatch",
            "run_shell: added",
            "search: another schema at /properties/query/maxLength",
            "No room",
        ),
        "coverage": ("3,999 of 9,000", "0 to 3,999; 7,998 to 9,000", "an offset was skipped", "read whole"),
        "delivery": ("Met", "48,213 bytes", "Partial", "rows_missing", "Missing", "Failed"),
    }
    async with window(Role.AUDITOR) as seen:
        await seen.open(path_of(ACTED))
        for part, texts in said.items():
            tabs = seen.page.get_by_role("navigation", name="What was told of the run's tools")
            await tabs.get_by_role("link", name=LISTS[part]).click()
            await seen.page.wait_for_url(f"**/runs/{ACTED}/{part}")
            text = await seen.text()
            assert [each for each in texts if each not in text] == []


async def test_what_was_never_told_and_what_is_over_have_sentences_of_their_own(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{MAIN}")
        assert "That does not say that none was used" in await seen.text()
        assert await seen.page.get_by_role("link", name="Tools", exact=True).count() == 0
        await seen.open(path_of(MAIN))
        assert "That does not say that no tool was used" in await seen.text()
        await seen.open(path_of(ACTED, "never"), 404)
        assert "which does not say that it did not happen" in await seen.text()
        await seen.open(path_of(OVER), 410)
        assert await seen.page.locator(".state").get_attribute("data-reason") == "retention_expired"
        await seen.page.get_by_role("link", name="To the run", exact=True).click()
        await seen.page.wait_for_url(f"**/runs/{OVER}")
        assert "cannot be read now. Its retention has ended" in await seen.text()


@pytest.mark.parametrize("run", [ACTED, LONG])
async def test_every_page_fits_keeps_to_itself_and_can_be_used_by_everybody(window, run: str):
    faults: list[str] = []
    async with window(Role.REVIEWER) as seen:
        actions = ACTIONS.values() if run == ACTED else ["a" * 128]
        paths = [
            f"/runs/{run}",
            *(f"/runs/{run}/{part}" for part in LISTS),
            *(path_of(run, each) for each in actions),
        ]
        for path in paths:
            await seen.open(path)
            for width in WIDTHS:
                faults += [f"{path} at {width}: {each}" for each in await seen.unfit(width)]
            for scheme in ("dark", "light"):
                await seen.page.emulate_media(color_scheme=scheme)
                found = await seen.barriers(colours_only=scheme != "dark")
                faults += [f"{path} {scheme}: {each}" for each in found]
        assert await seen.harm() == []
    assert not faults, "\n".join(faults)


async def test_words_of_the_picture_stay_in_their_boxes(window):
    async with window(Role.REVIEWER) as seen:
        for run, action in ((ACTED, ACTIONS["cut"]), (ACTED, ACTIONS["carried"]), (LONG, "a" * 128)):
            for width in WIDTHS:
                await seen.page.set_viewport_size({"width": width, "height": 900})
                await seen.open(path_of(run, action))
                drawn = await chain(seen)
                beyond = await drawn.locator(".node").evaluate_all(
                    """found => found.flatMap((node) => {
                        const box = node.querySelector(".box").getBoundingClientRect();
                        return [...node.querySelectorAll("text")]
                          .filter((each) => each.getBoundingClientRect().right > box.right)
                          .map((each) => each.textContent);
                    })"""
                )
                assert beyond == [], (run, action, width)


async def test_pictures_of_the_pages_for_people(window):
    PLACE.mkdir(parents=True, exist_ok=True)
    async with window(Role.REVIEWER) as seen:
        for part in LISTS:
            await seen.open(f"/runs/{ACTED}/{part}")
            await taken(seen, f"tools-{part}")
        for row, action in ACTIONS.items():
            await seen.open(path_of(ACTED, action))
            await taken(seen, f"tools-action-{re.sub('_', '-', row)}")
        await seen.open(f"/runs/{ACTED}")
        await taken(seen, "tools-run")
        await seen.open(path_of(LONG, "a" * 128))
        await taken(seen, "tools-long")
        await seen.open(path_of(OVER), 410)
        await taken(seen, "tools-over")
