"""The queue over time, as operators of the whole store see it: it fits, says what it draws, and needs no scripts."""

import re

import pytest
import pytest_asyncio

from policies.kinds import Role
from store.services.keys import COMMAND_LINE, Wanted
from tests.browser.seed import Place
from tests.browser.test_pictures import PLACE, taken
from tests.support.api import DAY

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

WINDOWS = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
# A week in which now and then far too much waits, with refusals that go with it, and with two times without notes.
WEEK = """
INSERT INTO queue_depths (minute, parts, notes, bytes_class, oldest_s, counts, queue)
SELECT date_trunc('minute', now(), 'UTC') - n * interval '1 minute', parts, parts / 9,
       CASE WHEN parts > 400 THEN 16777216 ELSE 1048576 END, CASE WHEN parts > 400 THEN 37.5 ELSE 0.02 * parts END,
       jsonb_build_object('capacity_exceeded', 100 * greatest(0, 40 - n) + 9 * (10080 - n) / 60 + 700 * (n < 2000)::int,
                          'content_opt_out', (10080 - n) / 7, 'part_too_large', (10080 - n) / 311),
       CASE WHEN n > 9000 THEN 'one' ELSE 'two' END
FROM (
    SELECT n, (30 + 28 * sin(n / 229.0)
               + CASE WHEN n BETWEEN 12 AND 33 OR n % 1999 < 9 THEN 800 ELSE n % 7 END)::int AS parts
    FROM generate_series(1, 10080) AS n
    WHERE n NOT BETWEEN 420 AND 600 AND n NOT BETWEEN 40 AND 47
) AS week
ON CONFLICT DO NOTHING
"""


@pytest_asyncio.fixture(loop_scope="session")
async def key(place: Place) -> str:
    """Return the text of a key of the whole store; a week of the queue is there."""
    await place.stack.rows(WEEK)
    services = await place.stack.services()
    return (await services.keys.create(Wanted(Role.OPERATOR, None, DAY), COMMAND_LINE)).text


async def test_each_window_fits_and_can_be_used_by_everybody(window, key: str):
    PLACE.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    async with window() as seen:
        await seen.sign_in(key)
        for word in WINDOWS:
            path = f"/desk/queue?window={word}"
            await seen.open(path)
            await seen.page.locator("details summary").click()
            for width in (390, 1280):
                faults += [f"{path} at {width}: {each}" for each in await seen.unfit(width)]
            for scheme in ("dark", "light"):
                await seen.page.emulate_media(color_scheme=scheme)
                faults += [f"{path} {scheme}: {each}" for each in await seen.barriers()]
            await seen.page.locator("details summary").click()
            await taken(seen, f"queue-{word}")
    assert not faults, "\n".join(faults)


async def test_it_works_without_scripts_and_says_what_it_draws(window, key: str):
    async with window(java_script_enabled=False) as seen:
        await seen.sign_in(key)
        await seen.open("/desk/queue")
        for word, name in WINDOWS.items():
            await seen.page.get_by_role("link", name=name).click()
            await seen.page.wait_for_url(f"**/desk/queue?window={word}*")
            told = [
                str(await each.get_attribute("aria-label"))
                for each in await seen.page.get_by_role("img").all()
            ]
            assert [each.partition(":")[0] for each in told] == ["Waiting", "Oldest waited", "Refused"]
            assert re.search(r"at most \d+, last \d+; .* gaps?,", told[0]), told
            assert "Content opt out: " in told[2]
            await seen.page.locator("details summary").click()
            assert await seen.page.locator("details tbody tr").count() > 40
