"""Statements as the driver sends them, counted: of every connection that a pool makes while this listens.

with listening() as heard:
    …                      # open pools
    before = len(heard)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import asyncpg
import pytest

# What the driver asks for itself, once a connection and type.
_OF_THE_DRIVER = ("typeinfo_tree", "current_setting('jit')", "SELECT set_config('jit'")


@contextmanager
def listening() -> Iterator[list[str]]:
    """Yield the texts of statements, in their order, as long as the block lasts."""
    heard: list[str] = []

    async def listen(connection: asyncpg.Connection) -> None:
        connection.add_query_logger(hear)

    def hear(record: Any) -> None:
        if not any(words in record.query for words in _OF_THE_DRIVER):
            heard.append(record.query)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncpg, "create_pool", partial(asyncpg.create_pool, init=listen))
        yield heard
