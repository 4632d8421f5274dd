"""A library to read from: the api in this process, and a house whose writer stores parts as the service does.

async with library(database_url, redis_url, keys_dir) as shelf:
    evidence = await shelf.store(await shelf.house.declare(), b"content")
    await shelf.get(f"/v1/parts/{evidence}/content", await shelf.key(Role.REVIEWER))
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from litestar import Litestar

from policies.kinds import Role
from store.api.app import create_app
from store.ids import ScopeId
from store.queue import Entry
from tests.support import factories
from tests.support.api import Api, bearer, settings_for
from tests.support.factories import House, Run, evidence_of
from tests.support.loopback import PLAIN

Headers = Mapping[str, str]
URL = "http://custody.test"


@dataclass(frozen=True, slots=True)
class Library:
    """An api and the house behind it."""

    api: Api
    house: House

    async def key(self, role: Role, scope: UUID | None = None, *clearances: str) -> dict[str, str]:
        """The header of a new key, of the house's scope unless another is named."""
        made = await self.api.key(role, ScopeId(scope or self.house.scope), clearances=frozenset(clearances))
        return bearer(made)

    async def store(self, run: Run, content: bytes, **facts: Any) -> UUID:
        """Store one part through the writer's own transaction."""
        entry = self.house.part(run, content, **facts)
        await self.persist([entry])
        return evidence_of(entry)

    async def persist(self, entries: Sequence[Entry]) -> None:
        done = await self.house.persister().persist(list(entries))
        assert {each.outcome for each in done.settlements} <= {"stored", "noted"}, done

    async def get(self, path: str, headers: Headers, **more: Any) -> httpx.Response:
        return await self.api.client.get(path, headers=dict(headers), **more)

    async def json(self, path: str, headers: Headers, **params: Any) -> Any:
        """The body of an answer that must be a good one."""
        response = await self.get(path, headers, params=params)
        assert response.status_code == httpx.codes.OK, response.text
        assert response.headers["cache-control"] == "no-store"
        return response.json()


def identity_path(run: Run, exchange: str = "exchange-1", kind: str = factories.REQUEST) -> str:
    return f"/v1/runs/{run.run}/exchanges/{exchange}/attempts/attempt-1/parts/{kind}"


@asynccontextmanager
async def _started(app: Litestar) -> AsyncIterator[None]:
    """Start the application and stop it in one task, which the two halves of a fixture are not."""
    started, over = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            started.set()
            await over.wait()

    task = asyncio.create_task(live())
    waiting = asyncio.create_task(started.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield
    finally:
        over.set()
        waiting.cancel()
        await task


@asynccontextmanager
async def library(
    database_url: str, redis_url: str, keys_dir: Path, **changed: str
) -> AsyncIterator[Library]:
    """Open one on servers of a test's own. The HTTP server is left out: what it does is tested elsewhere."""
    app = create_app(settings_for(database_url, redis_url, keys_dir, **changed))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)  # type: ignore[arg-type] # the same interface, named apart
    async with (
        factories.house(database_url, keys_dir) as house,
        _started(app),
        httpx.AsyncClient(base_url=URL, transport=transport, verify=PLAIN) as client,
    ):
        yield Library(Api(URL, 0, app.state.services, client), house)
