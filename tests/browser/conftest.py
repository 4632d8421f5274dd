"""One store for all browser tests of a process, with something of everything; and windows to look at it."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from policies.kinds import Role
from tests.browser.seed import Place, planted
from tests.browser.watch import Sight, sight
from tests.support.services import short_directory
from tests.support.stack import shared_postgres

# Their tests take longest: what is begun last should be short, or one worker waits for the other.
_LONG: Final = ("test_outages.py", "test_pages.py", "test_hostile.py", "test_queue.py", "test_pictures.py")

Open = Callable[..., AbstractAsyncContextManager[Sight]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _LONG)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def place(postgres_url: str, template_database: str) -> AsyncIterator[Place]:
    """Real processes, and what was captured there."""
    async with AsyncExitStack() as exits:
        directory = exits.enter_context(short_directory())
        stack = await exits.enter_async_context(
            shared_postgres(directory, postgres_url, template_database, hold_grace="1s")
        )
        stack.publisher(), stack.duties(), stack.writer()
        api, console = await stack.api(), await stack.console()
        client = await exits.enter_async_context(
            httpx.AsyncClient(base_url=api.url, timeout=20, trust_env=False)
        )
        yield await planted(stack, api, console, client)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's chromium."""
    found = shutil.which("chromium")
    assert found, "there is no chromium here: `make test-browser` installs it"
    async with async_playwright() as driver:
        yield await driver.chromium.launch(executable_path=found)


@pytest.fixture
def window(place: Place, browser: Browser) -> Open:
    """Opens a window, signed in with the key of a role where one is named."""

    @asynccontextmanager
    async def opened(role: Role | None = None, **options: Any) -> AsyncIterator[Sight]:
        async with sight(browser, place.console.url, **options) as seen:
            if role is not None:
                await seen.enter(place.keys[role])
            yield seen

    return opened
