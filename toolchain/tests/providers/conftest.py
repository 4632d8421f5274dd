"""Tests that hold intake against providers' own programs: collected only where those are asked for."""

from pathlib import Path

import pytest

from tests.support import loopback

HERE = Path(__file__).parent


def pytest_configure() -> None:
    loopback.refuse_everything_else()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files here import what is in an environment of its own: elsewhere they are not even opened."""
    asked_for = config.getoption("markexpr") == "provider"
    return True if not asked_for and collection_path.is_relative_to(HERE) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.provider)
