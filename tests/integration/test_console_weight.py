"""No page of the console weighs more than 150 KiB before compression, whatever its lists hold, and it fetches little.

The scope here has what the limits allow: a run of 10,000 parts whose ids and labels are as long as they may be, with a
thousand gaps and a thousand sessions, and lists that fill their pages. Content has bounds of its own.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx
import pytest
import pytest_asyncio

from console.assets import ASSETS, address
from policies.kinds import Role
from store.ids import ScopeId
from store.services.content import MOST_PURPOSE
from tests.support import factories
from tests.support.api import settings_for
from tests.support.console import Browser, Running, console
from tests.support.databases import clone_of
from tests.support.exporting import ORIGIN
from tests.support.factories import Run
from tests.support.pages import PAGES, filled

in_module = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.timeout(300)

MOST_BYTES = 150 << 10
# All that a first visit fetches besides, and then nothing for a year: style, scripts, the mark.
MOST_STATIC_BYTES = 150 << 10

WAITING = 200
HEAVY = (Path(__file__).parent.parent / "support" / "heavy.sql").read_text()


@dataclass(frozen=True, slots=True)
class Heavy:
    """The console over that scope, as who signs in sees it; None: an operator of the whole store."""

    running: Running
    browsers: dict[Role | None, Browser]
    names: dict[str, str]

    async def weighed(self, route: str) -> AsyncIterator[tuple[Role | None, int]]:
        """Yield what a page weighs for each who reaches it; nothing for what is no page."""
        for role, browser in self.browsers.items():
            answer = await browser.get(filled(route, self.names))
            assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, role
            html = answer.headers.get("content-type", "").startswith("text/html")
            if answer.status_code == httpx.codes.OK and html:
                yield role, len(answer.content)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def heavy(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Heavy]:
    place: Path = tmp_path_factory.mktemp("heavy")
    keys = place / "keys"
    keys.mkdir(mode=0o700)
    async with (
        clone_of(postgres_url, template_database) as url,
        factories.house(url, keys) as house,
        console(settings_for(url, valkey_url, keys, log_origin=ORIGIN)) as running,
    ):
        await house.execute("UPDATE scopes SET name = 'heavy' WHERE scope_id = $1", house.scope)
        browsers: dict[Role | None, Browser] = {}
        for role in (Role.REVIEWER, Role.AUDITOR, Role.OPERATOR, None):
            scope = None if role is None else ScopeId(house.scope)
            browsers[role] = await running.signed_in(role or Role.OPERATOR, scope)
            await browsers[role].post("/session/purpose", "/session", purpose="&" * MOST_PURPOSE)
        owner = await asyncpg.connect(url)
        await owner.execute(HEAVY)
        await owner.execute("ANALYZE")
        await owner.close()
        await wait_in_queue(house, running)
        yield Heavy(running, browsers, await named(house))


async def wait_in_queue(house: factories.House, running: Running) -> None:
    """Let parts of the run wait, of other attempts than those that are stored."""
    row = (await house.rows("SELECT run, run_uid, retain_until FROM runs WHERE run_uid = md5('run0')::uuid"))[
        0
    ]
    run = Run(house.scope, row["run"], row["run_uid"], row["retain_until"])
    waiting = [
        house.part(run, b"{}", exchange=f"w{number:0>127}", attempt="w" * 128) for number in range(WAITING)
    ]
    await factories.queue_up(running.services.queue, run, waiting)


async def named(house: factories.House) -> dict[str, str]:
    async def one(sql: str) -> str:
        return str(await house.value(sql))

    return {
        "run": await one("SELECT run FROM runs WHERE run_uid = md5('run0')::uuid"),
        "exchange": "0".rjust(128, "x"),
        "attempt": "0".rjust(128, "x"),
        "evidence": await one("SELECT md5('part1')::uuid"),
        "form": "csv",
        "action": "0".rjust(128, "a"),
        "key_id": await one(
            "SELECT key_id FROM api_keys WHERE scope_id IS NOT NULL AND created_by = 'key' LIMIT 1"
        ),
        "source": "0".rjust(128, "x"),
        "name": "heavy",
        "hold": await one("SELECT hold_id FROM holds LIMIT 1"),
        "erasure": await one("SELECT erasure_id FROM erasures LIMIT 1"),
        "export": await one("SELECT export_id FROM exports LIMIT 1"),
    }


@pytest.mark.long
@in_module
@pytest.mark.parametrize("route", PAGES)
async def test_a_page_weighs_little_whatever_it_lists(heavy: Heavy, route: str):
    weights = {role: weight async for role, weight in heavy.weighed(route)}
    assert all(weight <= MOST_BYTES for weight in weights.values()), weights


@in_module
async def test_what_is_weighed_is_what_lists_are_full_of(heavy: Heavy):
    shown = (await heavy.browsers[Role.REVIEWER].get(f"/runs/{heavy.names['run']}")).text
    assert "9999 stored" in shown or "10000 stored" in shown
    assert "Next page" in shown
    assert "Next page" in (await heavy.browsers[Role.REVIEWER].get("/runs")).text
    for told in ("actions", f"actions/{heavy.names['action']}", "surface", "coverage", "delivery"):
        page = (await heavy.browsers[Role.REVIEWER].get(f"/runs/{heavy.names['run']}/{told}")).text
        assert "Next page" in page, told
    assert "Next page" in (await heavy.browsers[Role.REVIEWER].get(f"/runs/{heavy.names['run']}/gaps")).text


def test_what_a_first_visit_fetches_besides_weighs_little_and_is_kept():
    fetched = {name: len(asset.content) for name, asset in ASSETS.items() if not name.endswith(".txt")}
    assert sum(fetched.values()) <= MOST_STATIC_BYTES, fetched


@in_module
async def test_a_browser_keeps_what_is_named_by_its_bytes_and_nothing_else(heavy: Heavy):
    browser = heavy.browsers[Role.REVIEWER]
    for name, asset in ASSETS.items():
        assert asset.mark in address(name)
        kept = await browser.get(address(name))
        assert (kept.content, kept.headers["cache-control"]) == (
            asset.content,
            "public, max-age=31536000, immutable",
        )
        assert (await browser.get(f"/static/{name}")).headers["cache-control"] == "no-store"
        assert (await browser.get(f"/static/{name}?v=0123456789abcdef")).headers[
            "cache-control"
        ] == "no-store"
    page = (await browser.get("/runs")).text
    for linked in re.findall(r'(?:href|src)="(/static/[^"]+)"', page):
        assert re.fullmatch(r"/static/[\w.]+\?v=[0-9a-f]{16}", linked), linked
