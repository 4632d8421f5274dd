"""Epochs of the queue's shards. Where Redis says another one than this table, the shard was lost."""

from dataclasses import dataclass
from datetime import datetime

from store.db import Connection
from store.tables import load

_SQL = load("queue_shards")


@dataclass(frozen=True, slots=True)
class Shard:
    """One row; what was queued before `lost_at` and is found nowhere was lost with it."""

    shard: int
    epoch: str
    started_at: datetime
    lost_at: datetime | None


async def all_shards(connection: Connection) -> dict[int, Shard]:
    """Return every shard that is known."""
    return {
        row["shard"]: Shard(row["shard"], row["epoch"], row["started_at"], row["lost_at"])
        for row in await connection.fetch(_SQL["all"])
    }


async def begin(connection: Connection, shard: int, epoch: str) -> None:
    """Know a shard from now on by its epoch."""
    await connection.execute(_SQL["begin"], shard, epoch)


async def lose(connection: Connection, shard: int, before: str, epoch: str) -> None:
    """Say that a shard was lost, and by which epoch it is known from now on."""
    await connection.execute(_SQL["lose"], shard, before, epoch)
