"""Bringing a database to this version: two at once, and files that changed after they were applied."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from store import migrate as migrations
from store.errors import ConfigFaults
from store.migrate import migrate
from tests.support import databases


def written(directory: Path, *texts: str) -> Path:
    for number, text in enumerate(texts, 1):
        (directory / f"{number:04d}_some.sql").write_text(text)
    return directory


@pytest.fixture
async def empty_url(postgres_url: str) -> AsyncIterator[str]:
    """A database of this test's own, without a schema."""
    name = databases.new_name()
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    yield databases.at(postgres_url, name)
    await databases.drop(postgres_url, name)


async def test_a_migrator_waits_for_another_however_long_it_takes(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_LOCK_TIMEOUT", "100ms")
    directory = written(tmp_path, "CREATE TABLE one (); SELECT pg_sleep(0.5);", "CREATE TABLE two ();")
    both = await asyncio.gather(migrate(empty_url, directory), migrate(empty_url, directory))
    assert sorted(both) == [[], ["0001_some", "0002_some"]]


async def test_a_file_that_changed_after_it_was_applied_is_refused(empty_url: str, tmp_path: Path) -> None:
    assert await migrate(empty_url, written(tmp_path, "CREATE TABLE one ();")) == ["0001_some"]
    with pytest.raises(ConfigFaults, match="0001_some was changed"):
        await migrate(empty_url, written(tmp_path, "CREATE TABLE one (id int);", "CREATE TABLE two ();"))
    assert await migrate(empty_url, written(tmp_path, "CREATE TABLE one ();", "CREATE TABLE two ();")) == [
        "0002_some"
    ]
