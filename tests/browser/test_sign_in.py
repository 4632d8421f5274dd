"""At the door."""

import pytest

from policies.kinds import Role

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


async def test_a_reviewer_signs_in_where_he_wanted_to_go_and_out_again(place, window):
    async with window() as seen:
        await seen.sign_in(place.keys[Role.REVIEWER], "/session?deep=1")
        assert seen.page.url == f"{place.console.url}/session?deep=1"
        cookie = next(each for each in await seen.context.cookies() if each["name"] == "custody-session")
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        await seen.page.get_by_role("button", name="Sign out", exact=True).click()
        await seen.page.get_by_text("You are signed out.").wait_for()
        await seen.page.go_back()
        assert "Your session" not in await seen.text()


async def test_what_is_no_key_is_refused_beside_the_field(window):
    async with window() as seen:
        await seen.open("/sign-in")
        await seen.page.get_by_label("Key", exact=True).fill("ck_reviewer_nothing")
        await seen.page.get_by_role("button", name="Sign in").click()
        await seen.page.get_by_role("alert").wait_for()
        assert "not a key that can sign in here" in await seen.text()
        assert await seen.page.get_by_label("Key", exact=True).input_value() == ""
