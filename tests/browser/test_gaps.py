"""From something that is missing to why it is, and to what can be done about it."""

import pytest

from console import words
from policies.kinds import Role
from policies.reasons import OUTCOMES, Reason
from tests.browser.losses import LOSSES, REFUSED, TEMPORARY
from tests.browser.seed import MAIN
from tests.browser.watch import Sight

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

# Said of a receipt only: nothing that a page of a run shows was ever written of it.
OF_RECEIPTS = {Reason.QUEUE_ENTRY_LOST}


def said(reason: Reason) -> tuple[str, str]:
    """Return what a gap says of its reason: what it means, and what to do."""
    return words.of(reason).sentence, words.of(reason).advice


async def target(seen: Sight) -> str:
    """Return what stands where the address leads within the page: the reason and what is said of it."""
    name = await seen.page.evaluate("decodeURIComponent(location.hash.slice(1))")
    entry = seen.page.locator(f"[id='{name}']")
    assert await entry.count() == 1, name
    return str(await entry.inner_text())


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("width", [390, 1280])
async def test_a_gap_in_the_picture_leads_to_its_reason_and_what_to_do(window, width: int, scripts: bool):
    async with window(
        Role.REVIEWER, viewport={"width": width, "height": 900}, java_script_enabled=scripts
    ) as seen:
        await seen.open(f"/runs/{MAIN}")
        picture = seen.page.get_by_role("group", name="Timeline").and_(seen.page.locator("svg:visible"))
        await picture.get_by_role(
            "link", name="large, attempt 1, request: not captured, Part too large"
        ).click()
        assert seen.page.url.endswith(f"/runs/{MAIN}#gap-part_too_large")
        if scripts:
            there = await target(seen)
            assert all(each in there for each in said(Reason.PART_TOO_LARGE))


async def test_a_gap_in_the_table_of_attempts_leads_there_too_and_to_the_attempt(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{MAIN}")
        row = seen.page.locator("tr[data-row]", has=seen.page.get_by_role("link", name="large", exact=True))
        await row.get_by_role("link", name="Part too large").click()
        assert said(Reason.PART_TOO_LARGE)[1] in await target(seen)
        await row.get_by_role("link", name="1", exact=True).click()
        await seen.page.wait_for_url("**/exchanges/large/attempts/1")
        state = seen.page.locator("#request .state")
        assert await state.locator(".state-name").inner_text() == "Not stored: Part too large"
        await state.get_by_role("link", name="All that is missing of this run").click()
        await seen.page.wait_for_url(f"**/runs/{MAIN}/gaps")


async def test_the_table_of_gaps_says_of_each_reason_what_it_means_and_what_to_do(window):
    shown: dict[str, list[str]] = {}
    async with window(Role.REVIEWER) as seen:
        for run in (LOSSES, TEMPORARY):
            await seen.open(f"/runs/{run}/gaps")
            for row in await seen.page.locator("tr[data-row]").all():
                name = await row.locator("th").inner_text()
                shown.setdefault(name.strip(), []).append(await row.inner_text())
    for reason in OUTCOMES - OF_RECEIPTS:
        texts = shown[words.of(reason).name]
        assert all(each in text for text in texts for each in said(reason)), reason


@pytest.mark.parametrize(("exchange", "reason"), REFUSED.items())
async def test_what_the_store_refused_is_a_state_with_its_reason_on_its_attempt(
    window, exchange: str, reason: str
):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{LOSSES}/gaps")
        await seen.page.get_by_role("link", name=f"{exchange} / 1").click()
        await seen.page.wait_for_url(f"**/exchanges/{exchange}/attempts/1")
        state = seen.page.locator("#request .state")
        assert await state.get_attribute("data-reason") == "not_stored"
        text = await state.inner_text()
        assert all(each in text for each in said(Reason(reason)))
        assert "Told by the store" in text


async def test_what_the_picture_shows_is_said_in_words_below_it(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{LOSSES}")
        told = await seen.page.locator("dl.reasons").inner_text()
        for reason in (*map(Reason, REFUSED.values()), Reason.UNACCOUNTED, Reason.CLIENT_QUEUE_FULL):
            assert all(each in told for each in said(reason)), reason
        links = seen.page.locator("svg.for-wide a")
        leads = {await each.get_attribute("href") for each in await links.all()}
        assert leads == {f"#gap-{reason}" for reason in REFUSED.values()}


async def test_a_run_with_many_reasons_names_the_most_frequent_in_the_list_and_leads_to_all(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open("/runs?label=team%3Dlosses")
        cell = seen.page.locator("td[data-label='Missing because']")
        text = await cell.inner_text()
        assert text.startswith(f"{words.of(Reason.UNACCOUNTED).name} (3), ")
        assert text.count("(") == 3
        await cell.get_by_role("link").click()
        await seen.page.wait_for_url(f"**/runs/{LOSSES}/gaps")


async def test_a_temporary_run_says_that_it_was_temporary_and_names_nothing(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{TEMPORARY}")
        text = await seen.text()
        assert "temporary" in text
        assert said(Reason.TEMPORARY_MODE)[0] in text
        assert await seen.page.locator("tr[data-row]").count() == 0
