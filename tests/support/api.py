"""The api as callers meet it: a real server on a port of its own, over a real database and a real queue."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import msgspec
from granian.constants import Interfaces
from granian.server.embed import Server

from policies.kinds import Role
from store.api.app import create_app
from store.config import Settings
from store.ids import ScopeId
from store.services.keys import COMMAND_LINE, Wanted
from store.services.scopes import Scope
from store.wiring import Services, open_services
from tests.support.loopback import PLAIN

DAY = timedelta(days=1)


def settings_for(database_url: str, redis_url: str, keys_dir: Path, **changed: str) -> Settings:
    """Settings of a process against these servers; changes are as one would write them."""
    written = {
        "database_url": database_url,
        "redis_url": redis_url,
        "keys_dir": str(keys_dir),
        "data_dir": str(keys_dir.parent),
        "host": "127.0.0.1",
        "db_pool": "4",
        **changed,
    }
    return Settings.load({f"CUSTODY_{name.upper()}": value for name, value in written.items()})


@dataclass(frozen=True, slots=True)
class Api:
    """A running api; `services` are another process's, so to say, for setting things up and looking at them."""

    url: str
    port: int
    services: Services
    client: httpx.AsyncClient

    async def scope(self, name: str = "scope-one", **policy: object) -> Scope:
        """Make a scope."""
        return await self.services.scopes.create(name, policy or None, COMMAND_LINE)

    async def key(
        self, role: Role, scope: ScopeId | None = None, *, clearances: frozenset[str] = frozenset()
    ) -> str:
        """Make a key as the command line does, and return its text."""
        made = await self.services.keys.create(Wanted(role, scope, DAY, clearances), COMMAND_LINE)
        return made.text

    async def runtime(self, scope: Scope) -> dict[str, str]:
        """Return the headers of a new runtime key."""
        return bearer(await self.key(Role.RUNTIME, scope.scope_id))


def bearer(text: str) -> dict[str, str]:
    """Return the header that shows a key."""
    return {"Authorization": f"Bearer {text}"}


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Api]:
    """Serve the api until the block ends; the kernel chooses the port."""
    port = _free_port()
    server = Server(create_app(settings), address="127.0.0.1", port=port, interface=Interfaces.ASGI)
    serving = asyncio.create_task(server.serve())
    url = f"http://127.0.0.1:{port}"
    try:
        async with (
            open_services(settings) as services,
            httpx.AsyncClient(base_url=url, timeout=10, trust_env=False, verify=PLAIN) as client,
        ):
            await _answering(client, serving)
            yield Api(url, port, services, client)
    finally:
        server.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(serving, 10)


async def _answering(client: httpx.AsyncClient, serving: "asyncio.Task[None]") -> None:
    for _ in range(200):
        if serving.done():
            await serving
        with contextlib.suppress(httpx.TransportError):
            if (await client.get("/livez")).status_code == httpx.codes.OK:
                return
        await asyncio.sleep(0.05)
    raise AssertionError("the api did not answer")


def _free_port() -> int:
    import socket  # noqa: PLC0415 - only here

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def problem(response: httpx.Response) -> dict[str, object]:
    """Return the problem that a response is, checked for what every problem has."""
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    found: dict[str, object] = msgspec.json.decode(response.content, type=dict)
    assert {"type", "title", "status", "detail", "reason", "retryable"} <= found.keys()
    assert found["status"] == response.status_code
    return found
