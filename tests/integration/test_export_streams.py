"""Bundles over a real connection: as fast as they are taken, while somebody is there, whole or without an end."""

import asyncio
import io
import os
import socket
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from policies.kinds import Role
from policies.reasons import Reason
from store.api import exports
from store.errors import Unavailable
from store.ids import ScopeId
from store.services.export import sending
from store.services.export.bag import Bag
from store.services.export.parts import PartReads
from store.services.exports import AT_ONCE
from tests.support import factories
from tests.support.api import Api, bearer, problem, running, settings_for
from tests.support.exporting import files, published
from tests.support.factories import House, evidence_of
from tests.support.stack import until

PARTS = 40
BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Office:
    """A server, and a bundle of ten megabytes that it can make."""

    api: Api
    house: House
    key: dict[str, str]
    evidence: Sequence[UUID]
    connected: list[socket.socket] = field(default_factory=list)

    async def ask(self, *evidence: UUID) -> str:
        wanted = [str(each) for each in evidence or self.evidence]
        asked = await self.api.client.post("/v1/exports", json={"evidence": wanted}, headers=self.key)
        assert asked.status_code == httpx.codes.CREATED, asked.text
        return str(asked.json()["bundle"])

    async def receive(self, path: str, received: bytearray) -> None:
        """Take a bundle as far as it comes."""
        async with self.api.client.stream("GET", path, headers=self.key) as answer:
            assert answer.status_code == httpx.codes.OK
            async for piece in answer.aiter_bytes():
                received += piece

    async def read(self) -> int:
        return await self.house.count("accesses")

    async def connect(self, path: str) -> socket.socket:
        """Ask for a bundle, and take nothing of it."""
        taken = socket.socket()
        self.connected.append(taken)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        taken.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(taken, ("127.0.0.1", self.api.port))
        head = f"GET {path} HTTP/1.1\r\nHost: custody\r\nAuthorization: {self.key['Authorization']}\r\n\r\n"
        await loop.sock_sendall(taken, head.encode())
        return taken


@pytest.fixture
async def office(database_url: str, redis_url: str, keys_dir: Path, tmp_path: Path) -> AsyncIterator[Office]:
    async with (
        factories.house(database_url, keys_dir) as house,
        running(settings_for(database_url, redis_url, keys_dir, key_refresh="100ms")) as api,
    ):
        run = await house.declare()
        entries = [house.part(run, os.urandom(BYTES), exchange=f"x-{number}") for number in range(PARTS)]
        await house.persister().persist(entries)
        await published(house.duties, tmp_path / "mirror")
        key = bearer(await api.key(Role.REVIEWER, ScopeId(house.scope)))
        opened = Office(api, house, key, [evidence_of(entry) for entry in entries])
        yield opened
        for taken in opened.connected:
            taken.close()


async def standstill(office: Office) -> int:
    """How many parts were read, once no more are."""
    seen = [0]
    while len(seen) < 5 or seen[-1] == 0 or len(set(seen[-5:])) > 1:
        await asyncio.sleep(0.25)
        seen.append(await office.read())
    return seen[-1]


async def test_who_takes_nothing_lets_nothing_be_read_and_who_leaves_makes_room(office, monkeypatch):
    held: list[int] = []
    take = Bag.take

    def noted(bag: Bag) -> bytes:
        piece = take(bag)
        held.append(len(piece))
        return piece

    monkeypatch.setattr(Bag, "take", noted)
    waiting, *_ = [await office.connect(await office.ask()) for _ in range(AT_ONCE)]

    async def both_begun() -> bool:
        return len(held) >= AT_ONCE

    await until(both_begun, "something of both is made")
    assert 0 < await standstill(office) < AT_ONCE * PARTS
    assert max(held) < 6 << 20

    one = await office.ask(office.evidence[0])
    refused = problem(await office.api.client.get(one, headers=office.key))
    assert (refused["status"], refused["reason"]) == (429, "capacity_exceeded")
    waiting.close()

    async def given() -> bool:
        return bool((await office.api.client.get(one, headers=office.key)).is_success)

    await until(given, "its place is free")


@pytest.mark.parametrize("bound", ["_TAKEN_WITHIN_S", "_WHOLE_WITHIN_S"])
async def test_who_takes_nothing_for_long_gets_no_more(monkeypatch, bound):
    monkeypatch.setattr(sending, bound, 0.01)
    ended: list[bool] = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield b"more"
        finally:
            ended.append(True)

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def takes_the_head(message: Any) -> None:
        if message["type"] == "http.response.body":
            await never()

    made = pieces()
    assert await anext(made) == b"more"
    scope: Any = {"state": {}}
    await exports._Streamed(b"first", made, never, "attachment")(scope, never, takes_the_head)
    assert ended == [True]
    # Its line in the log says so.
    assert scope["state"] == {"reason": "interrupted"}


@pytest.mark.parametrize("ended", ["revoked_at", "expires_at"])
async def test_a_bundle_ends_with_its_key(office, monkeypatch, ended):
    group = PartReads._group

    async def then_the_key_ends(reads: PartReads, *said):
        found = await group(reads, *said)
        await office.house.execute(f"UPDATE api_keys SET {ended} = now()")  # noqa: S608 - our own words
        await asyncio.sleep(0.2)
        return found

    path = await office.ask()
    monkeypatch.setattr(PartReads, "_group", then_the_key_ends)
    received = bytearray()
    with pytest.raises(httpx.RemoteProtocolError):
        await office.receive(path, received)
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(received))
    assert 0 < await office.read() < PARTS


async def test_what_breaks_off_does_not_open(office, monkeypatch):
    group, groups = PartReads._group, 0

    async def then_postgres_goes(reads: PartReads, *said):
        nonlocal groups
        groups += 1
        if groups == 2:
            raise Unavailable(Reason.STORE_UNAVAILABLE)
        return await group(reads, *said)

    path = await office.ask()
    monkeypatch.setattr(PartReads, "_group", then_postgres_goes)
    received = bytearray()
    with pytest.raises(httpx.RemoteProtocolError):
        await office.receive(path, received)
    assert len(received) > BYTES
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(received))
    # It can be fetched again; and what fails before the first byte is an answer.
    given = await office.api.client.get(path, headers=office.key)
    assert len(files(given.content)) > 5 * PARTS
    groups = 1
    assert problem(await office.api.client.get(path, headers=office.key))["reason"] == "store_unavailable"
