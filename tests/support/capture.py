"""A declared run to capture in, and raw sockets to look at what the server does with a body."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec

from store.services.scopes import Scope
from tests.support.api import Api, running, settings_for

REQUEST = "logical-request"
OUTPUT = "observable-output"


@dataclass
class Capturing:
    """A runtime with a key, and one run that it declared."""

    api: Api
    scope: Scope
    key: dict[str, str]
    run: str = "run-1"
    ticket: str = ""
    admission: dict[str, Any] = field(default_factory=dict)

    async def declare(self, run: str | None = None, **wishes: Any) -> dict[str, Any]:
        """Declare a run; from then on the captures here go to it."""
        self.run = run or self.run
        answer = await self.api.client.put(f"/v1/runs/{self.run}", json=wishes, headers=self.key)
        assert answer.is_success, answer.text
        self.admission = answer.json()
        self.ticket = self.admission["ticket"] or self.ticket
        return self.admission

    def path(self, exchange: str = "x-1", attempt: str = "a-1", kind: str = REQUEST) -> str:
        return f"/v1/runs/{self.run}/exchanges/{exchange}/attempts/{attempt}/parts/{kind}"

    def headers(self, **more: str) -> dict[str, str]:
        return {
            **self.key,
            "Custody-Ticket": self.ticket,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }

    async def put(
        self, content: bytes, exchange: str = "x-1", attempt: str = "a-1", kind: str = REQUEST, **headers: str
    ) -> httpx.Response:
        return await self.api.client.put(
            self.path(exchange, attempt, kind), content=content, headers=self.headers(**headers)
        )

    async def flush(self, *frames: list[Any], **headers: str) -> httpx.Response:
        return await self.api.client.post(
            f"/v1/runs/{self.run}/frames", content=msgspec.msgpack.encode(frames),
            headers=self.headers(content_type="application/msgpack", **headers),
        )  # fmt: skip

    async def gaps_waiting(self) -> list[str]:
        """Reasons of the gaps that wait in the queue, in order."""
        entries = await self.api.services.queue.take(0, "looking", 500, 1)
        return [str(entry.reason) for entry in entries if entry.type == "gap"]


@asynccontextmanager
async def capturing(
    database_url: str,
    redis_url: str,
    keys_dir: Path,
    policy: Mapping[str, Any] | None = None,
    **settings: str,
) -> AsyncIterator[Capturing]:
    """Serve the api with an hour's intake key, and declare `run-1` in a new scope."""
    async with running(settings_for(database_url, redis_url, keys_dir, **settings)) as api:
        api.services.keyring.create_intake_keys(datetime.now(UTC), ahead=1)
        scope = await api.scope(**(policy or {}))
        found = Capturing(api, scope, await api.runtime(scope))
        await found.declare()
        yield found


@dataclass(frozen=True, slots=True)
class Heard:
    """What a raw connection got back until the server closed it, or until it fell silent."""

    bytes: bytes
    closed: bool

    @property
    def status(self) -> int:
        """Status of the last answer; a 100 before it does not count."""
        heads = [line for line in self.bytes.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        return int(heads[-1].split()[1])

    @property
    def continued(self) -> bool:
        return b"HTTP/1.1 100" in self.bytes

    @property
    def reason(self) -> str:
        body = self.bytes.rpartition(b"\r\n\r\n")[2]
        return str(msgspec.json.decode(body)["reason"])


async def speak(port: int, request: bytes, *, silence_s: float = 2.0) -> Heard:
    """Send bytes as they are, and listen until the server closes or says nothing more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    heard = b""
    closed = False
    try:
        while chunk := await asyncio.wait_for(reader.read(65536), silence_s):
            heard += chunk
        closed = True
    except TimeoutError:
        pass
    finally:
        writer.close()
    return Heard(heard, closed)


def head(method: str, path: str, headers: Mapping[str, str] | list[tuple[str, str]]) -> bytes:
    """Write a request's head."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: custody",
        *(f"{name}: {value}" for name, value in pairs),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1")
