"""When a comparison with the mirror is trusted by what cannot be undone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from store.services.compared import trusted
from store.tables.log import State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(minutes=15)


def state(**changed: Any) -> State:
    facts: dict[str, Any] = {
        "origin": "o", "size": 0, "root": b"", "edge": [], "open_tiles": [], "sequenced_at": NOW, "published_size": 0,
        "compared_at": NOW, "compared_on": "here", "stop": None, "stopped_at": None, "now": NOW, "here": "here",
    }  # fmt: skip
    return State(**facts | changed)


@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({}, True),
        ({"compared_at": NOW - timedelta(seconds=10)}, True),
        ({"compared_at": NOW - timedelta(seconds=10.1)}, False),
        ({"compared_on": "elsewhere"}, False),
        # By a publisher of before.
        ({"compared_on": None}, True),
        ({"compared_on": None, "compared_at": NOW - timedelta(seconds=11)}, False),
        # A log that nobody has begun to publish.
        ({"compared_at": None, "compared_on": None}, True),
        *(({"stop": stop}, False) for stop in ("rolled_back", "forked", "restoring")),
        ({"compared_at": None, "compared_on": None, "stop": "restoring"}, False),
    ],
)
def test_only_of_this_very_database_and_not_for_long(changed, right):
    assert trusted(state(**changed), LEASE) is right


def test_readers_are_not_let_go_on_for_longer_than_what_destroys():
    old = state(compared_at=NOW - timedelta(seconds=4))
    assert trusted(old, LEASE)
    assert not trusted(old, timedelta(seconds=3))
