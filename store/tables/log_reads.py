"""What readers ask of the published log: whether they may read at all, and what proofs are made from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL: Final = load("log_reads")
_NOT_COMPARED: Final = "not_compared"


@dataclass(frozen=True, slots=True)
class Published:
    """The last checkpoint, over `published_size` leaves; and the open tiles of the tree of `size` in that instant."""

    published_size: int
    size: int
    open_tiles: Sequence[bytes]
    note: bytes


@dataclass(frozen=True, slots=True)
class LogGauges:
    """The log in numbers; `compared_age_s` None: it was never held against its mirror."""

    size: int
    published_size: int
    compared_age_s: float | None
    stop: str | None
    closed: bool


@dataclass(frozen=True, slots=True)
class PartLeaf:
    """A part's leaf and its place; None while it waits for one."""

    index: int | None
    entry: bytes | None


async def closed(connection: Connection, lease_s: float) -> str | None:
    """Return why reads are closed, None where they are open; a database without the row is only half there."""
    row = await connection.fetchrow(_SQL["closed"], lease_s)
    return _NOT_COMPARED if row is None else row["closed"]


async def gauges(connection: Connection, lease_s: float) -> LogGauges:
    """Return how the log stands, in numbers."""
    row = await connection.fetchrow(_SQL["gauges"], lease_s)
    return LogGauges(0, 0, None, None, closed=True) if row is None else LogGauges(*row.values())


async def published(connection: Connection) -> Published | None:
    """Return the last checkpoint; None where none was signed yet."""
    row = await connection.fetchrow(_SQL["published"])
    return None if row is None else Published(*row.values())


async def part_leaf(connection: Connection, scope: UUID, evidence: UUID) -> PartLeaf | None:
    """Return where the leaf of a part is; None where the scope has no such part."""
    row = await connection.fetchrow(_SQL["part_leaf"], scope, evidence)
    return None if row is None else PartLeaf(*row.values())


async def entries(connection: Connection, first: int, end: int) -> list[bytes]:
    """Return the leaves from `first` to before `end`."""
    return [row["leaf"] for row in await connection.fetch(_SQL["entries"], first, end)]


async def entry(connection: Connection, index: int) -> bytes | None:
    """Return one leaf."""
    leaf: bytes | None = await connection.fetchval(_SQL["entry"], index)
    return leaf
