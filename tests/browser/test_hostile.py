"""Content that would do something: it is shown, character by character, and does nothing."""

from urllib.parse import quote

import pytest

from policies.kinds import Role
from tests.browser.hostile import IDS, INPUTS, TYPED
from tests.browser.seed import HOSTILE
from tests.browser.watch import Sight

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

# What a page of ours has of such elements is in its head, or says where it leads.
FOREIGN = "main :is(iframe, img, object, embed, video, link, meta, base, style, math, script:not([src^='/static/']))"
REACHES_OUT = "[src^='http'], [href^='http'], [action^='http'], [hx-get^='http'], [href^='javascript']"


async def unharmed(seen: Sight, what: str) -> None:
    """Hold that a page has no element of others, leads nowhere else, ran nothing, asked nobody and broke no policy."""
    assert await seen.page.locator(f"{FOREIGN}, {REACHES_OUT}").count() == 0, what
    assert await seen.harm() == [], what


async def test_nothing_in_content_is_run_or_fetched_and_all_of_it_is_shown(place, window):
    async with window(Role.REVIEWER) as seen:
        for name, text in INPUTS.items():
            base = f"/runs/{HOSTILE}/exchanges/{name}/attempts"
            for path in [*(f"{base}/1?view={view}" for view in ("pretty", "raw", "stream")), f"{base}/raw"]:
                await seen.open(path)
                await unharmed(seen, path)
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


async def test_names_labels_and_what_is_typed_are_shown_as_text(place, window):
    async with window(Role.CUSTODIAN) as seen:
        for number, (name, text) in enumerate(TYPED.items()):
            await seen.open(f"/runs/{HOSTILE}-{number}")
            await unharmed(seen, name)
            assert f"{name}={text}" in await seen.page.locator("main").text_content(), name
            await seen.open(f"/runs/find?q={quote(text, safe='')}", status=404)
            await unharmed(seen, name)
            assert await seen.page.get_by_label("Find by run").input_value() == text
        for text in (TYPED[name] for name in ("script", "attribute", "entities", "form")):
            typed = quote(text, safe="")
            for path, status in (
                (f"/runs?label={typed}", 200),
                (f"/runs?state={typed}", 400),
                (f"/accesses?key_id={typed}", 400),
                (f"/exports?runs={typed}", 200),
                (f"/runs/{HOSTILE}/compare?left={typed}&right=script", 400),
            ):
                await seen.open(path, status)
                await unharmed(seen, path)


async def test_ids_that_mean_something_elsewhere_are_only_ids(place, window):
    run, source, exchange, session, attempt = IDS
    async with window(Role.CUSTODIAN) as seen:
        base = f"/runs/{run}"
        for path in (
            base, f"{base}/gaps", f"{base}/compare", f"{base}/exchanges/{exchange}",
            f"{base}/exchanges/{exchange}/attempts/{attempt}", f"/parts/{place.parts['ids']}",
        ):  # fmt: skip
            await seen.open(path)
            await unharmed(seen, path)
        await seen.open(f"/parts/{place.parts['ids']}")
        text = await seen.text()
        assert all(each in text for each in (run, source, exchange, session, attempt))
        await seen.page.get_by_role("navigation", name="Where this is").get_by_role("link", name=run).click()
        await seen.page.wait_for_url("**/runs/javascript*alert-1")
        assert await seen.page.locator("main h1").inner_text() == run


async def test_purposes_are_shown_as_text_wherever_a_read_is(place, window):
    async with window(Role.CUSTODIAN) as seen:
        for name in ("script", "attribute", "template-of-ours", "form"):
            await seen.open("/session")
            await seen.page.get_by_label("What this session is for").fill(TYPED[name])
            await seen.page.get_by_role("button", name="Keep").click()
            await seen.page.wait_for_load_state()
            assert await seen.page.get_by_label("What this session is for").input_value() == TYPED[name]
            part = f"/parts/{place.parts['raw-script']}"
            for path in (f"/runs/{HOSTILE}/exchanges/script/attempts/raw", part, "/accesses", "/exports"):
                await seen.open(path)
                await unharmed(seen, path)
            await seen.open("/accesses")
            assert TYPED[name] in await seen.page.locator("tr[data-row]").first.text_content()


async def test_what_is_said_after_signing_in_leads_to_no_other_place(place, window):
    for wanted in (
        "https://collector.example/",
        "//collector.example/",
        "/\\collector.example",
        "javascript:1",
        INPUTS["script"],
    ):
        async with window() as seen:
            await seen.sign_in(place.keys[Role.REVIEWER], f"/sign-in?next={quote(wanted, safe='')}")
            assert seen.page.url.startswith(f"{place.console.url}/"), wanted
            await unharmed(seen, wanted)


async def test_comparing_hostile_attempts_runs_nothing_either(window):
    async with window(Role.REVIEWER) as seen:
        for name in INPUTS:
            await seen.open(f"/runs/{HOSTILE}/compare?left={name}/1&right=script/1")
            await unharmed(seen, name)
