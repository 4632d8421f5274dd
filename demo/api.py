"""A thin HTTP client of Custody as a runtime, a reviewer or an operator would write it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from demo import asking

Json = dict[str, Any]


class Unexpected(Exception):
    """The service answered something that the demonstration has no use for."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(
            f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text[:300]}"
        )


@dataclass
class Api:
    """One key's view of the service."""

    http: httpx.AsyncClient
    key: str

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        expect: Sequence[int] = (200, 201, 202),
    ) -> httpx.Response:
        """Send one request; raise Unexpected for any status but those expected."""
        response = await self.http.request(
            method,
            path,
            json=body,
            content=content,
            headers={"Authorization": f"Bearer {self.key}", **(headers or {})},
        )
        if response.status_code not in expect:
            raise Unexpected(response)
        return response

    async def pages(self, path: str) -> AsyncIterator[Json]:
        """Walk a list from its first page to its last."""
        link: str | None = path
        while link is not None:
            page = (await self.call("GET", link)).json()
            for item in page["items"]:
                yield item
            following = page["page"]["next"] if "page" in page else page["next"]
            separator = "&" if "?" in path else "?"
            link = None if following is None else f"{path}{separator}cursor={quote(following)}"


@dataclass
class Part:
    """What the agent posted, kept to compare with what is read back."""

    run: str
    exchange: str
    attempt: str
    kind: str
    content: bytes
    number: int
    receipt: Json = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The part's address by identity."""
        return f"/v1/runs/{self.run}/exchanges/{self.exchange}/attempts/{self.attempt}/parts/{self.kind}"


@dataclass
class Run:
    """A declared run and its one session, which numbers what it tries to record."""

    api: Api
    name: str
    session: str
    ticket: str | None
    numbered: int = 0
    parts: list[Part] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)

    @classmethod
    async def declare(cls, api: Api, name: str, **wishes: Any) -> "Run":
        """Declare a run before its first call, as the README advises."""
        admission = (await api.call("PUT", f"/v1/runs/{name}", body=wishes)).json()
        return cls(api, name, f"session-{name}", admission["ticket"])

    def part(self, exchange: str, attempt: str, kind: str, content: bytes) -> Part:
        """Number an observation of this run."""
        self.numbered += 1
        part = Part(self.name, exchange, attempt, kind, content, self.numbered)
        self.parts.append(part)
        return part

    async def put(self, part: Part, **headers: str) -> Part:
        """Post one part by itself, asking before its body is sent; a refusal is an answer too."""
        said = {
            "Authorization": f"Bearer {self.api.key}",
            "Custody-Session": self.session,
            "Custody-Sequence": str(part.number),
            "Content-Type": "application/json",
            "Custody-Completeness": "complete",
            **{f"Custody-{name.replace('_', '-')}": value for name, value in headers.items()},
        }
        if self.ticket is not None:
            said["Custody-Ticket"] = self.ticket
        answer = await asking.put(str(self.api.http.base_url), part.path, said, part.content)
        found = json.loads(answer.content)
        part.receipt = found if "capture" in found else found["receipt"]
        return part

    async def flush(self, parts: Sequence[Part], frames: Sequence[list[Any]] = ()) -> None:
        """Post parts, and other frames after them, in one request; each part gets its receipt."""
        body = [self._frame(part) for part in parts]
        answer = await self.api.call(
            "POST",
            f"/v1/runs/{self.name}/frames",
            content=msgspec.msgpack.encode([*body, *frames]),
            headers={
                "Content-Type": "application/msgpack",
                "Custody-Ticket": self.ticket or "",
                "Custody-Session": self.session,
                "Custody-Sequences": ",".join(str(part.number) for part in parts),
            },
        )
        for part, receipt in zip(parts, answer.json()["receipts"], strict=False):
            part.receipt = receipt

    async def lose(self, count: int, reason: str) -> None:
        """Report observations that this agent itself lost."""
        first = self.numbered + 1
        self.numbered += count
        self.lost[reason] += count
        await self.api.call(
            "POST",
            f"/v1/runs/{self.name}/gaps",
            headers={"Custody-Ticket": self.ticket or ""},
            body={
                "gaps": [
                    {"session": self.session, "sequences": f"{first}-{self.numbered}", "reason": reason}
                ],
            },
        )

    async def close(self) -> None:
        """Say how many observations there were, so that what is missing can be found by counting."""
        await self.api.call(
            "POST", f"/v1/runs/{self.name}/close", body={"sessions": {self.session: self.numbered}}
        )

    async def settled(self, parts: Sequence[Part], timeout_s: float = 30) -> None:
        """Wait until none of the parts says `queued` any more; pacing by receipts, not by guessing."""
        async with asyncio.timeout(timeout_s):
            for part in parts:
                while part.receipt.get("capture") == "queued":
                    await asyncio.sleep(0.02)
                    part.receipt = (
                        await self.api.call("GET", f"/v1/receipts/{part.receipt['receipt']}")
                    ).json()

    def _frame(self, part: Part) -> list[Any]:
        return [
            "part",
            {
                "exchange": part.exchange,
                "attempt": part.attempt,
                "kind": part.kind,
                "sequence": part.number,
                "content-type": "application/json",
                "completeness": "complete",
            },
            part.content,
        ]
