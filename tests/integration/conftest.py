"""What tests of duties work with; a file that needs something else of the same name makes its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.limits import ShardLimits
from store.db import Database
from store.keyring import Keyring
from store.queue import Queue
from tests.support.duties import duties_database, keyring_of


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The test's database, as the duties."""
    async with duties_database(database_url) as opened:
        yield opened


@pytest.fixture
def keyring(keys_dir: Path) -> Keyring:
    """The test's keys."""
    return keyring_of(keys_dir)


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    """An empty queue of one shard."""
    opened = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    yield opened
    await opened.close()
