"""Who read the parts of a bundle, and what operators did in its scope, as far as the requester may know it."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final
from uuid import UUID

from policies.kinds import Role
from store.db import Database
from store.services.actions import ActionItem, item_of
from store.services.export.files import access_line, action_line
from store.services.paging import ALWAYS, Reader
from store.tables import export_items, operator_actions, spans
from store.tables.pages import Keyset

_PARTS_TOGETHER: Final = 64
_LINES: Final = 500

# Whoever may list what operators did sees it whole. Others do not learn from a bundle which sources there are.
_SEES_TARGETS: Final = frozenset({Role.AUDITOR, Role.OPERATOR})
_OF_SOURCES: Final = "source_"


async def accesses(
    database: Database, reader: Reader, evidence: Sequence[UUID]
) -> AsyncGenerator[list[bytes], None]:
    """Yield the access records of parts as lines, those of the export itself included; by part and time."""
    async with database.connection() as connection:
        until = await spans.database_now(connection)
    for at in range(0, len(evidence), _PARTS_TOGETHER):
        some = evidence[at : at + _PARTS_TOGETHER]
        after = export_items.FIRST
        while True:
            async with database.connection() as connection:
                found = await export_items.accesses(
                    connection, reader.scope, some, after=after, until=until, limit=_LINES
                )
            yield [access_line(each) for each in found]
            if len(found) < _LINES:
                break
            after = (found[-1].evidence, found[-1].at, found[-1].access_id)


async def actions(database: Database, reader: Reader) -> AsyncGenerator[list[bytes], None]:
    """Yield the operator actions of the scope as lines, oldest first."""
    async with database.connection() as connection:
        until = await spans.database_now(connection)
    keyset = Keyset("oldest", ALWAYS, UUID(int=0), until)
    while True:
        async with database.connection() as connection:
            rows = await operator_actions.page(connection, reader.scope, keyset, _LINES)
        yield [action_line(_shown(item_of(row), reader)) for row in rows]
        if len(rows) < _LINES:
            return
        keyset = Keyset("oldest", rows[-1].at, rows[-1].action_id, until)


def _shown(action: ActionItem, reader: Reader) -> ActionItem:
    if reader.role in _SEES_TARGETS or not action.action.startswith(_OF_SOURCES):
        return action
    return ActionItem(action.at, action.action_id, action.key_id, action.action, None, action.purpose)
