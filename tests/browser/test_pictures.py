"""Pictures of the main pages, for people to look at: `var/screenshots/`, light and dark, narrow and wide.

Two of them are in the README: those of `docs/screenshots/` are copies of what this makes under `readme-`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from policies.kinds import Role
from tests.browser.losses import LOSSES
from tests.browser.seed import GONE, HOSTILE, MAIN, SHARED
from tests.browser.watch import Sight

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

PLACE: Final = Path(__file__).parents[2] / "var" / "screenshots"
WAYS: Final = ((390, "light"), (390, "dark"), (1280, "light"), (1280, "dark"), (1920, "light"))
MOST_HIGH: Final = 2400
README_BYTES: Final = 150 << 10
REVIEWER: Final = {
    "runs": "/runs",
    "run": f"/runs/{MAIN}",
    "gaps": f"/runs/{MAIN}/gaps",
    "attempt": f"/runs/{MAIN}/exchanges/search/attempts/3",
    "stream": f"/runs/{MAIN}/exchanges/search/attempts/2?view=stream",
    "digits": f"/runs/{MAIN}/exchanges/numbers/attempts/1",
    "hostile": f"/runs/{HOSTILE}/exchanges/script/attempts/1",
    "refused": "/runs/gone/exchanges/revoked/attempts/1",
    "compare": f"/runs/{MAIN}/compare?left=search/1&right=search/3",
    "exports": "/exports",
    "log": "/log",
}
# States of the same pages, and those that are seen less often: each width once.
FEWER: Final = ((390, "light"), (1280, "dark"), (1920, "light"))
SELDOM: Final = {
    "compare-refused": f"/runs/{GONE}/compare?left=revoked/1&right=erased/1",
    "found": f"/runs/find?q={SHARED}",
    "not-found": "/runs/find?q=nightly-4",
    "narrowed": "/runs?label=team%3Dlosses",
    "no-run": "/runs?label=team%3Dnobody",
    "losses": f"/runs/{LOSSES}",
    "losses-gaps": f"/runs/{LOSSES}/gaps",
    "gone": f"/runs/{GONE}",
    "exchange": f"/runs/{MAIN}/exchanges/search",
    "nothing": f"/runs/{LOSSES}/exchanges/large/attempts/1",
    "session": "/session",
    "fault": "/runs/no-such-run",
}
README: Final = {"compare": (1200, 800), "attempt": (1200, 900)}


async def taken(seen: Sight, name: str, ways: Sequence[tuple[int, str]] = WAYS) -> None:
    for width, scheme in ways:
        await seen.page.emulate_media(color_scheme=scheme)
        await seen.page.set_viewport_size({"width": width, "height": 900})
        high = min(MOST_HIGH, int(await seen.page.evaluate("document.documentElement.scrollHeight")))
        clip = {"x": 0, "y": 0, "width": width, "height": max(high, 400)}
        picture = await seen.page.screenshot(
            path=PLACE / f"{name}-{width}-{scheme}.png", full_page=True, clip=clip
        )
        assert picture.startswith(b"\x89PNG")


async def test_pages_of_reviewers(place, window):
    PLACE.mkdir(parents=True, exist_ok=True)
    async with window() as seen:
        await seen.open("/sign-in")
        await taken(seen, "sign-in")
    async with window(Role.REVIEWER) as seen:
        for name, path in {**REVIEWER, "part": f"/parts/{place.parts['request']}"}.items():
            await seen.open(path)
            await taken(seen, name)
        for name, path in {**SELDOM, "export": f"/exports/{place.exports[Role.REVIEWER]}"}.items():
            await seen.open(path, status=None)
            await taken(seen, name, FEWER)
    async with window(Role.CUSTODIAN) as seen:
        for name, path in {
            "purpose": "/runs/gone-held/exchanges/x-1/attempts/1",
            "accesses": "/accesses",
            "part-read": f"/parts/{place.parts['request']}",
        }.items():
            await seen.open(path)
            await taken(seen, name, FEWER)


async def test_pages_of_operators(window):
    PLACE.mkdir(parents=True, exist_ok=True)
    async with window(Role.OPERATOR) as seen:
        await seen.open("/desk")
        await taken(seen, "desk")
        links = await seen.page.locator("nav.desk a").evaluate_all(
            "found => found.map(each => each.pathname)"
        )
        for path in links:
            await seen.open(path)
            await taken(seen, path.strip("/").replace("/", "-"))


async def test_the_two_of_the_readme_are_small(window):
    PLACE.mkdir(parents=True, exist_ok=True)
    async with window(Role.REVIEWER) as seen:
        for name, (width, height) in README.items():
            await seen.page.set_viewport_size({"width": width, "height": height})
            await seen.open(REVIEWER[name])
            picture = await seen.page.screenshot(path=PLACE / f"readme-{name}.png")
            assert len(picture) < README_BYTES, name
