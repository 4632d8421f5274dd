"""Content that would do something: it is shown, character by character, and does nothing."""

import pytest

from policies.kinds import Role
from tests.browser.hostile import INPUTS
from tests.browser.seed import HOSTILE

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

# What a page of ours has of such elements is in its head, or says where it leads.
FOREIGN = "main :is(iframe, img, object, embed, video, link, meta, base, style, math, script:not([src^='/static/']))"
REACHES_OUT = "[src^='http'], [href^='http'], [action^='http'], [hx-get^='http'], [href^='javascript']"


async def test_nothing_in_content_is_run_or_fetched_and_all_of_it_is_shown(place, window):
    async with window(Role.REVIEWER) as seen:
        for name, text in INPUTS.items():
            base = f"/runs/{HOSTILE}/exchanges/{name}/attempts"
            for path in [*(f"{base}/1?view={view}" for view in ("pretty", "raw", "stream")), f"{base}/raw"]:
                await seen.open(path)
                assert await seen.page.locator(FOREIGN).count() == 0, path
                assert await seen.page.locator(REACHES_OUT).count() == 0, path
                assert await seen.harm() == [], path
            if text.isascii() and text.isprintable():
                assert text in await seen.page.locator("main").text_content(), name


async def test_raw_files_are_text_in_a_sandbox(place, window):
    async with window(Role.REVIEWER) as seen:
        for name in INPUTS:
            answer = await seen.context.request.get(
                f"{place.console.url}/parts/{place.parts[f'raw-{name}']}/raw"
            )
            headers = answer.headers
            assert await answer.body() == INPUTS[name].encode()
            assert headers["content-type"] in {"text/plain; charset=utf-8", "application/octet-stream"}, name
            assert "sandbox" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
        await seen.open(f"/parts/{place.parts['raw-script']}/raw")
        assert await seen.page.locator("script").count() == 0
        assert INPUTS["script"] in await seen.page.locator("body").inner_text()


async def test_comparing_hostile_attempts_runs_nothing_either(window):
    async with window(Role.REVIEWER) as seen:
        for name in INPUTS:
            await seen.open(f"/runs/{HOSTILE}/compare?left={name}/1&right=script/1")
            assert await seen.page.locator(FOREIGN).count() == 0, name
            assert await seen.harm() == [], name
