"""What operators did: append-only, and written in the transaction that does it."""

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from store.db import Connection
from store.ids import ActionId, ScopeId, new_id
from store.tables import load
from store.tables.pages import Keyset

_SQL = load("operator_actions")

# Actions that belong to no scope, such as making a store-wide key, are kept under the nil id.
STORE_WIDE: Final = ScopeId(UUID(int=0))


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One row with the window of the statement that read it."""

    at: datetime
    action_id: ActionId
    key_id: str
    action: str
    target: str
    purpose: str | None
    opened_at: datetime
    read_at: datetime


# What the caller of the request under way says that it is for. It decides nothing: it goes past all that does, into the
# record of whatever is done.
_purpose: Final[ContextVar[str | None]] = ContextVar("purpose", default=None)


def for_purpose(purpose: str | None) -> None:
    """Record with this purpose what the task under way does from now on."""
    _purpose.set(purpose)


async def insert(
    connection: Connection, scope: ScopeId | None, key_id: str, action: str, target: str
) -> None:
    """Record that `key_id` (or `command-line`) did `action` to `target`, and for which purpose if one was said."""
    await connection.execute(
        _SQL["insert"], scope or STORE_WIDE, ActionId(new_id()), key_id, action, target, _purpose.get()
    )


async def page(connection: Connection, scope: UUID, keyset: Keyset, limit: int) -> list[ActionRow]:
    """Return a scope's actions, or those that belong to none."""
    rows = await connection.fetch(
        _SQL[keyset.order], scope, keyset.after_at, keyset.after_id, keyset.bound_at, limit
    )
    return [ActionRow(*row.values()) for row in rows]
