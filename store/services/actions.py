"""What operators did, for those who look over their shoulders."""

from datetime import datetime
from uuid import UUID

import msgspec

from store.db import Database
from store.services.paging import Asked, Page, Pager, Reader, Window, ends
from store.tables import operator_actions, pages
from store.tables.operator_actions import ActionRow

STORE_WIDE = operator_actions.STORE_WIDE


class ActionItem(msgspec.Struct, frozen=True):
    """One operator action; `key_id` is `command-line` where it was done on the host itself."""

    at: datetime
    action_id: UUID
    key_id: str
    action: str
    target: str | None
    purpose: str | None


def item_of(row: ActionRow) -> ActionItem:
    """Return an action as it is shown."""
    return ActionItem(row.at, row.action_id, row.key_id, row.action, row.target, row.purpose)


class ActionPages:
    """Shows who did what."""

    def __init__(self, database: Database, pager: Pager) -> None:
        self._database = database
        self._pager = pager

    async def page(self, reader: Reader, asked: Asked) -> Page[ActionItem]:
        """Return one page of a scope's actions, or of those that belong to no scope."""
        turn = self._pager.turn(reader, "actions", {}, asked)
        async with self._database.connection() as connection:
            rows = await operator_actions.page(connection, reader.scope, turn.keyset, turn.limit + 1)
            instants = (rows[0].opened_at, rows[-1].read_at) if rows else await pages.instants(connection)
        shown, last = ends(rows, turn.limit)
        window = Window(*instants)
        place = None if last is None else (last.at, last.action_id)
        return Page([item_of(row) for row in shown], self._pager.info(turn, window.opened_at, window, place))
