"""Locks in Postgres, held by a test to stop a process exactly there, and a look at who waits for one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.support.stack import Stack, until

_WAITING = (
    "SELECT count(DISTINCT l.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE NOT l.granted AND a.datname = current_database()"
)


@asynccontextmanager
async def held(stack: Stack, statement: str, *arguments: Any) -> AsyncIterator[None]:
    """Hold what a statement locks until the block ends."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        async with connection.transaction():
            await connection.execute(statement, *arguments)
            yield
    finally:
        await connection.close()


async def somebody_waits(stack: Stack, count: int = 1) -> None:
    """Wait until so many connections wait for a lock."""

    async def look() -> bool:
        return bool(await stack.value(_WAITING) >= count)

    await until(look, f"{count} wait for a lock")


async def waits_for_a_row(stack: Stack) -> None:
    """Wait until somebody waits for a transaction to end, because it has written the same row."""

    async def look() -> bool:
        return bool(await stack.value(_WAITING + " AND l.locktype = 'transactionid'") > 0)

    await until(look, "somebody waits for another's row")
