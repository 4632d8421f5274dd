"""What an operator does, and what a reviewer then sees."""

import re

import pytest

from policies.kinds import Role
from tests.browser.test_hostile import FOREIGN
from tests.browser.watch import Sight

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


async def reads(seen: Sight, run: str) -> str | None:
    """Return why a reviewer cannot read the request of a run; None where he can."""
    await seen.open(f"/runs/{run}/exchanges/x-1/attempts/1")
    state = seen.page.locator("#request .state")
    return None if await state.count() == 0 else await state.get_attribute("data-reason")


async def revoke(seen: Sight, source: str) -> None:
    await seen.open(f"/desk/sources/{source}")
    await seen.page.get_by_role("link", name="Revoke…").click()
    await seen.page.get_by_role("button", name="Revoke it").click()
    await seen.page.get_by_text("Done.").wait_for()


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_source_is_revoked_and_the_read_is_refused_until_it_is_restored(window, scripts: bool):
    options = {"java_script_enabled": scripts}
    async with window(Role.OPERATOR, **options) as operator, window(Role.REVIEWER, **options) as reviewer:
        assert await reads(reviewer, "flow-revoke") is None
        await revoke(operator, "doc-live")
        assert await reads(reviewer, "flow-revoke") == "source_unavailable"
        await operator.page.get_by_role("button", name="Restore").first.click()
        await operator.page.get_by_text("Done.").wait_for()
        assert await reads(reviewer, "flow-revoke") is None


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_hold_is_placed_and_released(window, scripts: bool):
    reason = f"case 13, {'with' if scripts else 'without'} scripts"
    async with window(Role.OPERATOR, java_script_enabled=scripts) as seen:
        page = seen.page
        await seen.open("/desk/holds")
        await page.get_by_label("Run, or evidence reference of the part").fill("flow-hold")
        await page.get_by_label("What it is for").fill(reason)
        await page.get_by_role("button", name="Place").click()
        row = page.locator("tr", has_text=reason)
        await row.get_by_text("keeps", exact=True).wait_for()
        await row.get_by_role("link", name=re.compile("Release")).click()
        await page.get_by_role("button", name=re.compile("Release")).click()
        await page.get_by_text("Done: released.").wait_for()
        assert await row.get_by_role("link", name=re.compile("Release")).count() == 0


@pytest.mark.parametrize(("scripts", "run"), [(True, "flow-erase"), (False, "flow-bare")])
async def test_a_part_is_erased_and_watched_until_it_is_purged(place, window, scripts: bool, run: str):
    async with (
        window(Role.OPERATOR, java_script_enabled=scripts) as operator,
        window(Role.REVIEWER) as reviewer,
    ):
        assert await reads(reviewer, run) is None
        page = operator.page
        await operator.open("/desk/erasures")
        await page.get_by_label("Evidence reference, run, source or subject").fill(place.parts[run])
        await page.get_by_role("button", name="Go on…").click()
        await page.get_by_role("button", name=re.compile("Erase")).click()
        await page.wait_for_url("**/desk/erasures/*")
        assert await reads(reviewer, run) == "erased"
        for _ in range(40):
            if "purged" in await page.locator("main .badge").first.inner_text():
                break
            await page.wait_for_timeout(500)
            await page.reload()
        assert "purged" in await page.locator("main .badge").first.inner_text()
        assert await reads(reviewer, run) == "erased"


async def test_names_and_reasons_of_others_are_shown_as_text(window):
    async with window(Role.OPERATOR) as seen:
        for path in (
            "/desk",
            "/desk/holds",
            "/desk/actions",
            "/desk/completeness",
            "/accesses",
        ):
            await seen.open(path)
            assert await seen.page.locator(FOREIGN).count() == 0, path
            assert await seen.harm() == [], path
