"""How deep the queue was, minute by minute, and what it had counted by then."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from store.db import Connection
from store.tables import load

_SQL: Final = load("queue_depths")
_counts: Final = msgspec.json.Decoder(dict[str, int])


@dataclass(frozen=True, slots=True)
class Counted:
    """What the queue had counted since it began, by words; `queue` None: which queue it was cannot be told."""

    minute: datetime
    counts: Mapping[str, int]
    queue: str | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """What was noted from the minute `first` to `end.minute`: the most of everything, and the counts at the end.

    `one_queue` says whether it was one queue all the time.
    """

    first: datetime
    parts: int
    notes: int
    bytes_class: int
    oldest_s: float
    end: Counted
    one_queue: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """The first minute of which there is something, None where there is nothing; `now` is database time."""

    now: datetime
    first: datetime | None


async def note(
    connection: Connection,
    *,
    parts: int,
    notes: int,
    bytes_class: int,
    oldest_s: float,
    counts: Mapping[str, int],
    queue: str | None,
) -> bool:
    """Note how deep the queue is in this minute; False where somebody did."""
    row = await connection.fetchval(
        _SQL["note"], parts, notes, bytes_class, oldest_s, json.dumps(counts), queue
    )
    return row is not None


async def forget(connection: Connection) -> int:
    """Remove what is older than a week, and than what its first hour is compared with; return how many minutes."""
    return len(await connection.fetch(_SQL["forget"]))


async def kept(connection: Connection) -> Kept:
    """Return since when there is something."""
    row = await connection.fetchrow(_SQL["kept"])
    return Kept(row["now"], row["first"])


async def before(connection: Connection, since: datetime) -> Counted | None:
    """Return the last minute before a time."""
    row = await connection.fetchrow(_SQL["before"], since)
    return None if row is None else Counted(row["minute"], _counts.decode(row["counts"]), row["queue"])


async def stretches(connection: Connection, since: datetime, step_s: float) -> list[Stretch]:
    """Return what was noted from a time on, in stretches of `step_s` seconds, oldest first; empty ones are left out."""
    return [
        Stretch(
            row["first"], row["parts"], row["notes"], row["bytes_class"], row["oldest_s"],
            Counted(row["last"], _counts.decode(row["counts"]), row["queue"]), row["one_queue"],
        )
        for row in await connection.fetch(_SQL["stretches"], since, step_s)
    ]  # fmt: skip
