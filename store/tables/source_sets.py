"""Sets of sources that parts depend on; versions are null where the whole source is meant."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL: Final = load("source_sets")


class SourceSet(NamedTuple):
    """One set, its two lists in the same order."""

    scope_id: UUID
    set_id: bytes
    sources: list[str]
    versions: list[int | None]


async def put(connection: Connection, sets: Sequence[SourceSet]) -> None:
    """Write sets that may be there already, in the order of their keys."""
    await connection.executemany(_SQL["put"], sets)
