"""With JavaScript off every page says the same, and every form works.

Finding, filters and pages without scripts are in test_finding.py, a gap and its reason in test_gaps.py.
"""

import re
from urllib.parse import urlsplit

import pytest

from policies.kinds import Role
from tests.browser.seed import MAIN
from tests.browser.walk import route_of, walked

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

# Every form that reviewers, custodians and auditors are shown, with where it is sent without scripts.
SENT = {
    "get /runs/find": "test_finding.py",
    "get /runs": "test_finding.py",
    "get /runs/{run:str}/compare": "reads_compares_and_exports",
    "get /accesses": "accesses_are_narrowed",
    "post /sign-in": "signs_in",
    "post /sign-out": "signs_in",
    "post /session/purpose": "purpose",
    "post /exports": "reads_compares_and_exports",
    "post /exports/{export:str}/bundle": "reads_compares_and_exports",
}
_FORM = re.compile(r"<form\b[^>]*>")
_ATTRIBUTE = re.compile(r'\b(method|action)="([^"]+)"')


def forms(text: str) -> set[str]:
    """Return the forms of a page, by method and route; without those that only close what they are in."""
    found = [dict(_ATTRIBUTE.findall(each)) for each in _FORM.findall(text)]
    return {f"{each['method']} {_sent_to(each['action'])}" for each in found if each["method"] != "dialog"}


def _sent_to(action: str) -> str:
    path = urlsplit(action).path
    # Routes are known by what answers GET.
    return {"/sign-out": "/sign-out", "/session/purpose": "/session/purpose"}.get(path) or (
        "/exports/{export:str}/bundle" if path.endswith("/bundle") else str(route_of(path))
    )


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR])
async def test_every_form_that_is_shown_is_one_that_is_sent_here(place, window, role: Role):
    async with window(role) as seen:
        request = seen.context.request
        starts = ("/runs", "/session") if role is Role.REVIEWER else ("/runs", "/session", "/accesses")
        walk = await walked(request, place.console.url, *starts)
        shown: set[str] = set()
        for path in [*walk.all_pages(), "/sign-in"]:
            shown |= forms(await (await request.get(place.console.url + path)).text())
    wanted = set(SENT) - ({"get /accesses"} if role is Role.REVIEWER else set())
    assert shown == wanted


async def test_a_reviewer_signs_in_and_out_here_and_everywhere(place, window):
    async with window(java_script_enabled=False) as here, window(java_script_enabled=False) as there:
        for seen in (here, there):
            await seen.sign_in(place.keys[Role.AUDITOR], "/log")
            assert seen.page.url == f"{place.console.url}/log"
        await here.page.get_by_role("button", name="Sign out", exact=True).click()
        assert "You are signed out." in await here.text()
        await here.open("/runs")
        assert "/sign-in?next=%2Fruns" in here.page.url
        await there.open("/session")
        await there.page.get_by_role("button", name="Sign out everywhere").click()
        assert "You are signed out." in await there.text()
        await there.open("/session")
        assert "/sign-in" in there.page.url


async def test_a_custodian_says_a_purpose_and_reads_what_is_held(window):
    async with window(Role.CUSTODIAN, java_script_enabled=False) as seen:
        await seen.open("/runs/gone-held/exchanges/x-1/attempts/1")
        assert "Say what you read for." in await seen.text()
        assert await seen.page.locator("#request pre").count() == 0
        await seen.page.get_by_label("Purpose").fill("case 12, without scripts")
        await seen.page.get_by_role("button", name="Read").click()
        assert seen.page.url.endswith("/runs/gone-held/exchanges/x-1/attempts/1")
        assert "gone-held" in await seen.page.locator("#request .message").last.inner_text()
        await seen.open("/session")
        await seen.page.get_by_label("What this session is for").fill("")
        await seen.page.get_by_role("button", name="Keep").click()
        await seen.open("/runs/gone-held/exchanges/x-1/attempts/1")
        assert "Say what you read for." in await seen.text()


async def test_accesses_are_narrowed_and_turned(place, window):
    async with window(Role.REVIEWER) as reviewer:
        for _ in range(3):
            await reviewer.open(f"/runs/{MAIN}/exchanges/plan/attempts/1")
    async with window(Role.CUSTODIAN, java_script_enabled=False) as seen:
        page = seen.page
        await seen.open("/accesses?limit=2")
        await page.get_by_role("link", name="Next page").click()
        assert "cursor=" in page.url
        assert await page.locator("tr[data-row]").count() == 2
        await page.get_by_role("link", name="First page").click()
        assert "cursor=" not in page.url
        await seen.open("/accesses")
        await page.get_by_label("Part", exact=True).fill(place.parts["request"])
        await page.get_by_label("Order").select_option("oldest")
        await page.get_by_role("button", name="Show").click()
        rows = page.locator("tr[data-row]")
        assert await rows.count() >= 3
        shown = {
            await each.get_attribute("href") for each in await page.locator("td[data-label=Part] a").all()
        }
        assert shown == {f"/parts/{place.parts['request']}"}
        times = [await each.get_attribute("datetime") or "" for each in await rows.locator("th time").all()]
        assert times == sorted(times)
        await page.get_by_label("Part", exact=True).fill("no reference")
        await page.get_by_role("button", name="Show").click()
        assert "a part is named by its evidence reference" in await page.get_by_role("alert").inner_text()


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
        walk = await walked(seen.context.request, place.console.url, "/runs", "/accesses")
        for path in {paths[0] for paths in walk.pages.values()}:
            await seen.open(path)
            heading = await seen.page.locator("main h1").inner_text()
            assert len(await seen.text()) > len(heading) + 20, path
            buttons = seen.page.locator("main button:not([data-copy], [data-copy-from])")
            assert await buttons.count() == await seen.page.locator("main form button").count(), path
