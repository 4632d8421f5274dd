"""Rows as `verify` reads them to hold the proof log against what its leaves are about."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load
from store.tables.verify import Key

_SQL: Final = load("verify_log")


class ClosingRow(NamedTuple):
    """What one close leaf commits to."""

    scope_id: UUID
    run_uid: UUID
    closed_at: datetime
    opening: bytes
    record: bytes


class Beyond(NamedTuple):
    """How much there is after the end of the log."""

    entries: int
    tiles: int
    checkpoints: int


async def part_entries(connection: Connection, indexes: Sequence[int]) -> dict[int, UUID]:
    """Return which part's leaf stands at each of these indexes, where one does."""
    rows = await connection.fetch(_SQL["part_entries"], indexes)
    return {row["idx"]: row["subject"] for row in rows}


async def not_purged(connection: Connection, keys: Sequence[Key]) -> list[Key]:
    """Return those parts that are neither being purged nor purged."""
    return _keys(await connection.fetch(_SQL["not_purged"], *_columns(keys)))


async def purges_unlogged(connection: Connection, keys: Sequence[Key]) -> list[Key]:
    """Return those parts of whose purge the log says nothing."""
    return _keys(await connection.fetch(_SQL["purges_unlogged"], *_columns(keys)))


async def closings_after(
    connection: Connection, last: tuple[UUID, UUID, datetime], limit: int
) -> list[ClosingRow]:
    """Return the next closings by key."""
    return [ClosingRow(*row.values()) for row in await connection.fetch(_SQL["closings_after"], *last, limit)]


async def closings_of(connection: Connection, runs: Sequence[Key]) -> list[ClosingRow]:
    """Return every closing of these runs."""
    return [ClosingRow(*row.values()) for row in await connection.fetch(_SQL["closings_of"], *_columns(runs))]


async def closed_before(connection: Connection, runs: Sequence[Key]) -> set[Key]:
    """Return those runs whose first closing was made by code that kept no record of it."""
    return set(_keys(await connection.fetch(_SQL["closed_before"], *_columns(runs))))


async def holds(connection: Connection) -> dict[Key, bool]:
    """Return every hold, and whether it was released."""
    return {
        (row["scope_id"], row["hold_id"]): row["released"] for row in await connection.fetch(_SQL["holds"])
    }


async def still_live(connection: Connection, buckets: Iterable[UUID]) -> list[Key]:
    """Return those buckets that are live."""
    return _keys(await connection.fetch(_SQL["still_live"], list(buckets)))


async def beyond(connection: Connection, size: int) -> Beyond:
    """Count what a log of this size cannot have."""
    return Beyond(
        *[
            await connection.fetchval(_SQL[name], size)
            for name in ("entries_beyond", "tiles_beyond", "checkpoints_beyond")
        ]
    )


async def checkpoints(connection: Connection, above: int, up_to: int) -> list[tuple[int, bytes]]:
    """Return the sizes above one and up to another for which something was signed, with the notes."""
    return [(row["size"], row["note"]) for row in await connection.fetch(_SQL["checkpoints"], above, up_to)]


def _keys(rows: Iterable[Sequence[UUID]]) -> list[Key]:
    return [(row[0], row[1]) for row in rows]


def _columns(keys: Sequence[Key]) -> tuple[list[UUID], list[UUID]]:
    return [scope for scope, _ in keys], [each for _, each in keys]
