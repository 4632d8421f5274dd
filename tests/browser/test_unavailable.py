"""Each way in which content cannot be read, as a reviewer meets it: in its place, in words, with what to do."""

import pytest

from console import words
from policies.kinds import Role
from policies.reasons import MEMBERS, Family, Reason
from tests.browser.seed import GONE, MAIN

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

# By what its exchange is called in the run of what is gone: what a reviewer is told in the place of the content.
UNAVAILABLE = {
    f"{GONE}/exchanges/revoked": Reason.SOURCE_UNAVAILABLE,
    f"{GONE}/exchanges/withdrawn": Reason.DEPENDENCY_CHANGED,
    f"{GONE}/exchanges/not-cleared": Reason.PERMISSION_DENIED,
    f"{GONE}/exchanges/erased": Reason.ERASED,
    f"{GONE}/exchanges/changed": Reason.INTEGRITY_MISMATCH,
    f"{GONE}/exchanges/restored": Reason.LOST_IN_RESTORE,
    "gone-expired/exchanges/x-1": Reason.RETENTION_EXPIRED,
    "gone-held/exchanges/x-1": Reason.EXPIRED_HELD,
    "gone-key/exchanges/x-1": Reason.KEY_LOST,
}
# Damage is found when a part is read, and not before.
FOUND_BY_READING = {Reason.INTEGRITY_MISMATCH, Reason.KEY_LOST}
# Where there is no part: tests of gaps meet the one, one below the other.
OTHERWISE = {Reason.NOT_STORED, Reason.NOT_FOUND}


async def test_every_reason_for_which_a_read_is_refused_is_met():
    assert {*UNAVAILABLE.values(), *OTHERWISE} >= set(MEMBERS[Family.READ])


@pytest.mark.parametrize(("where", "reason"), UNAVAILABLE.items())
async def test_what_is_not_readable_is_a_state_in_the_place_of_the_content(
    place, window, where: str, reason: Reason
):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{where}/attempts/1")
        state = seen.page.locator("#request .state")
        assert await state.get_attribute("data-reason") == reason
        said, text = words.at_read(reason), await state.inner_text()
        assert all(each in text for each in (said.name, said.sentence, said.advice, "Looked at"))
        banner = await seen.page.get_by_role("region", name="Reading is recorded").inner_text()
        assert "No content is shown: every read was refused." in banner
        assert "You are reading content" not in await seen.text()
        assert await seen.page.get_by_role("navigation", name="View of the content").count() == 0
        await state.get_by_role("link").first.click()
        await seen.page.wait_for_url("**/parts/*")
        asked = seen.page.locator("[data-availability]")
        found = await asked.get_attribute("data-availability")
        assert found == ("readable" if reason in FOUND_BY_READING else reason)
        assert "Proof log" in await seen.page.content()
    assert await recorded(place, seen.page.url.rpartition("/")[2]) >= {reason}


async def recorded(place, evidence: str) -> set[str]:
    said = await place.call("GET", f"/v1/accesses?evidence={evidence}", Role.AUDITOR)
    return {item["outcome"] for item in said["items"]}


async def test_the_picture_of_a_run_leads_to_why_each_part_cannot_be_read(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{GONE}")
        reasons = {reason for where, reason in UNAVAILABLE.items() if where.startswith(f"{GONE}/")}
        for reason in reasons - FOUND_BY_READING:
            link = seen.page.locator(f"svg.for-wide a[href='#read-{reason}']")
            assert words.at_read(reason).name in (await link.get_attribute("aria-label") or "")
            await link.click()
            there = await seen.page.locator(f"[id='read-{reason}']").inner_text()
            assert words.at_read(reason).advice in there


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/runs/no-such-run", 404, Reason.NOT_FOUND),
        (f"/runs/{MAIN}/exchanges/plan/attempts/77", 404, Reason.NOT_FOUND),
        ("/parts/01900000-0000-7000-8000-000000000000", 404, Reason.NOT_FOUND),
        ("/no/such/page", 404, Reason.NOT_FOUND),
        ("/runs?order=up", 400, Reason.MALFORMED_REQUEST),
        (f"/runs/{MAIN}/exchanges/plan/attempts/1?view=upside-down", 400, Reason.MALFORMED_REQUEST),
        ("/runs?cursor=AAAA", 400, Reason.CURSOR_INVALID),
        ("/accesses", 403, Reason.PERMISSION_DENIED),
        ("/desk", 403, Reason.PERMISSION_DENIED),
    ],
)
async def test_what_is_no_page_says_why_and_leads_back(window, path: str, status: int, reason: Reason):
    async with window(Role.REVIEWER) as seen:
        await seen.open(path, status)
        state = seen.page.locator("main .state")
        assert await state.get_attribute("data-reason") == reason
        said, text = words.at_read(reason), await seen.text()
        assert all(each in text for each in (said.name, said.sentence, said.advice))
        await seen.page.get_by_role("link", name="To the runs").click()
        await seen.page.wait_for_url("**/runs")


async def test_a_session_that_is_over_leads_to_the_door_and_back_again(place, window):
    async with window(Role.REVIEWER) as seen:
        await seen.open(f"/runs/{MAIN}")
        await seen.context.clear_cookies()
        await seen.page.get_by_role("link", name="Gaps").click()
        await seen.page.wait_for_url("**/sign-in?next=*")
        await seen.page.get_by_label("Key", exact=True).fill(place.keys[Role.REVIEWER])
        await seen.page.get_by_role("button", name="Sign in").click()
        await seen.page.wait_for_url(f"{place.console.url}/runs/{MAIN}/gaps")


async def test_a_read_that_had_to_say_a_purpose_and_did_not_is_recorded_as_that(window):
    async with window(Role.CUSTODIAN) as seen:
        await seen.open("/runs/gone-held/exchanges/x-1/attempts/1")
        await seen.page.get_by_role("link", name="Proof and accesses").click()
        await seen.page.wait_for_url("**/parts/*")
        assert "No purpose said" in await seen.page.locator("table.accesses tr[data-row]").first.inner_text()


async def test_an_attempt_of_which_nothing_is_stored_says_that_nothing_was_read(window):
    async with window(Role.REVIEWER) as seen:
        await seen.open("/runs/losses/exchanges/large/attempts/1")
        banner = await seen.page.get_by_role("region", name="Reading is recorded").inner_text()
        assert "Nothing was read." in banner
        assert "You are reading content" not in await seen.text()


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.OPERATOR])
async def test_whose_role_never_reads_content_is_told_so_and_reads_nothing(window, role: Role):
    async with window(role) as seen:
        if role is Role.OPERATOR:
            await seen.open("/session")
            await seen.page.get_by_label("What this session is for").fill("a look")
            await seen.page.get_by_role("button", name="Keep").click()
        await seen.open(f"/runs/{MAIN}/exchanges/plan/attempts/1")
        assert (
            f"Your role, {role.value}, sees what is known about content, and never content itself."
            in await seen.text()
        )
        assert "monthly report" not in await seen.page.content()
        for side in ("request", "output"):
            state = seen.page.locator(f"#{side} .state")
            assert await state.get_attribute("data-reason") == Reason.PERMISSION_DENIED
