"""Whether keys are this store's: asked at the start, or as soon as Postgres can tell."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store.db import SERVICE_ROLE, Database
from store.errors import ConfigFaults, Unavailable
from store.services import key_marks
from tests.support import log
from tests.support.duties import keyring_of


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=SERVICE_ROLE, size=2)
    yield opened
    await opened.close()


async def test_other_keys_do_not_begin_and_nobody_sets_them_down(database, keys_dir, tmp_path):
    own, other = keyring_of(keys_dir), keyring_of(tmp_path / "other")
    await key_marks.require_own(database, own)
    await key_marks.make_keys(database, own)
    for attempt in (key_marks.require_own, key_marks.make_keys):
        with pytest.raises(ConfigFaults, match="another store's"):
            await attempt(database, other)
    await key_marks.require_own(database, own)


async def test_a_log_that_was_signed_gets_no_other_key(database, database_url, keys_dir):
    own = keyring_of(keys_dir)
    await key_marks.make_keys(database, own)
    assert own.signing_seed()
    await log.append(database_url, [b'{"k":"key","u":"x"}'], kind="key")
    await key_marks.make_keys(database, own)
    (keys_dir / "signing" / "log").unlink()
    with pytest.raises(ConfigFaults, match="signs this store's log"):
        await key_marks.make_keys(database, own)
    assert own.signing_seed() is None


async def test_while_postgres_is_away_they_begin_and_are_disowned_once_it_tells(
    database, keys_dir, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(key_marks, "_AGAIN_S", 0.01)
    await key_marks.make_keys(database, keyring_of(keys_dir))
    away = await Database.open("postgresql://127.0.0.1:1/none", role=SERVICE_ROLE, size=1)
    for place, told in ((keys_dir, False), (tmp_path / "other", True)):
        keyring, reach = keyring_of(Path(place)), Reach(away)
        async with key_marks.own_keys(reach, keyring):  # type: ignore[arg-type] # as much of one as is used
            assert keyring.token_key("lookup")
            reach.database = database
            await asyncio.wait_for(reach.answered.wait(), 10)
            await asyncio.sleep(0.05)
            if told:
                with pytest.raises(Unavailable, match="another store"):
                    keyring.token_key("lookup")
            else:
                assert keyring.token_key("lookup")
    await away.close()


class Reach:
    """A database that is away until another one is put in its place."""

    def __init__(self, away: Database) -> None:
        self.away = self.database = away
        self.answered = asyncio.Event()

    def connection(self):
        if self.database is not self.away:
            self.answered.set()
        return self.database.connection()
