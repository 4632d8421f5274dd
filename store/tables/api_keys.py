"""API keys: who may do what. Secrets are here as digests only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from policies.kinds import Role
from store.db import Connection, Record
from store.ids import ScopeId
from store.tables import load

_SQL = load("api_keys")


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One row; `scope_id` None is the whole store, `digests` are the one or two live secrets', oldest first."""

    key_id: str
    scope_id: ScopeId | None
    role: Role
    digests: tuple[bytes, ...]
    clearances: frozenset[str]
    note: str
    created_by: str
    created_at: datetime
    confirmed_at: datetime | None
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to be inserted."""

    key_id: str
    scope_id: UUID | None
    role: Role
    digest: bytes
    clearances: Sequence[str]
    note: str
    created_by: str
    confirmed: bool
    lifetime_s: float


async def by_id(connection: Connection, key_id: str) -> KeyRow | None:
    """Return one key."""
    return _row(await connection.fetchrow(_SQL["by_id"], key_id))


async def lock(connection: Connection, key_id: str) -> KeyRow | None:
    """Return one key that nobody else changes until the transaction ends."""
    return _row(await connection.fetchrow(_SQL["lock"], key_id))


async def of_scope(connection: Connection, scope: UUID, limit: int) -> list[KeyRow]:
    """Return the newest keys of one scope."""
    return [_of(row) for row in await connection.fetch(_SQL["of_scope"], scope, limit)]


async def all_keys(connection: Connection, limit: int) -> list[KeyRow]:
    """Return the newest keys of the whole store."""
    return [_of(row) for row in await connection.fetch(_SQL["all"], limit)]


async def page(connection: Connection, scope: UUID | None, before: str | None, limit: int) -> list[KeyRow]:
    """Return keys that do not wait for a second operator, newest first, of one scope or of the whole store."""
    query, named = ("page_of_all", ()) if scope is None else ("page_of_scope", (scope,))
    return [_of(row) for row in await connection.fetch(_SQL[query], *named, before, limit)]


async def waiting(connection: Connection, scope: UUID | None, limit: int) -> list[KeyRow]:
    """Return keys that wait for a second operator, of one scope or of the whole store."""
    return [_of(row) for row in await connection.fetch(_SQL["waiting"], scope, limit)]


async def count_waiting(connection: Connection, scope: UUID | None) -> int:
    """Return how many keys wait for a second operator, of one scope or of the whole store."""
    return int(await connection.fetchval(_SQL["count_waiting"], scope))


async def insert(connection: Connection, key: NewKey) -> KeyRow:
    """Insert a key and return its row."""
    row = await connection.fetchrow(
        _SQL["insert"],
        key.key_id,
        key.scope_id,
        key.role.value,
        key.digest,
        list(key.clearances),
        key.note,
        key.created_by,
        key.confirmed,
        key.lifetime_s,
    )
    return _of(row)


async def confirm(connection: Connection, key_id: str) -> None:
    """Let an unconfirmed key be used."""
    await connection.execute(_SQL["confirm"], key_id)


async def set_digests(connection: Connection, key_id: str, digests: Sequence[bytes]) -> None:
    """Say which secrets are good from now on, oldest first."""
    await connection.execute(_SQL["set_digests"], key_id, list(digests))


async def revoke(connection: Connection, key_id: str) -> None:
    """End a key."""
    await connection.execute(_SQL["revoke"], key_id)


async def note_uses(connection: Connection, used: Mapping[str, datetime]) -> None:
    """Write when keys were used last; in the order of their ids, as every other writer of several rows locks them."""
    ordered = sorted(used)
    await connection.execute(_SQL["note_uses"], ordered, [used[key_id] for key_id in ordered])


def _row(row: Record | None) -> KeyRow | None:
    return None if row is None else _of(row)


def _of(row: Record) -> KeyRow:
    return KeyRow(
        key_id=row["key_id"],
        scope_id=row["scope_id"],
        role=Role(row["role"]),
        digests=tuple(row["digests"]),
        clearances=frozenset(row["clearances"]),
        note=row["note"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        confirmed_at=row["confirmed_at"],
        expires_at=row["expires_at"],
        last_used_at=row["last_used_at"],
        revoked_at=row["revoked_at"],
    )
