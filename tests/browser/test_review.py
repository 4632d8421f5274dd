"""What a reviewer does, with the mouse and the keyboard of a real browser."""

import json

import pytest

from custody_client.verify import Policy, verify_bundle
from policies.kinds import Role
from store.services.export.signing import bundle_signer, log_key, policy_text
from tests.browser.seed import DIGITS, GONE, MAIN

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

NUMBERS = f"/runs/{MAIN}/exchanges/numbers/attempts/1"


async def test_what_cannot_be_seen_is_made_visible_and_digits_stay(window):
    async with window(Role.REVIEWER) as seen:
        for view in ("pretty", "raw"):
            await seen.open(f"{NUMBERS}?view={view}")
            text = await seen.text()
            for digits in (DIGITS, "18446744073709551616", "-9223372036854775809", "1.0000000000000000001"):
                assert digits in text, (view, digits)
            assert "\u202e" not in text
            assert "\u200b" not in text
            assert "202E" in text.upper()
        assert "[[[[" in text


async def test_retries_are_compared_and_a_stream_is_shown_as_it_came(window):
    async with window(Role.REVIEWER) as seen:
        page = seen.page
        await seen.open(f"/runs/{MAIN}/exchanges/search/attempts/2?view=stream")
        assert "interrupted" in await seen.text()
        await page.keyboard.press("n")
        await page.wait_for_url("**/attempts/3**")
        await seen.open(f"/runs/{MAIN}/exchanges/search/attempts/3")
        assert DIGITS in await seen.text()
        await page.get_by_role("link", name="Compare with previous").click()
        await page.locator(".row-changed, .row-right").first.wait_for()
        assert "iVBORw0KGgo" not in await page.locator("main").inner_text()


async def test_a_custodian_reads_what_is_held_once_a_purpose_is_said(window):
    async with window(Role.CUSTODIAN) as seen:
        await seen.open("/runs/gone-held/exchanges/x-1/attempts/1")
        assert "A purpose is needed" in await seen.text()
        await seen.page.get_by_label("Purpose").fill("case 12")
        await seen.page.get_by_role("button", name="Read").click()
        await seen.page.locator("#request pre").first.wait_for()
        assert (
            "gone-held" in await seen.page.locator("#request pre").first.inner_text()
            or "gone-held" in await seen.text()
        )


async def test_a_bundle_is_fetched_and_verified_by_the_clients_verifier(place, window, tmp_path):
    services = await place.stack.services()
    async with services.database.connection() as connection:
        key = await log_key(connection)
    policy = policy_text(key, bundle_signer(services.keyring, services.settings.log_origin).key)
    async with window(Role.REVIEWER) as seen:
        await seen.open("/exports")
        await seen.page.get_by_label("Runs").fill(f"{MAIN} {GONE}")
        await seen.page.get_by_role("button", name="Ask").click()
        async with seen.page.expect_download() as coming:
            await seen.page.get_by_role("button", name="Fetch the bundle").click()
        bundle = tmp_path / "bundle.zip"
        await (await coming.value).save_as(bundle)
        await seen.page.locator("[data-state='given']").wait_for(timeout=30_000)
    report = verify_bundle(bundle, Policy.parse(policy.encode()), [])
    failed = [(item.kind, item.problem) for item in report.items if item.state.value == "failed"]
    assert not failed
    assert report.exit in {0, 3}


async def test_the_proof_of_a_part_is_checked_and_can_be_kept(place, window):
    async with window(Role.AUDITOR) as seen:
        await seen.open(f"/parts/{place.parts['request']}")
        assert await seen.page.locator("[data-proof]").get_attribute("data-proof") == "verified"
        async with seen.page.expect_download() as coming:
            await seen.page.get_by_role("link", name="Proof as text").click()
        kept = await (await coming.value).path()
        assert kept.read_text().startswith("c2sp.org/tlog-proof@v1")
        await seen.page.get_by_text("JSON", exact=True).click()
        assert (
            json.loads(await seen.page.locator("#json-text").inner_text())["evidence"]
            == place.parts["request"]
        )
