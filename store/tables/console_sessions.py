"""Sessions of the console: which key stands behind a browser, known by a digest of what the browser holds."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from store.db import Connection
from store.ids import ScopeId
from store.tables import load

_SQL: Final = load("console_sessions")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A live session; `secret` None: a proxy vouched for the key. `scope_id` is what a store-wide operator chose."""

    key_id: str
    secret: bytes | None
    scope_id: ScopeId | None
    purpose: str | None
    created_at: datetime
    seen_at: datetime
    ends_at: datetime
    read_at: datetime


async def insert(
    connection: Connection, digest: bytes, key_id: str, secret: bytes | None, lifetime_s: float
) -> None:
    """Begin a session."""
    await connection.execute(_SQL["insert"], digest, key_id, secret, lifetime_s)


async def live(connection: Connection, digest: bytes, idle_s: float) -> SessionRow | None:
    """Return a session that has neither ended nor rested for longer than `idle_s`."""
    row = await connection.fetchrow(_SQL["live"], digest, idle_s)
    return None if row is None else SessionRow(*row.values())


async def touch(connection: Connection, digest: bytes) -> None:
    """Note that a session is used now."""
    await connection.execute(_SQL["touch"], digest)


async def choose_scope(connection: Connection, digest: bytes, scope: UUID | None) -> None:
    """Keep which scope is looked at."""
    await connection.execute(_SQL["choose_scope"], digest, scope)


async def say_purpose(connection: Connection, digest: bytes, purpose: str | None) -> None:
    """Keep what the reads from now on are for."""
    await connection.execute(_SQL["say_purpose"], digest, purpose)


async def remove(connection: Connection, digest: bytes) -> None:
    """End one session."""
    await connection.execute(_SQL["remove"], digest)


async def remove_of_key(connection: Connection, key_id: str) -> int:
    """End every session of a key; return how many there were."""
    return _count(await connection.execute(_SQL["remove_of_key"], key_id))


async def remove_over(connection: Connection, idle_s: float, after_s: float, limit: int) -> int:
    """Remove sessions that ended, or rested for `idle_s`, `after_s` seconds ago, at most `limit`; return how many."""
    return _count(await connection.execute(_SQL["remove_over"], idle_s, after_s, limit))


async def count_of_key(connection: Connection, key_id: str, idle_s: float) -> int:
    """Return how many sessions of a key are live."""
    count: int = await connection.fetchval(_SQL["count_of_key"], key_id, idle_s)
    return count


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
