"""What the tests of duties need around them: pools in each role, a keyring of files, scopes and rows made directly."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from store import ids
from store.clock import monotonic
from store.db import DUTIES_ROLE, Database
from store.key_directory import FileKeyDirectory
from store.keyring import Keyring

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def duties_database(url: str) -> AsyncIterator[Database]:
    database = await Database.open(url, role=DUTIES_ROLE, size=8)
    try:
        yield database
    finally:
        await database.close()


def keyring_of(keys_dir: Path) -> Keyring:
    keyring = Keyring(FileKeyDirectory(keys_dir), monotonic)
    keyring.create_token_keys()
    return keyring


async def scalar(url: str, sql: str, *arguments: Any) -> Any:
    """One value, read as the owner."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql, *arguments)
    finally:
        await connection.close()


async def execute(url: str, sql: str, *arguments: Any) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql, *arguments)
    finally:
        await connection.close()


async def new_scope(
    url: str, *, longest: timedelta = timedelta(days=3), policy: dict[str, Any] | None = None
) -> UUID:
    scope = ids.new_scope_id()
    seconds = int(longest.total_seconds())
    await execute(
        url,
        "INSERT INTO scopes (scope_id, name, policy, metadata_retention_s, retention_max_s)"
        " VALUES ($1, $2, $3, 34560000, $4)",
        scope,
        f"s-{scope.hex[-12:]}",
        json.dumps(policy or {}),
        seconds,
    )
    return scope
