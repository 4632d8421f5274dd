"""What an operator does, and what a reviewer then sees."""

import re

import pytest
from playwright.async_api import expect

from console.duty_words import DUTIES
from policies.kinds import Role
from tests.browser.test_hostile import FOREIGN
from tests.browser.watch import Sight
from tests.support.stack import until

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
    await expect(seen.page.get_by_role("status").first).to_contain_text("It is revoked")


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_source_is_revoked_and_the_read_is_refused_until_it_is_restored(window, scripts: bool):
    options = {"java_script_enabled": scripts}
    async with window(Role.OPERATOR, **options) as operator, window(Role.REVIEWER, **options) as reviewer:
        assert await reads(reviewer, "flow-revoke") is None
        await revoke(operator, "doc-live")
        assert await reads(reviewer, "flow-revoke") == "source_unavailable"
        await operator.page.get_by_role("button", name="Restore").click()
        await expect(operator.page.get_by_role("status").first).to_contain_text("It is open again")
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
        await expect(page.get_by_role("status").first).to_contain_text("Done: released.")
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
        await expect(page.locator("main")).to_contain_text("Nothing brings it back")
        await page.get_by_role("button", name="Erase it").click()
        await page.wait_for_url("**/desk/erasures/*")
        assert await reads(reviewer, run) == "erased"
        state = page.locator("#erasure-state")
        if not scripts:
            # Without scripts one looks again oneself; with them the page does.
            for _ in range(40):
                if await state.get_attribute("data-state") == "purged":
                    break
                await page.wait_for_timeout(500)
                await page.get_by_role("link", name="Look again").click()
        await expect(state).to_have_attribute("data-state", "purged", timeout=30_000)
        await expect(state).to_contain_text("Nothing of it is left in this store")
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


async def test_a_source_whose_erasure_was_asked_for_offers_nothing_that_cannot_work(place, window):
    await place.call("PUT", "/v1/sources/doc-erased", json={})
    async with window(Role.OPERATOR) as seen:
        page = seen.page
        await seen.open("/desk/erasures")
        await page.get_by_label("What", exact=True).select_option("source")
        await page.get_by_label("Evidence reference, run, source or subject").fill("doc-erased")
        await page.get_by_role("button", name="Go on…").click()
        await page.get_by_role("button", name="Erase it").click()
        await page.get_by_role("link", name="doc-erased").click()
        await expect(page.locator("main")).to_contain_text("closed for good")
        assert await page.locator("main form, main a[href$='/revoke']").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
async def test_an_erasure_of_what_is_not_there_is_said_at_the_field_and_nothing_is_lost(
    window, scripts: bool
):
    async with window(Role.OPERATOR, java_script_enabled=scripts) as seen:
        page = seen.page
        await seen.open("/desk/erasures")
        await page.get_by_label("What", exact=True).select_option("run")
        which = page.get_by_label("Evidence reference, run, source or subject")
        await which.fill("no-such-run")
        await page.get_by_role("button", name="Go on…").click()
        await expect(page.get_by_role("alert")).to_contain_text("There is no such run in this scope.")
        await expect(which).to_have_attribute("aria-invalid", "true")
        assert await which.input_value() == "no-such-run"
        assert await page.get_by_label("What", exact=True).input_value() == "run"


async def test_every_duty_says_when_it_succeeded_and_how_it_ended(window):
    async with window(Role.OPERATOR) as seen:
        await seen.open("/desk/duties")
        rows = await seen.page.locator("tbody tr").all()
        assert len(rows) >= len(DUTIES) - 1
        for row in rows:
            name = await row.locator("strong").inner_text()
            assert DUTIES[name] in await row.inner_text()
            lag = await row.locator("[data-label=Succeeded]").inner_text()
            assert re.fullmatch(r"(\d+ (s|min|h|d) ago|never)\s*", lag), (name, lag)
            ended = await row.locator("[data-label='Last outcome'] .badge").first.inner_text()
            assert ended in {"done", "never ran", "skipped: locked"}, (name, ended)
        assert await seen.barriers() == []


# Pages that answer a form or ask before an act; the walk along links does not reach what only a form leads to.
ASKING = (
    "/desk/keys/{key}/confirm", "/desk/keys/{key}/rotate", "/desk/keys/{key}/retire", "/desk/keys/{key}/revoke",
    "/desk/sources/doc-live/revoke", "/desk/sources/doc-old/revoke?version=2", "/desk/scopes/research",
)  # fmt: skip


async def test_pages_that_ask_before_an_act_fit_and_can_be_used_by_everybody(place, window):
    key = place.keys[Role.RUNTIME].split("_")[2]
    faults: list[str] = []
    async with window(Role.OPERATOR) as seen:
        for path in (each.format(key=key) for each in ASKING):
            await seen.open(path)
            for scheme in ("dark", "light"):
                await seen.page.emulate_media(color_scheme=scheme)
                faults += [f"{path} {scheme}: {each}" for each in await seen.barriers()]
            for width in (390, 1280, 1920):
                faults += [f"{path} at {width}: {each}" for each in await seen.unfit(width)]
    assert faults == []


async def test_a_stop_stands_at_the_top_of_every_page_of_the_desk_with_what_to_do(place, window):
    async with window(Role.OPERATOR) as seen:
        await seen.open("/desk")
        paths = await seen.page.locator("nav.desk a").evaluate_all("all => all.map(each => each.pathname)")
        await place.stack.rows(
            "UPDATE leases SET last_success = last_success - interval '30 days' WHERE duty = 'bucket_keys'"
        )
        try:

            async def told() -> bool:
                await seen.open("/desk")
                return bool(await seen.page.locator("[data-alarm=duties_late]").count())

            await until(told, "the alarm is there", 30)
            for path in paths:
                await seen.open(path)
                alarm = seen.page.locator("[data-alarm=duties_late]")
                await expect(alarm).to_contain_text("bucket_keys")
                await expect(alarm).to_contain_text("See whether the duties run")
                heading = await seen.page.locator("h1").bounding_box()
                box = await alarm.bounding_box()
                assert box is not None
                assert heading is not None
                assert box["y"] < heading["y"], path
            await seen.open("/desk/duties")
            await expect(seen.page.locator("tr", has_text="bucket_keys")).to_contain_text("late")
        finally:
            await place.stack.rows("UPDATE leases SET last_success = now() WHERE duty = 'bucket_keys'")


async def test_what_an_operator_did_is_seen_by_the_auditor_with_its_purpose(place, window):
    async with window(Role.OPERATOR) as operator, window(Role.AUDITOR) as auditor:
        page = operator.page
        await operator.open("/session")
        await page.get_by_label("What this session is for").fill("ticket 4711")
        await page.get_by_role("button", name="Keep").click()
        await operator.open("/desk/sources")
        await page.get_by_label("Source", exact=True).fill("doc-audited")
        await page.get_by_role("button", name="Add the version").click()
        await expect(page.get_by_role("status").first).to_contain_text("The version is added.")
        await auditor.open("/desk/actions")
        row = auditor.page.locator("tr", has_text="doc-audited").first
        await expect(row).to_contain_text("Source version added")
        await expect(row).to_contain_text("ticket 4711")
        await expect(row).to_contain_text(place.keys[Role.OPERATOR].split("_")[2])
        assert await auditor.barriers() == []
