"""One service for each file of edge cases: its tests have scopes or runs of their own, and share server and queue."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.journey import Journey, journey


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path_factory
) -> AsyncIterator[Journey]:
    directory: Path = tmp_path_factory.mktemp("journey")
    async with journey(postgres_url, template_database, valkey_url, directory) as found:
        yield found
        # Whatever the tests of a file did: once what waits is written, everything must be sound.
        await found.write()
        await found.sound()


@pytest_asyncio.fixture(loop_scope="module")
async def way(standing: Journey) -> AsyncIterator[Journey]:
    """The service that stands, with nothing that waits."""
    await standing.write()
    yield standing
