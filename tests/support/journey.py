"""The whole way in one process: a real server, the queue, a writer that works when it is told to, and readers.

async with journey(postgres_url, template, valkey_url, directory) as way:
    runtime = await way.runtime("r-1")
    await runtime.put(b"content")
    await way.write()
    assert await way.content(runtime) == b"content"
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx

from policies.kinds import Role
from store.config import Settings
from store.db import DUTIES_ROLE, SERVICE_ROLE, Database
from store.queue import Queue
from store.services.buckets import ensure_buckets
from store.services.scopes import Scope
from store.services.standing import Duties
from store.services.verify import verify
from store.services.write_batch import BatchWriter
from tests.support import services as servers
from tests.support.api import Api, running, settings_for
from tests.support.capture import REQUEST, Capturing
from tests.support.databases import clone_of
from tests.support.duties import keyring_of
from tests.support.factories import SPAN_S, House

_MAX_DELIVERIES: Final = 3
# More rounds than deliveries: what still waits then waits for something.
_ROUNDS: Final = 2 * _MAX_DELIVERIES


@dataclass
class Journey:
    """A service whose writer stands still between `write` and `write`."""

    api: Api
    house: House
    url: str
    settings: Settings
    common: Scope | None = None
    keys: dict[tuple[Role, str], dict[str, str]] = field(default_factory=dict)

    @property
    def client(self) -> httpx.AsyncClient:
        return self.api.client

    @property
    def queue(self) -> Queue:
        return self.api.services.queue

    # --- who posts and who reads

    async def scope(self, **policy: object) -> Scope:
        """A scope of this policy, with its buckets and their keys."""
        # Few spans: each has a key, which is a file.
        document = {"retention": {"default": "1d", "max": "2d"}, **policy}
        scope = await self.api.scope(f"scope-{uuid4().hex[:12]}", **document)
        await ensure_buckets(self.house.duties, self.house.keyring, span_s=SPAN_S)
        return scope

    async def shared(self) -> Scope:
        """The scope of whoever needs none of his own."""
        if self.common is None:
            self.common = await self.scope()
        return self.common

    async def runtime(
        self,
        run: str | None = None,
        *,
        of: Scope | None = None,
        wishes: dict[str, Any] | None = None,
        **policy: object,
    ) -> Capturing:
        """A runtime with a declared run, in the scope that all share unless one or its policy is given."""
        scope = of or await (self.scope(**policy) if policy else self.shared())
        found = Capturing(self.api, scope, await self.key(Role.RUNTIME, scope))
        await found.declare(run or f"run-{uuid4().hex[:12]}", **(wishes or {}))
        return found

    async def key(self, role: Role, scope: Scope, *clearances: str) -> dict[str, str]:
        """The header of a key; the same one for the same role, scope and clearances."""
        named = role, f"{scope.scope_id}{sorted(clearances)}"
        if named not in self.keys:
            text = await self.api.key(role, scope.scope_id, clearances=frozenset(clearances))
            self.keys[named] = {"Authorization": f"Bearer {text}"}
        return self.keys[named]

    # --- what happens behind the api

    async def write(self) -> None:
        """Write everything that waits, until nothing is left that can be written."""
        writer = BatchWriter(self.house.persister(), max_deliveries=_MAX_DELIVERIES)
        for _ in range(_ROUNDS):
            entries = await self.queue.take(0, "journey", 512, 1)
            entries = entries or await self.queue.reclaim(0, "journey", 0, 512)
            if not entries:
                return
            written = await writer.write(entries)
            assert written.outage is None, written.outage
            await self.queue.settle(0, written.settlements)

    @property
    def duties(self) -> Duties:
        return Duties(self.house.duties, self.queue, self.house.keyring, self.settings, None)

    async def publish(self) -> None:
        """Sequence what waits for the proof log, and call it published, as if there were a publisher."""
        assert (await self.duties.perform("sequence")).succeeded
        await self.house.execute("UPDATE log_state SET published_size = size")

    async def sound(self) -> None:
        """Nothing waits, no reservation is left over, and everything that is stored is what it was committed to."""
        (depth,) = await self.queue.depth()
        assert (depth.parts, depth.bytes, depth.notes, depth.stream_length) == (0, 0, 0, 0)
        assert await self.queue.recount(0) == 0
        report = await verify(self.house.database, self.house.keyring, self.queue)
        assert report.sound, report.faults

    # --- reading

    async def get(
        self, path: str, runtime: Capturing, role: Role = Role.REVIEWER, **more: Any
    ) -> httpx.Response:
        headers = {**await self.key(role, runtime.scope), **more.pop("headers", {})}
        return await self.client.get(path, headers=headers, **more)

    async def json(self, path: str, runtime: Capturing, role: Role = Role.REVIEWER, **params: Any) -> Any:
        """What a reader is told, which must be good news."""
        answer = await self.get(path, runtime, role, params=params)
        assert answer.status_code == httpx.codes.OK, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.json()

    async def read(
        self, runtime: Capturing, exchange: str = "x-1", attempt: str = "a-1", kind: str = REQUEST
    ) -> httpx.Response:
        """What a reviewer gets who asks for the content of an identity."""
        return await self.get(f"{runtime.path(exchange, attempt, kind)}/content", runtime)

    async def content(
        self, runtime: Capturing, exchange: str = "x-1", attempt: str = "a-1", kind: str = REQUEST
    ) -> bytes:
        """The bytes that a reviewer gets, who must get them."""
        answer = await self.read(runtime, exchange, attempt, kind)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.content

    async def gaps(self, runtime: Capturing) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.json(f"/v1/runs/{runtime.run}/gaps", runtime, limit=200))[
            "items"
        ]
        return found


@asynccontextmanager
async def journey(
    postgres_url: str, template: str, valkey_url: str, directory: Path, **settings: str
) -> AsyncIterator[Journey]:
    """Serve the api over a database and a queue of its own; the kernel chooses the port."""
    servers.flush(valkey_url)
    keys = directory / "keys"
    keys.mkdir(mode=0o700)
    keyring = keyring_of(keys)
    async with clone_of(postgres_url, template) as url:
        used = settings_for(url, valkey_url, keys, **settings)
        service = await Database.open(url, role=SERVICE_ROLE, size=4)
        duties = await Database.open(url, role=DUTIES_ROLE, size=4)
        try:
            async with running(used) as api:
                house = House(url, service, duties, keyring, uuid4())
                house.keyring.create_intake_keys(datetime.now(UTC), 2)
                yield Journey(api, house, url, used)
        finally:
            await service.close()
            await duties.close()
