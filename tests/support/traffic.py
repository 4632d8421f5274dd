"""A scope with an api and a client before it, and runtimes that post without pause until they are told to stop."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx

from policies.kinds import Role
from store.services.scopes import Scope
from tests.support.ledger import Runtime
from tests.support.loopback import PLAIN
from tests.support.stack import Proc, Stack


@dataclass
class Site:
    """One scope of a stack, an api to reach it by, and a runtime's key."""

    stack: Stack
    proc: Proc
    scope: Scope
    key: Mapping[str, str]
    client: httpx.AsyncClient

    async def runtime(self, run: str, **wishes: Any) -> Runtime:
        """A declared run."""
        runtime = Runtime(self.client, self.key, self.scope.scope_id, run)
        await runtime.declare(**wishes)
        return runtime

    async def restart_api(self) -> None:
        """Start another api; runtimes go on with it."""
        self.proc = await self.stack.api()
        self.client.base_url = self.proc.url


@asynccontextmanager
async def site(stack: Stack, **policy: object) -> AsyncIterator[Site]:
    """An api of the stack (the one that stands, or a new one) before a new scope."""
    starting = stack.standing or stack.start_api_somewhere()
    scope = await stack.scope(**policy)
    await stack.answering(starting)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    async with httpx.AsyncClient(
        base_url=starting.url, timeout=30, trust_env=False, limits=limits, verify=PLAIN
    ) as client:
        yield Site(stack, starting, scope, await stack.key(Role.RUNTIME, scope), client)


class Traffic:
    """Posts parts of several runs, in flushes and one by one, each run in its order."""

    def __init__(self, runtimes: Sequence[Runtime]) -> None:
        self._runtimes = runtimes
        self._open = asyncio.Event()
        self._busy = 0
        self._idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._open.set()
        self._tasks = [asyncio.create_task(self._post(runtime)) for runtime in self._runtimes]
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self.paused():
            for task in self._tasks:
                task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Everything that was sent has its answer, and nothing more is sent."""
        self._open.clear()
        while self._busy:
            self._idle.clear()
            await self._idle.wait()
        try:
            yield
        finally:
            self._open.set()

    async def _post(self, runtime: Runtime) -> None:
        while True:
            await self._open.wait()
            self._busy += 1
            try:
                await post_some(runtime)
            finally:
                self._busy -= 1
                self._idle.set()
            # A runtime works between its calls; this one calls less often the fuller the queue is.
            full = runtime.last.reason == "capacity_exceeded"
            await asyncio.sleep(0.2 if full else 0.01)


async def post_some(runtime: Runtime) -> None:
    """Post a flush or a single part; what the store will not remember is reported, as a runtime must."""
    if random.random() < 0.5:
        said = await runtime.flush([runtime.observe(content()) for _ in range(random.randint(1, 8))])
    else:
        said = [await runtime.put(runtime.observe(content()))]
    lost = [each for each in said if each.capture == "not_captured" and not each.recorded]
    if lost and all(each.reason == "capacity_exceeded" for each in lost):
        await runtime.report(lost, "client_queue_full")


def content() -> bytes:
    """Text of a size that parts have."""
    return b'{"text": "%s"}' % (b"word %d " % random.randint(0, 9)) * random.choice((1, 10, 100, 1000))
