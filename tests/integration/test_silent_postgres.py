"""Postgres' machine is gone without a word: no reset comes, bytes go nowhere, and nobody may wait for ever."""

import asyncio

import asyncpg
import pytest

from store import db
from store.db import SERVICE_ROLE, Database
from store.errors import Unavailable
from tests.support.services import short_directory
from tests.support.wires import Wire, wire_to


class Silent(Wire):
    """A way to Postgres that can fall silent."""

    def __init__(self) -> None:
        self.silent = asyncio.Event()

    def forth(self, data: bytes) -> bytes | None:
        return b"" if self.silent.is_set() else data

    back = forth


async def test_a_statement_that_is_never_answered_is_an_outage_and_frees_its_place(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "_SILENCE_S", 0.3)
    with short_directory() as directory:
        async with wire_to(database_url, directory, Silent()) as wire:
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
