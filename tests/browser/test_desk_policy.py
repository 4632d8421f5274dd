"""The policy of a scope: what a change does is said before it is saved, and nobody overwrites another's change."""

from dataclasses import dataclass
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from policies.kinds import Role
from store.services.keys import COMMAND_LINE, Wanted
from tests.browser.seed import Place
from tests.browser.watch import Sight
from tests.support.api import DAY, bearer
from tests.support.stack import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

CONFLICT = 409
BAD = 400


@dataclass(frozen=True, slots=True)
class Own:
    """A scope that no other test looks at, and keys of it."""

    name: str
    operator: str
    runtime: str


@pytest_asyncio.fixture(loop_scope="session")
async def own(place: Place) -> Own:
    services = await place.stack.services()
    scope = await services.scopes.create(f"policy-{uuid4().hex[:8]}", None, COMMAND_LINE)
    keys = [
        (await services.keys.create(Wanted(role, scope.scope_id, DAY), COMMAND_LINE)).text
        for role in (Role.OPERATOR, Role.RUNTIME)
    ]
    return Own(scope.name, *keys)


async def declared(place: Place, own: Own) -> httpx.Response:
    """Declare a run in the scope, by what is in force there; the api may know a policy for a second."""
    return await place.client.put(f"/v1/runs/r-{uuid4().hex[:8]}", headers=bearer(own.runtime), json={})


async def looked_at(seen: Sight) -> None:
    await seen.page.get_by_role("button", name="See what would change", exact=True).click()


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_change_is_explained_saved_and_then_in_force(place, window, own: Own, scripts: bool):
    async with window(java_script_enabled=scripts) as seen:
        page = seen.page
        await seen.sign_in(own.operator)
        await seen.open("/desk/scopes")
        await page.get_by_role("link", name=f"Policy of {own.name}").click()
        await page.get_by_label("Content, for runs that do not say").select_option("opt_out")
        await page.get_by_label("What a revocation closes is destroyed after").fill("never")
        await page.get_by_label("observable-output").uncheck()
        await looked_at(seen)
        cards = page.locator(".change")
        assert await cards.locator("h2").all_inner_texts() == [
            "Kinds that are taken", "Content, for runs that do not say", "What a revocation closes is destroyed after",
        ]  # fmt: skip
        assert await cards.locator(".badge").all_inner_texts() == ["stricter", "stricter", "looser"]
        for card in await cards.all():
            assert await card.locator("dt").all_inner_texts() == [
                "From then on", "What waits in the queue", "What is stored",
            ]  # fmt: skip
        await expect(cards.first).to_contain_text("becomes a gap when its turn comes")
        if scripts:
            assert await seen.barriers() == []
        for width in (390, 1280, 1920) if scripts else ():
            assert await seen.unfit(width) == []
        assert (await declared(place, own)).json()["content"] == "allow"

        await page.get_by_role("button", name="Put it in force").click()
        await expect(page.get_by_role("status").first).to_have_text("It is in force.")
        assert await page.get_by_label("Content, for runs that do not say").input_value() == "opt_out"
        assert "Version 2" in await seen.text()

        async def declares_by_it() -> bool:
            run = (await declared(place, own)).json()
            return (run["content"], run["kinds"], run["policy_version"]) == (
                "opt_out",
                ["logical-request"],
                2,
            )

        # The api knows what was in force a second ago, and a little longer where the database is slow.
        await until(declares_by_it, "the api declares by the new policy", 15)


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_wrong_policy_is_refused_by_field_and_what_was_typed_stays(window, own: Own, scripts: bool):
    async with window(java_script_enabled=scripts) as seen:
        page = seen.page
        await seen.sign_in(own.operator)
        await seen.open(f"/desk/scopes/{own.name}")
        await page.get_by_label("Longest retention").fill("soon")
        await page.get_by_label("Share of runs that is kept").fill("most")
        await page.get_by_text("Limits of runs").click()
        await page.get_by_label("Largest part").fill("much")
        await looked_at(seen)
        await expect(page.get_by_role("alert")).to_contain_text("This policy cannot stand")
        for label, said in (
            ("Longest retention", "soon"), ("Share of runs that is kept", "most"), ("Largest part", "much"),
        ):  # fmt: skip
            field = page.get_by_label(label, exact=True)
            await expect(field).to_be_visible()
            assert await field.input_value() == said
            await expect(field).to_have_attribute("aria-invalid", "true")
            await expect(
                page.locator(f"#f-{await field.get_attribute('name')}-fault".replace(".", r"\."))
            ).to_be_visible()
        if scripts:
            assert await seen.barriers() == []
        for width in (390, 1280, 1920) if scripts else ():
            assert await seen.unfit(width) == []

        await page.get_by_text("The same as text").click()
        text = page.get_by_label("The whole policy as JSON")
        await text.fill('{"sampling": 0.5, "retention": {"max": "never"}, "odd": 1}')
        await page.get_by_role("button", name="See what the text would change").click()
        for name in ("retention.max", "odd"):
            await expect(page.get_by_role("alert")).to_contain_text(name)
        await expect(text).to_be_visible()
        assert '"odd": 1' in await text.input_value()


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_policy_that_somebody_else_changed_meanwhile_is_not_overwritten(
    place, window, own: Own, scripts: bool
):
    options = {"java_script_enabled": scripts}
    async with window(**options) as slow, window(**options) as quick:
        for each in (slow, quick):
            await each.sign_in(own.operator)
            await each.open(f"/desk/scopes/{own.name}")
        await quick.page.get_by_label("Retention, for runs that do not say").fill("5d")
        await looked_at(quick)
        await slow.page.get_by_label("Share of runs that is kept").fill("0.5")
        await looked_at(slow)
        await quick.page.get_by_role("button", name="Put it in force").click()
        await expect(quick.page.get_by_role("status").first).to_have_text("It is in force.")

        await slow.page.get_by_role("button", name="Put it in force").click()
        told = slow.page.get_by_role("alert")
        await expect(told).to_contain_text("Somebody else changed this policy meanwhile")
        await expect(told).to_contain_text("in force 5d, yours 30d")
        assert await slow.page.get_by_label("Share of runs that is kept").input_value() == "0.5"
        if scripts:
            assert await slow.barriers() == []
        # Taking over the other's change and going on puts both in force.
        await slow.page.get_by_label("Retention, for runs that do not say").fill("5d")
        await looked_at(slow)
        assert await slow.page.locator(".change h2").all_inner_texts() == ["Share of runs that is kept"]
        await slow.page.get_by_role("button", name="Put it in force").click()
        await expect(slow.page.get_by_role("status").first).to_have_text("It is in force.")
        scope = (await place.stack.services()).scopes
        found = (await scope.by_name(own.name)).policy
        assert (found.sampling, found.retention_default_s) == (0.5, 5 * 86_400)
