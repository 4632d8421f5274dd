"""Who read what, when, for what purpose, with what outcome. Append-only for everybody, by month."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from policies.kinds import Role
from store.db import Connection
from store.ids import AccessId, new_id
from store.tables import load
from store.tables.pages import Keyset

_SQL: Final = load("accesses")


@dataclass(frozen=True, slots=True)
class Access:
    """One read of content, or one that was refused; `outcome` is `read` or the reason."""

    scope_id: UUID
    key_id: str
    role: Role
    evidence: UUID
    purpose: str | None
    outcome: str


@dataclass(frozen=True, slots=True)
class AccessRow:
    """One row with the window of the statement that read it."""

    at: datetime
    access_id: AccessId
    access: Access
    opened_at: datetime
    read_at: datetime


async def insert(connection: Connection, accesses: Sequence[Access]) -> None:
    """Record some accesses; their time is the transaction's."""
    await connection.execute(
        _SQL["insert"],
        [each.scope_id for each in accesses],
        [AccessId(new_id()) for _ in accesses],
        [each.key_id for each in accesses],
        [each.role.value for each in accesses],
        [each.evidence for each in accesses],
        [each.purpose for each in accesses],
        [each.outcome for each in accesses],
    )


async def page(
    connection: Connection, scope: UUID, keyset: Keyset, limit: int, evidence: UUID | None
) -> list[AccessRow]:
    """Return a scope's accesses, or those of one part."""
    query = keyset.order if evidence is None else f"of_evidence_{keyset.order}"
    more = () if evidence is None else (evidence,)
    rows = await connection.fetch(
        _SQL[query], scope, keyset.after_at, keyset.after_id, keyset.bound_at, limit, *more
    )
    return [
        AccessRow(
            row["at"],
            AccessId(row["access_id"]),
            Access(scope, row["key_id"], Role(row["role"]), row["evidence"], row["purpose"], row["outcome"]),
            row["opened_at"],
            row["read_at"],
        )
        for row in rows
    ]
