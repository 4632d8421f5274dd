"""Keys at the desk: made, seen once, confirmed by another, rotated, revoked; with scripts and without."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from policies.kinds import Role
from store.services.keys import COMMAND_LINE, Wanted
from tests.browser.seed import Place
from tests.browser.watch import Sight
from tests.support.api import DAY, bearer
from tests.support.stack import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

UNAUTHENTICATED = 401
CONFLICT = 409


async def made(seen: Sight, role: str, **fields: str) -> str:
    """Make a key as a person does, and return the text that the page shows."""
    await seen.open("/desk/keys")
    await seen.page.get_by_label(role, exact=True).check()
    for label, said in fields.items():
        await seen.page.get_by_label(label.capitalize(), exact=True).fill(said)
    await seen.page.get_by_role("button", name="Make the key").click()
    text = str(await seen.page.get_by_label("The key's text").inner_text()).strip()
    assert re.fullmatch(rf"ck_{role}_[0-9a-f]{{16}}_[\w-]+", text)
    return text


async def status_of(place: Place, text: str) -> int:
    """Ask the api who this is: a runtime may declare, which says whether its key is taken."""
    answer = await place.client.put("/v1/runs/desk-keys", headers=bearer(text), json={})
    return answer.status_code


def id_of(text: str) -> str:
    return text.split("_")[2]


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_key_is_seen_once_works_and_is_refused_after_it_was_revoked(place, window, scripts: bool):
    async with window(Role.OPERATOR, java_script_enabled=scripts) as seen:
        page = seen.page
        text = await made(seen, "runtime", note=f"nightly, {scripts}")
        assert await status_of(place, text) != UNAUTHENTICATED
        # Loading the page again sends its form again: it shows nothing, and makes no second key.
        rows = await keys_noted(place, f"nightly, {scripts}")
        answer = await page.reload()
        assert answer is not None
        assert answer.status == CONFLICT
        assert text not in await page.content()
        assert id_of(text) in await seen.text()
        assert await keys_noted(place, f"nightly, {scripts}") == rows == [id_of(text)]
        await seen.open("/desk/keys")
        assert text not in await page.content()

        await page.get_by_role("link", name=f"Revoke {id_of(text)}").click()
        await page.get_by_role("button", name="Revoke it").click()
        await expect(page.get_by_role("status").first).to_have_text("The key is revoked.")

        async def refused() -> bool:
            return await status_of(place, text) == UNAUTHENTICATED

        await until(refused, "the key is refused", 15)


async def keys_noted(place: Place, note: str) -> list[str]:
    services = await place.stack.services()
    return [row.key_id for row in await services.keys.listed(place.scope.scope_id) if row.note == note]


async def another_operator(place: Place) -> str:
    services = await place.stack.services()
    wanted = Wanted(Role.OPERATOR, place.scope.scope_id, DAY)
    return (await services.keys.create(wanted, COMMAND_LINE)).text


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_reviewers_key_signs_in_only_after_another_operator_confirmed_it(
    place, window, scripts: bool
):
    options: dict[str, Any] = {"java_script_enabled": scripts}
    async with (
        window(Role.OPERATOR, **options) as maker,
        window(**options) as second,
        window(**options) as reader,
    ):
        text = await made(maker, "reviewer", note="for Ada", clearances="board")
        await maker.open("/desk/keys")
        row = maker.page.locator("tr", has_text=id_of(text))
        await expect(row).to_contain_text("for another operator")
        assert await row.get_by_role("link", name="Confirm").count() == 0
        await reader.open("/sign-in")
        await reader.page.get_by_label("Key", exact=True).fill(text)
        await reader.page.get_by_role("button", name="Sign in").click()
        await reader.page.get_by_role("alert").wait_for()

        await second.sign_in(await another_operator(place))
        await second.open("/desk")
        await expect(second.page.locator(".needs")).to_contain_text("for a second operator")
        await second.open("/desk/keys")
        await second.page.get_by_role("link", name=f"Confirm {id_of(text)}").click()
        for said in ("for Ada", "board", "Two operators stand for such a key"):
            assert said in await second.text()
        if scripts:
            assert await second.barriers() == []
        await second.page.get_by_role("button", name="Confirm it").click()
        await expect(second.page.get_by_role("status").first).to_have_text("The key is confirmed.")

        # The console that confirmed it knows at once.
        await reader.sign_in(text)


async def test_a_rotated_key_has_two_good_secrets_until_the_older_one_is_retired(place, window):
    async with window(Role.OPERATOR) as seen:
        page = seen.page
        first = await made(seen, "runtime", note="rotated")
        await seen.open("/desk/keys")
        await page.get_by_role("link", name=f"Rotate {id_of(first)}").click()
        await page.get_by_role("button", name="Rotate it").click()
        second = (await page.get_by_label("The key's text").inner_text()).strip()
        answer = await page.reload()
        assert answer is not None
        assert answer.status == CONFLICT
        for text in (first, second):
            assert await status_of(place, text) != UNAUTHENTICATED
        await seen.open("/desk/keys")
        await page.get_by_role("link", name=f"Retire the older secret of {id_of(first)}").click()
        await page.get_by_role("button", name="Retire it").click()

        async def ended() -> bool:
            return await status_of(place, first) == UNAUTHENTICATED

        await until(ended, "the older secret is refused", 15)
        assert await status_of(place, second) != UNAUTHENTICATED


async def test_a_wrong_lifetime_is_said_at_its_field_and_the_form_stays_filled(window):
    async with window(Role.OPERATOR) as seen:
        page = seen.page
        await seen.open("/desk/keys")
        await page.get_by_label("auditor", exact=True).check()
        await page.get_by_label("Lifetime").fill("for ever")
        await page.get_by_label("Note").fill("for the audit")
        await page.get_by_role("button", name="Make the key").click()
        await expect(page.get_by_role("alert")).to_contain_text("Nothing was done")
        field = page.get_by_label("Lifetime")
        await expect(field).to_have_attribute("aria-invalid", "true")
        assert await field.input_value() == "for ever"
        assert await page.get_by_label("Note").input_value() == "for the audit"
        assert await page.get_by_label("auditor", exact=True).is_checked()
        await page.get_by_role("alert").get_by_role("link", name="Lifetime").click()
        assert await seen.barriers() == []
        for width in (390, 1280, 1920):
            assert await seen.unfit(width) == []
