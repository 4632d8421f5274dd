"""Servers that go away under a test, as far as anybody who connects to them can tell."""

from urllib.parse import urlsplit

import asyncpg

from tests.support.databases import at


class Away:
    """Makes a test's own database refuse everybody, and drops whoever is connected, as a server that is down does."""

    def __init__(self, database_url: str) -> None:
        self._name = urlsplit(database_url).path.removeprefix("/")
        self._server = at(database_url, "postgres")

    async def go(self) -> None:
        await self._execute(f'ALTER DATABASE "{self._name}" WITH ALLOW_CONNECTIONS false')
        await self._execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", self._name
        )

    async def come_back(self) -> None:
        await self._execute(f'ALTER DATABASE "{self._name}" WITH ALLOW_CONNECTIONS true')

    async def _execute(self, statement: str, *arguments: str) -> None:
        connection = await asyncpg.connect(self._server)
        try:
            await connection.fetch(statement, *arguments)
        finally:
            await connection.close()
