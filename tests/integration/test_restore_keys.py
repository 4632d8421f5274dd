"""What a restored database needs before its log is replayed."""

import pytest

from store.db import Database
from store.keyring import Keyring
from store.services import hold_buckets
from store.services.hold_buckets import hold_buckets_due
from store.services.restore_keys import ready_to_hold
from tests.support.duties import new_scope


async def test_every_scope_can_hold_before_the_replay_however_many_there_are(
    database: Database, keyring: Keyring, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold_buckets, "_SCOPES", 1)
    for _ in range(3):
        await new_scope(database_url)

    await ready_to_hold(database, keyring, "operator")

    assert not await hold_buckets_due(database)
