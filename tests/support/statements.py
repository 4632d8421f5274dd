"""Statements as the driver sends them, counted: of every connection that a pool makes while this listens.

Not among them is what is known for some seconds (policies, keys, alarms) and asked for again because it is older:
whether that comes while a page is made depends on how fast the machine is, and not on the page.

with listening() as heard:
    …                      # open pools
    before = len(heard)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import asyncpg
import pytest

from store.services.last_known import LastKnown

# What the driver asks for itself, once a connection and type.
_OF_THE_DRIVER = ("typeinfo_tree", "current_setting('jit')", "SELECT set_config('jit'")

_ASIDE: ContextVar[bool] = ContextVar("aside", default=False)


@contextmanager
def listening() -> Iterator[list[str]]:
    """Yield the texts of statements, in their order, as long as the block lasts."""
    heard: list[str] = []

    async def listen(connection: asyncpg.Connection) -> None:
        connection.add_query_logger(hear)

    def hear(record: Any) -> None:
        # The driver calls this in the context of whoever sent the statement.
        if not _ASIDE.get() and not any(words in record.query for words in _OF_THE_DRIVER):
            heard.append(record.query)

    refresh = LastKnown._refresh

    async def refreshed(known: LastKnown[Any, Any], key: Any) -> Any:
        # It has a task, and so a context, of its own.
        _ASIDE.set(True)
        return await refresh(known, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LastKnown, "_refresh", refreshed)
        patch.setattr(asyncpg, "create_pool", partial(asyncpg.create_pool, init=listen))
        yield heard
