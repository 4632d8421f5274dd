"""How much each key reads, hour by hour, for as long as it tells what is usual."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL: Final = load("read_counts")


class Unusual(NamedTuple):
    """A key that reads much more than it usually does."""

    scope_id: UUID
    key_id: str
    reads: int


async def add(connection: Connection, counts: Mapping[tuple[UUID, str], int]) -> None:
    """Count reads of keys, each within its scope, into this hour."""
    # In one order, or two processes could wait for each other.
    keys = sorted(counts)
    await connection.execute(_SQL["add"], *_columns(keys), [counts[key] for key in keys])


async def alarm(
    connection: Connection, keys: list[tuple[UUID, str]], times: int, floor: int
) -> list[Unusual]:
    """Return the keys that read over `times` as much as usual in this hour, each once; usual is at least `floor`."""
    rows = await connection.fetch(_SQL["alarm"], *_columns(sorted(keys)), times, floor)
    return [Unusual(*row.values()) for row in rows]


async def forget(connection: Connection) -> int:
    """Remove what tells nothing of what is usual any more."""
    return len(await connection.fetch(_SQL["forget"]))


def _columns(keys: list[tuple[UUID, str]]) -> tuple[list[UUID], list[str]]:
    return [scope for scope, _ in keys], [key_id for _, key_id in keys]
