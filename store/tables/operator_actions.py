"""What operators did: append-only, and written in the transaction that does it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from store.db import Connection
from store.ids import ActionId, ScopeId, new_id
from store.tables import load

_SQL = load("operator_actions")

# Actions that belong to no scope, such as making a store-wide key, are kept under the nil id.
STORE_WIDE: Final = ScopeId(UUID(int=0))


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One row."""

    scope_id: UUID
    at: datetime
    action_id: ActionId
    key_id: str
    action: str
    target: str


async def insert(
    connection: Connection, scope: ScopeId | None, key_id: str, action: str, target: str
) -> None:
    """Record that `key_id` (or `command-line`) did `action` to `target`."""
    await connection.execute(_SQL["insert"], scope or STORE_WIDE, ActionId(new_id()), key_id, action, target)


async def latest(connection: Connection, scope: ScopeId | None, limit: int) -> list[OperatorAction]:
    """Return the newest actions of a scope, or the store-wide ones."""
    rows = await connection.fetch(_SQL["latest"], scope or STORE_WIDE, limit)
    return [
        OperatorAction(
            row["scope_id"],
            row["at"],
            ActionId(row["action_id"]),
            row["key_id"],
            row["action"],
            row["target"],
        )
        for row in rows
    ]
