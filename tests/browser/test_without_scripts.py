"""With JavaScript off every page says the same, and every form works."""

import pytest

from policies.kinds import Role
from tests.browser.seed import MAIN
from tests.browser.walk import walked

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


async def test_a_reviewer_reads_compares_and_exports(place, window):
    async with window(Role.REVIEWER, java_script_enabled=False) as seen:
        page = seen.page
        await seen.open(f"/runs/{MAIN}/exchanges/plan/attempts/1")
        await page.get_by_text("Say a purpose").click()
        await page.get_by_label("Purpose").fill("without scripts")
        await page.get_by_role("button", name="Keep").click()
        assert await page.locator("q", has_text="without scripts").count() == 1
        await page.get_by_role("link", name="Raw", exact=True).click()
        assert "monthly report" in await seen.text()
        await page.get_by_role("link", name="Proof and accesses").first.click()
        assert "Verified" in await seen.text()

        await seen.open(f"/runs/{MAIN}/compare")
        await page.get_by_label("Left").fill("search/2")
        await page.get_by_label("Right").fill("search/3")
        await page.get_by_role("button", name="Compare").click()
        assert await page.locator(".row-changed, .row-right").count()

        await seen.open("/exports")
        await page.get_by_label("Runs").fill(MAIN)
        await page.get_by_role("button", name="Ask").click()
        async with page.expect_download() as coming:
            await page.get_by_role("button", name="Fetch the bundle").click()
        assert (await (await coming.value).path()).read_bytes()[:2] == b"PK"

        await page.get_by_role("button", name="Sign out", exact=True).click()
        assert "You are signed out." in await seen.text()


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.CUSTODIAN])
async def test_every_page_is_there_without_scripts(place, window, role: Role):
    """Nothing is left empty for a script to fill: each page has its heading and something below it."""
    async with window(role, java_script_enabled=False) as seen:
        pages = await walked(seen.context.request, place.console.url, "/runs", "/accesses")
        for path in {paths[0] for paths in pages.values()}:
            await seen.open(path, status=None)
            heading = await seen.page.locator("main h1").inner_text()
            assert len(await seen.text()) > len(heading) + 20, path
            buttons = seen.page.locator("main button:not([data-copy], [data-copy-from])")
            assert await buttons.count() == await seen.page.locator("main form button").count(), path
