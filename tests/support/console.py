"""The console as browsers meet it, without a socket: its application, over a real database and a real queue."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import httpx

from console.app import Console, create_app
from policies.kinds import Role
from store.config import Settings
from store.ids import ScopeId
from store.services.keys import COMMAND_LINE, Wanted
from store.services.scopes import Scope
from store.wiring import Services
from tests.support.loopback import PLAIN

HERE = "http://console.test"
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Browser:
    """One browser: keeps cookies, follows nothing by itself, and sends forms as they stand in pages."""

    client: httpx.AsyncClient

    async def get(self, path: str, **parameters: str) -> httpx.Response:
        """Open a page."""
        return await self.client.get(path, params=parameters or None)

    async def post(self, path: str, page: str | None = None, **fields: str) -> httpx.Response:
        """Send a form with the token of `page`, or of the runs where none is given."""
        token = form_token((await self.get(page or "/runs")).text)
        return await self.client.post(path, data={"csrf": token, **fields})

    async def sign_in(self, text: str, wanted: str = "") -> httpx.Response:
        """Sign in with a key's text."""
        token = form_token((await self.get("/sign-in")).text)
        return await self.client.post("/sign-in", data={"csrf": token, "key": text, "next": wanted})


@dataclass(frozen=True, slots=True)
class Running:
    """A running console."""

    app: Console
    services: Services

    def browser(self, address: str = "127.0.0.1", **headers: str) -> Browser:
        """Open a browser that nobody has used before."""
        transport = httpx.ASGITransport(
            cast("Any", self.app), raise_app_exceptions=False, client=(address, 1234)
        )
        return Browser(httpx.AsyncClient(transport=transport, base_url=HERE, headers=headers, verify=PLAIN))

    async def scope(self, name: str = "scope-one", **policy: object) -> Scope:
        """Make a scope."""
        return await self.services.scopes.create(name, policy or None, COMMAND_LINE)

    async def key(self, role: Role, scope: ScopeId | None = None) -> str:
        """Make a key as the command line does, and return its text."""
        return (await self.services.keys.create(Wanted(role, scope, DAY), COMMAND_LINE)).text

    async def signed_in(self, role: Role, scope: ScopeId | None = None) -> Browser:
        """Open a browser and sign in with a new key."""
        browser = self.browser()
        answer = await browser.sign_in(await self.key(role, scope))
        assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
        return browser


@asynccontextmanager
async def console(settings: Settings) -> AsyncIterator[Running]:
    """Serve the console until the block ends."""
    app = create_app(settings)
    up, over = asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        # In a task of its own: a fixture may end in another one than it began in.
        async with app.lifespan():
            up.set()
            await over.wait()

    serving = asyncio.create_task(serve())
    await asyncio.wait({serving, waiting := asyncio.create_task(up.wait())}, return_when="FIRST_COMPLETED")
    waiting.cancel()
    try:
        if not serving.done():
            yield Running(app, app.state.services)
    finally:
        over.set()
        await serving


def form_token(html: str) -> str:
    """Return the token of the forms of a page."""
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', html)
    assert found, html
    return found[1]
