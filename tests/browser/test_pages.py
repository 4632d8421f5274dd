"""Every page to which a link leads, for each role: it fits, keeps to itself, and can be used by everybody."""

import pytest

from policies.kinds import Role
from tests.browser.walk import walked

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

WIDTHS = (390, 1280, 1920)
STARTS = {Role.REVIEWER: ("/runs", "/session"), Role.OPERATOR: ("/runs", "/desk", "/session")}


@pytest.mark.parametrize("role", list(STARTS))
async def test_every_page_fits_keeps_to_itself_and_can_be_used_by_everybody(place, window, role: Role):
    faults: list[str] = []
    async with window(role) as seen:
        walk = await walked(seen.context.request, place.console.url, *STARTS[role])
        for path in walk.all_pages():
            await seen.open(path)
            for width in WIDTHS:
                faults += [f"{path} at {width}: {each}" for each in await seen.unfit(width)]
            for scheme in ("dark", "light"):
                await seen.page.emulate_media(color_scheme=scheme)
                found = await seen.barriers(colours_only=scheme != "dark")
                faults += [f"{path} {scheme}: {each}" for each in found]
            faults += [f"{path}: {each}" for each in await seen.harm()]
            seen.said.clear()
    assert not faults, "\n".join(faults)
    assert walk.pages["/runs"]
