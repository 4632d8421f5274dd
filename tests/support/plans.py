"""Plans as the service gets them: generic ones, of a database with many rows, with what they really read."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg


class Seeded:
    """A connection of the service's role to a database with many rows, all its plans generic as they are in use."""

    def __init__(self, url: str, connection: asyncpg.Connection, scope: UUID) -> None:
        self.url = url
        self.connection = connection
        self.scope = scope

    async def plan(self, sql: str, *arguments: Any) -> str:
        written = ", ".join(literal(argument) for argument in arguments)
        await self.connection.execute(f"PREPARE looked_at AS {sql}")
        try:
            rows = await self.connection.fetch(
                f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF) EXECUTE looked_at({written})"
            )
        finally:
            await self.connection.execute("DEALLOCATE looked_at")
        return "\n".join(row[0] for row in rows)


def literal(value: Any) -> str:
    if isinstance(value, list):
        of = "text" if value and isinstance(value[0], str) else "uuid"
        return f"ARRAY[{', '.join(literal(each) for each in value)}]::{of}[]"
    if value is None:
        return "NULL"
    if isinstance(value, timedelta):
        return f"interval '{value.total_seconds()} s'"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    return str(value) if isinstance(value, (int, float, bool)) else f"'{value}'"


def scans(plan: str, tables: Sequence[str]) -> list[str]:
    """Every whole read of one of these tables."""
    return [
        line.strip() for line in plan.splitlines() if re.search(rf"Seq Scan on ({'|'.join(tables)})\b", line)
    ]


def most_rows(plan: str) -> float:
    """The most rows that any step of the plan gave out, over all its loops."""
    found = re.findall(r"actual rows=([\d.]+) loops=(\d+)", plan)
    assert found, plan
    return max(float(rows) * int(loops) for rows, loops in found)


@asynccontextmanager
async def planned(url: str, scope: UUID) -> AsyncIterator[Seeded]:
    """Connect in the service's role, as it does."""
    settings = {"role": "custody_service", "plan_cache_mode": "force_generic_plan", "jit": "off"}
    connection = await asyncpg.connect(url, server_settings=settings)
    try:
        yield Seeded(url, connection, scope)
    finally:
        await connection.close()
