"""Services made of processes, over servers that a test may stop; one for tests that leave those be."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.databases import at, drop, make_template
from tests.support.services import short_directory
from tests.support.stack import Stack, begun, own_postgres, shared_postgres

Open = Callable[..., Coroutine[Any, Any, Stack]]


@pytest.fixture(scope="session")
def standing_stack(postgres_url: str) -> Iterator[Stack]:
    """Servers and an api for many tests: starting them takes longer than most of these tests."""
    name = asyncio.run(make_template(postgres_url))
    with short_directory() as directory:
        stack = begun(directory, at(postgres_url, name), writer_batch="16")
        try:
            stack.standing = stack.start_api_somewhere()
            yield stack
        finally:
            stack.stop()
    asyncio.run(drop(postgres_url, name))


@pytest.fixture
async def stack(standing_stack: Stack) -> AsyncIterator[Stack]:
    """The stack that stands, with an empty queue. Tests make scopes of their own, and may kill writers only."""
    yield standing_stack
    await standing_stack.end_test()
    standing_stack.empty_queue()


@pytest.fixture
async def open_stack(postgres_url: str, template_database: str) -> AsyncIterator[Open]:
    """Opens stacks with the settings named; `own` gives one a Postgres of its own. All are ended with the test."""
    async with AsyncExitStack() as exits:

        async def begin(*, own: bool = False, durable: bool = False, **changed: str) -> Stack:
            directory = exits.enter_context(short_directory())
            if own:
                return await exits.enter_async_context(own_postgres(directory, durable=durable, **changed))
            opening = shared_postgres(directory, postgres_url, template_database, **changed)
            return await exits.enter_async_context(opening)

        yield begin
