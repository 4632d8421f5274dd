"""Fixtures that every test may use: the two services, a migrated database, an empty queue, a key directory."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import pytest_asyncio

from store.clock import monotonic
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring
from tests.support import databases, loopback, services

if TYPE_CHECKING:
    from tests.support.journey import Journey

# A machine that several people share makes deadlines of single examples a matter of luck.
hypothesis.settings.register_profile("custody", deadline=None, print_blob=True)
hypothesis.settings.load_profile("custody")


def pytest_configure() -> None:
    loopback.refuse_everything_else()
    # Whatever the caller's shell has set, tests begin from the defaults.
    for name in [name for name in os.environ if name.startswith("CUSTODY_")]:
        if not name.startswith("CUSTODY_TEST_"):
            del os.environ[name]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files of few long tests go first: left to the end, one worker would have them while the others are done.
    items.sort(key=lambda item: "faults" not in item.path.parts)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server, as its superuser; its databases are made and dropped by the fixtures below."""
    with services.postgres() as url:
        yield url


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A Valkey server, in whatever state the last test left it."""
    with services.valkey() as url:
        yield url


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> Iterator[str]:
    """Name of a migrated database that is only ever copied."""
    name = asyncio.run(databases.make_template(postgres_url))
    yield name
    asyncio.run(databases.drop(postgres_url, name))


@pytest.fixture
async def database_url(postgres_url: str, template_database: str) -> AsyncIterator[str]:
    """A migrated database of this test's own, as its owner."""
    async with databases.clone_of(postgres_url, template_database) as url:
        yield url


@pytest.fixture
def redis_url(valkey_url: str) -> str:
    """An empty Valkey database."""
    services.flush(valkey_url)
    return valkey_url


@pytest.fixture
def keys_dir(tmp_path: Path) -> Path:
    """A key directory as it must be: ours alone, with the keys that no process makes for itself."""
    directory = tmp_path / "keys"
    directory.mkdir(mode=0o700)
    Keyring(FileKeyDirectory(directory), monotonic).create_token_keys()
    return directory


@pytest.fixture(scope="module")
def journey_settings() -> dict[str, str]:
    """Settings of the standing service, for files that need others."""
    return {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(
    postgres_url: str,
    template_database: str,
    valkey_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    journey_settings: dict[str, str],
) -> "AsyncIterator[Journey]":
    """A service that all tests of a file share; they have runs of their own, and `loop_scope="module"`."""
    from tests.support.journey import journey  # noqa: PLC0415 - tests of lower floors need no api

    directory = tmp_path_factory.mktemp("journey")
    async with journey(postgres_url, template_database, valkey_url, directory, **journey_settings) as found:
        yield found
        # Whatever the tests did: once what waits is written, everything must be sound.
        await found.write()
        await found.sound()


@pytest_asyncio.fixture(loop_scope="module")
async def way(standing: "Journey") -> "AsyncIterator[Journey]":
    """The service that stands, with nothing that waits."""
    await standing.write()
    yield standing
