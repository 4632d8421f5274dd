"""The proof log: its entries, its full tiles, and the one row that says where it ends."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection, Record
from store.tables import load

_SQL = load("log")

# Beyond it nobody wants to know how many exactly.
_COUNTED: Final = 1_000_000

TileKey = tuple[int, int]
"""A tile's level and its number there."""


@dataclass(frozen=True, slots=True)
class State:
    """Where the tree ends; `now` is database time, `here` the database that says so. See the migrations."""

    origin: str | None
    size: int
    root: bytes
    edge: Sequence[bytes]
    open_tiles: Sequence[bytes]
    sequenced_at: datetime
    published_size: int
    compared_at: datetime | None
    compared_on: str | None
    stop: str | None
    stopped_at: datetime | None
    now: datetime
    here: str


class Queued(NamedTuple):
    """A leaf that was taken from the queue."""

    id: int
    scope_id: UUID
    leaf: bytes


class Entry(NamedTuple):
    """A leaf in its place."""

    idx: int
    scope_id: UUID
    kind: str
    subject: UUID | None
    leaf: bytes


NewEntry = tuple[int, UUID, str, UUID | str | None, bytes]
"""What an entry is made of, in the order of its fields; its subject may be given as hex."""


class Backlog(NamedTuple):
    """How many leaves wait (at most a million are counted), and the one that waits longest."""

    leaves: int
    oldest: bytes | None
    now: datetime


async def state(connection: Connection) -> State:
    """Return where the tree ends."""
    return State(*(await connection.fetchrow(_SQL["state"])).values())


async def lock_state(connection: Connection) -> State:
    """Return where the tree ends, and keep it from growing until the transaction ends."""
    return State(*(await connection.fetchrow(_SQL["lock_state"])).values())


async def waits(connection: Connection) -> bool:
    """Say whether some leaf waits."""
    return bool(await connection.fetchval(_SQL["waits"]))


async def last_queued(connection: Connection) -> int | None:
    """Return the id of the last leaf that waits."""
    value: int | None = await connection.fetchval(_SQL["last_queued"])
    return value


async def backlog(connection: Connection) -> Backlog:
    """Return how much waits."""
    return Backlog(*(await connection.fetchrow(_SQL["backlog"], _COUNTED)).values())


async def take_queue(connection: Connection, after: int, until: int, limit: int) -> list[Queued]:
    """Take leaves with ids above `after` and up to `until`, in their order; they are gone when this commits."""
    rows = await connection.fetch(_SQL["take_queue"], after, until, limit)
    return sorted(map(Queued._make, rows), key=itemgetter(0))


async def entries(connection: Connection, first: int, end: int) -> list[Entry]:
    """Return the entries from `first` up to and without `end`."""
    return [Entry(*row.values()) for row in await connection.fetch(_SQL["entries_from"], first, end)]


async def leaves(connection: Connection, first: int, end: int) -> list[bytes]:
    """Return only the bytes of those entries: all that a tree needs, and less to convert."""
    return [row[0] for row in await connection.fetch(_SQL["leaves_from"], first, end)]


async def indexes_of(connection: Connection, subjects: Iterable[UUID], kind: str) -> dict[UUID, int]:
    """Return where the leaves of one kind about these subjects are; what has none is left out."""
    rows: list[Record] = await connection.fetch(_SQL["indexes_of"], list(subjects), kind)
    return {row["subject"]: row["idx"] for row in rows}


async def index_of(connection: Connection, subject: UUID, kind: str) -> int | None:
    """Return where the leaf of one kind about one subject is."""
    return (await indexes_of(connection, [subject], kind)).get(subject)


async def tiles(connection: Connection, wanted: Iterable[TileKey]) -> dict[TileKey, bytes]:
    """Return these full tiles; those that are not there are left out."""
    keys = sorted(set(wanted))
    levels, numbers = [level for level, _ in keys], [number for _, number in keys]
    rows = await connection.fetch(_SQL["tiles"], levels, numbers) if keys else []
    return {(row["level"], row["tile"]): row["hashes"] for row in rows}


async def append(connection: Connection, entries: Sequence[NewEntry]) -> None:
    """Add entries."""
    await connection.copy_records_to_table("log_entries", records=entries, columns=Entry._fields)


async def append_tiles(connection: Connection, full: Mapping[TileKey, bytes]) -> None:
    """Add tiles that became full."""
    if full:
        await connection.copy_records_to_table(
            "log_tiles",
            records=[(*key, hashes) for key, hashes in full.items()],
            columns=("level", "tile", "hashes"),
        )


async def advance(
    connection: Connection, size: int, root: bytes, edge: Sequence[bytes], open_tiles: Sequence[bytes]
) -> None:
    """Say where the tree ends now."""
    await connection.execute(_SQL["advance"], size, root, edge, open_tiles)
