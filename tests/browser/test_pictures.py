"""Pictures of the main pages, for people to look at: `var/screenshots/`, light and dark, narrow and wide.

Two of them are in the README: those of `docs/screenshots/` are copies of what this makes under `readme-`.
"""

from pathlib import Path
from typing import Final

import pytest

from policies.kinds import Role
from tests.browser.seed import HOSTILE, MAIN
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
README: Final = {"compare": (1200, 800), "attempt": (1200, 900)}


async def taken(seen: Sight, name: str) -> None:
    for width, scheme in WAYS:
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
