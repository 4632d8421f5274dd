"""Postgres' machine is gone without a word: no reset comes, bytes go nowhere, and nobody may wait for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import asyncpg
import pytest

from store import db
from store.db import SERVICE_ROLE, Database
from store.errors import Unavailable
from tests.support.services import short_directory

_SOCKET = ".s.PGSQL.5432"


@dataclass
class Wire:
    """A way to Postgres that can fall silent."""

    url: str
    silent: asyncio.Event = field(default_factory=asyncio.Event)


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            if not wire.silent.is_set():
                writer.write(data)
                await writer.drain()
    writer.close()


@asynccontextmanager
async def wire_to(url: str, directory: Path) -> AsyncIterator[Wire]:
    """Listen beside the server's own socket, and hand on what comes."""
    there = Path(parse_qs(urlsplit(url).query)["host"][0]) / _SOCKET
    wire = Wire(urlsplit(url)._replace(query=f"host={quote(str(directory))}").geturl())
    ways: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_unix_connection(there)
        ways.add(asyncio.create_task(passed_on(reader, forth, wire)))
        ways.add(asyncio.create_task(passed_on(back, writer, wire)))

    server = await asyncio.start_unix_server(connected, directory / _SOCKET)
    try:
        yield wire
    finally:
        server.close()
        async with asyncio.timeout(5):
            await asyncio.gather(*ways)


async def test_a_statement_that_is_never_answered_is_an_outage_and_frees_its_place(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "_SILENCE_S", 0.3)
    with short_directory() as directory:
        async with wire_to(database_url, directory) as wire:
            database = await Database.open(wire.url, role=SERVICE_ROLE, size=1)
            async with database.connection() as connection:
                assert await connection.fetchval("SELECT 1") == 1
            wire.silent.set()
            with pytest.raises(Unavailable):
                async with asyncio.timeout(9), database.connection() as connection:
                    await connection.fetchval("SELECT 1")
            wire.silent.clear()
            # The only connection of the pool is not lost with it.
            async with asyncio.timeout(9), database.connection() as connection:
                assert await connection.fetchval("SELECT 2") == 2
            await database.close()


def test_what_asyncpg_calls_a_fault_of_its_own_is_an_outage_too() -> None:
    with pytest.raises(Unavailable, match="store_unavailable"), db.translated():
        raise asyncpg.exceptions.InternalClientError("another operation is in progress")


async def test_a_session_that_falls_silent_within_a_transaction_keeps_no_lock(database_url: str) -> None:
    database = await Database.open(database_url, role=SERVICE_ROLE, size=1)
    try:
        async with database.connection() as connection:
            shown = await connection.fetchval("SHOW idle_in_transaction_session_timeout")
    finally:
        await database.close()
    assert shown == "1min"
