"""Scopes: tenants or projects, each with the policy that its operators decided."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from policies.documents import PolicyFault
from policies.reasons import Reason
from policies.scope_policy import ScopePolicy
from store.db import Connection, Record
from store.errors import Unavailable
from store.tables import load

_SQL = load("scopes")


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """One row; `policy` is the document as JSON text."""

    scope_id: UUID
    name: str
    policy: str
    policy_version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy as it is written: the document, and the two of its values that duties compare in SQL."""

    document: str
    metadata_retention_s: int
    retention_max_s: int


async def by_id(connection: Connection, scope: UUID) -> ScopeRow | None:
    """Return one scope."""
    return _row(await connection.fetchrow(_SQL["by_id"], scope))


async def by_name(connection: Connection, name: str) -> ScopeRow | None:
    """Return one scope by its name."""
    return _row(await connection.fetchrow(_SQL["by_name"], name))


async def lock(connection: Connection, scope: UUID) -> ScopeRow | None:
    """Return one scope whose policy nobody else changes until the transaction ends."""
    return _row(await connection.fetchrow(_SQL["lock"], scope))


async def after(connection: Connection, name: str, limit: int) -> list[ScopeRow]:
    """Return up to `limit` scopes whose name comes after `name`."""
    return [_of(row) for row in await connection.fetch(_SQL["after"], name, limit)]


async def names(connection: Connection, some: Collection[UUID]) -> dict[UUID, str]:
    """Return what some scopes are called; one that there is not is left out."""
    return {row["scope_id"]: row["name"] for row in await connection.fetch(_SQL["names"], list(some))}


async def insert(connection: Connection, scope: UUID, name: str, policy: PolicyRow) -> ScopeRow | None:
    """Insert a scope; None if the name is taken."""
    return _row(
        await connection.fetchrow(
            _SQL["insert"], scope, name, policy.document, policy.metadata_retention_s, policy.retention_max_s
        )
    )


async def update_policy(connection: Connection, scope: UUID, policy: PolicyRow) -> ScopeRow | None:
    """Put another policy in place and return the scope with its new version."""
    return _row(
        await connection.fetchrow(
            _SQL["update_policy"], scope, policy.document, policy.metadata_retention_s, policy.retention_max_s
        )
    )


# Every process reads every scope again each second, and policies hardly ever change.
@lru_cache(maxsize=1024)
def policy_of(text: str) -> ScopePolicy:
    """Read a policy as it rests; an outage where a newer version wrote what this one does not know.

    To guess at it could allow what is forbidden, and to call it a caller's fault would be wrong.
    """
    try:
        return ScopePolicy.from_document(json.loads(text))
    except PolicyFault as fault:
        raise Unavailable(Reason.STORE_UNAVAILABLE, cause=type(fault).__name__) from None


def _row(row: Record | None) -> ScopeRow | None:
    return None if row is None else _of(row)


def _of(row: Record) -> ScopeRow:
    return ScopeRow(
        scope_id=row["scope_id"],
        name=row["name"],
        policy=row["policy"],
        policy_version=row["policy_version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
