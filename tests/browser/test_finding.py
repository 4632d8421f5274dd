"""From an id that somebody has to the run that it belongs to; and from the list, narrowed and turned, to a run."""

import csv
import json
import re

import pytest

from policies.kinds import Role
from tests.browser.seed import MAIN, NIGHT, NIGHTLY, REQUEST_ID, RESPONSE, SHARED, TRACE
from tests.browser.watch import Sight

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

PLAN = f"/runs/{MAIN}/exchanges/plan/attempts/1"
PAGE = 50
BATCH = "/runs?label=team%3Dbatch&mode=normal"


async def found(seen: Sight, text: str) -> None:
    await seen.open("/runs")
    await seen.page.get_by_label("Find by run").fill(text)
    await seen.page.get_by_role("button", name="Find").click()
    await seen.page.wait_for_url(lambda url: not url.endswith("/runs"))


async def rows(seen: Sight) -> list[str]:
    """Return what the rows of a list are called."""
    return [text.strip() for text in await seen.page.locator("tr[data-row] th").all_inner_texts()]


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize(
    ("text", "leads_to"),
    [
        pytest.param(MAIN, f"/runs/{MAIN}", id="run"),
        pytest.param(TRACE, PLAN, id="trace"),
        pytest.param(RESPONSE, PLAN, id="response"),
        pytest.param(f"  {REQUEST_ID} ", PLAN, id="request"),
    ],
)
async def test_an_id_with_one_hit_leads_into_its_run(place, window, scripts: bool, text: str, leads_to: str):
    async with window(Role.REVIEWER, java_script_enabled=scripts) as seen:
        await found(seen, text)
        assert seen.page.url == place.console.url + leads_to
        await seen.page.get_by_role("navigation", name="Where this is").get_by_text(MAIN).wait_for()


async def test_an_evidence_reference_leads_to_its_part(place, window):
    async with window(Role.REVIEWER) as seen:
        await found(seen, place.parts["request"].upper())
        assert seen.page.url == f"{place.console.url}/parts/{place.parts['request']}"


@pytest.mark.parametrize("scripts", [True, False])
async def test_an_id_with_several_hits_shows_each_and_where_it_is(window, scripts: bool):
    async with window(Role.REVIEWER, java_script_enabled=scripts) as seen:
        await found(seen, SHARED)
        assert "These attempts carry that reference." in await seen.text()
        assert sorted(await rows(seen)) == [f"search / {attempt}" for attempt in (1, 2, 3)]
        assert await seen.page.locator("#q").input_value() == SHARED
        await seen.page.get_by_role("link", name="search / 2").click()
        await seen.page.wait_for_url(f"**/runs/{MAIN}/exchanges/search/attempts/2")


async def test_more_hits_than_a_page_shows_are_turned_to_the_last(window):
    async with window(Role.REVIEWER) as seen:
        await found(seen, NIGHT)
        runs = set(await seen.page.locator("td[data-label=Run]").all_inner_texts())
        await seen.page.get_by_role("link", name="Next page").click()
        await seen.page.wait_for_url("**cursor=**")
        runs |= set(await seen.page.locator("td[data-label=Run]").all_inner_texts())
        assert runs == {f"nightly-{number:02}" for number in range(NIGHTLY)}
        assert await seen.page.get_by_role("link", name="Next page").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
async def test_an_id_with_no_hit_says_so_and_what_begins_like_it(window, scripts: bool):
    async with window(Role.REVIEWER, java_script_enabled=scripts) as seen:
        await found(seen, "ffffffffffffffffffffffffffffffff")
        assert "Nothing in this scope has that id." in await seen.text()
        assert await seen.page.locator("tr[data-row]").count() == 0
        await seen.page.locator("#q").fill("nightly-4")
        await seen.page.get_by_role("button", name="Find").click()
        near = seen.page.locator("li[data-row]")
        await near.first.wait_for()
        assert {each.strip() for each in await near.all_inner_texts()} <= {
            f"nightly-{n}" for n in range(40, 50)
        }
        await near.first.get_by_role("link").click()
        await seen.page.wait_for_url("**/runs/nightly-4*")


async def test_runs_that_begin_so_are_offered_while_somebody_types(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open("/runs")
        await seen.page.locator("#q").press_sequentially("report-20")
        await seen.page.locator(f"#near option[value='{MAIN}']").wait_for(state="attached")


@pytest.mark.parametrize("scripts", [True, False])
async def test_filters_are_in_the_address_and_survive_a_reload_and_a_stranger(place, window, scripts: bool):
    async with window(Role.REVIEWER, java_script_enabled=scripts) as seen:
        page = seen.page
        await seen.open("/runs")
        await page.get_by_label("Label").fill("team=search")
        await page.get_by_label("State").select_option("closed")
        await page.get_by_label("Outcome").select_option("not_captured")
        await page.get_by_label("Reason").select_option("part_too_large")
        await page.get_by_label("Declared from (UTC)").fill("2020-01-01T10:20:30")
        await page.get_by_role("button", name="Show").click()
        await page.wait_for_url("**label=team*")
        assert await rows(seen) == [MAIN]
        address = page.url
        await page.reload()
        assert await rows(seen) == [MAIN]
        assert await page.get_by_label("Label").input_value() == "team=search"
        assert await page.get_by_label("Reason").input_value() == "part_too_large"
        assert await page.get_by_label("Declared from (UTC)").input_value() == "2020-01-01T10:20:30"
        await page.get_by_role("link", name="All", exact=True).click()
        await page.wait_for_url("**/runs")
        assert len(await rows(seen)) == PAGE
    # Whoever was sent the address signs in, and is where it leads.
    async with window(java_script_enabled=scripts) as seen:
        await seen.sign_in(place.keys[Role.REVIEWER], address.removeprefix(seen.origin))
        assert seen.page.url == address
        assert await rows(seen) == [MAIN]


@pytest.mark.parametrize("scripts", [True, False])
async def test_pages_follow_each_other_without_a_row_twice_or_left_out(window, scripts: bool):
    async with window(Role.REVIEWER, java_script_enabled=scripts) as seen:
        page = seen.page
        await seen.open(BATCH)
        first = await rows(seen)
        assert len(first) == PAGE
        await page.get_by_role("link", name="Next page").click()
        await page.wait_for_url("**cursor=**")
        second = await rows(seen)
        assert [*first, *second] == [f"nightly-{number:02}" for number in reversed(range(NIGHTLY))]
        await page.reload()
        assert await rows(seen) == second
        assert await page.get_by_label("Label").input_value() == "team=batch"
        await page.get_by_role("link", name="Previous page").click()
        await page.wait_for_url("**back=**")
        assert await rows(seen) == first


async def test_the_list_is_kept_as_a_file_with_the_filters_of_the_page(window, tmp_path):
    async with window(Role.REVIEWER) as seen:
        await seen.open(BATCH)
        kept = {}
        for form in ("CSV", "JSONL"):
            async with seen.page.expect_download() as coming:
                await seen.page.get_by_role("link", name=form, exact=True).click()
            kept[form] = await (await coming.value).path()
        names = [f"nightly-{number:02}" for number in reversed(range(NIGHTLY))]
        with kept["CSV"].open(newline="") as lines:
            assert [row["run_id"] for row in csv.DictReader(lines)] == names
        assert [json.loads(line)["run_id"] for line in kept["JSONL"].read_text().splitlines()] == names


async def test_a_page_that_is_over_says_so_and_where_to_begin(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open("/runs?cursor=AAAA", status=400)
        assert re.search("This page of a list is over.*Begin at the first page", await seen.text(), re.DOTALL)
