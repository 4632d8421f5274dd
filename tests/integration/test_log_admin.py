"""Stops that only an operator lifts: what may go on, what may not, and what stays of it in the log."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from policies.reasons import Reason
from store.db import DUTIES_ROLE, Database
from store.errors import Conflict, Corrupt, RowRefused, Unavailable
from store.log_tree.notes import Checkpoint
from store.mirror import Mirror
from store.services.log_admin import LogAdmin
from store.services.publishing import Publishing
from store.services.taking_back import TakenBack, TakingBack
from tests.support import log
from tests.support.duties import execute, leaves, scalar
from tests.support.exporting import LOG


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=DUTIES_ROLE, size=2)
    yield opened
    await opened.close()


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "mirror")


@pytest.fixture
async def publishing(database: Database, mirror: Mirror, database_url: str) -> Publishing:
    publishing = Publishing(database, mirror, LOG)
    await publishing.begin()
    await log.grow(database_url, 300)
    await publishing.round()
    return publishing


@pytest.fixture
def admin(database: Database, mirror: Mirror) -> LogAdmin:
    return LogAdmin(database, mirror)


async def test_what_was_rolled_back_goes_on_once_it_has_all_again(publishing, admin, database_url):
    published = await log.entries(database_url)
    await log.go_back(database_url, 290)
    assert (await publishing.round()).stop == "rolled_back"
    found = await admin.status()
    assert (found.state.stop, found.against, found.mirror and found.mirror.size) == (
        "rolled_back", "rolled_back", 300,
    )  # fmt: skip
    with pytest.raises(Conflict, match="290 leaves, its mirror 300") as refused:
        await admin.resume("operator-1")
    assert refused.value.reason is Reason.IDENTITY_CONFLICT
    assert (await publishing.round()).stop == "rolled_back"

    await log.append(database_url, published[290:])
    await execute(database_url, "DELETE FROM log_queue")
    assert await admin.resume("operator-1") == 300
    (leaf,) = await leaves(database_url)
    assert (leaf["k"], leaf["size"], leaf["why"]) == ("resume", 300, "rolled_back")
    done = "SELECT key_id || ' ' || action || ' ' || target FROM operator_actions"
    assert await scalar(database_url, done) == "operator-1 log_resumed 300"
    with pytest.raises(Conflict, match="not stopped"):
        await admin.resume("operator-1")
    await log.grow(database_url, 1)
    assert ((await publishing.round()).size, (await admin.status()).against) == (301, None)


async def test_what_took_another_way_meanwhile_does_not_go_on(publishing, admin, database_url):
    await log.go_back(database_url, 290)
    await publishing.round()
    await log.grow(database_url, 20, "other")
    with pytest.raises(Conflict, match="forked"):
        await admin.resume("operator-1")


async def test_no_other_stop_is_lifted(publishing, admin, database_url):
    for stop, why in (("forked", "take-back"), ("restoring", "opens the log itself")):
        await execute(database_url, "UPDATE log_state SET stop = $1, stopped_at = now()", stop)
        with pytest.raises(Conflict, match=why):
            await admin.resume("operator-1")
        assert (await publishing.round()).stop == stop
        assert await scalar(database_url, "SELECT stop FROM log_state") == stop


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, role=None, size=2)
    yield opened
    await opened.close()


async def test_what_a_fork_had_beyond_its_mirror_waits_again_and_the_log_goes_on(
    publishing, admin, owner, mirror, database_url
):
    published = await log.entries(database_url)
    await log.go_back(database_url, 290)
    await log.grow(database_url, 20, "other")
    other = (await log.entries(database_url))[290:]
    assert (await publishing.round()).stop == "forked"
    await execute(database_url, "DELETE FROM log_queue")
    assert await TakingBack(owner, mirror).run("operator-1") == TakenBack(290, 20, 10)
    assert await log.entries(database_url) == published[:290]
    queued = "SELECT array_agg(leaf ORDER BY id) FROM log_queue"
    assert await scalar(database_url, queued) == other
    found = await admin.status()
    assert (found.state.stop, found.state.size, found.against) == ("rolled_back", 290, "rolled_back")
    done = "SELECT key_id || ' ' || action || ' ' || target FROM operator_actions"
    assert await scalar(database_url, done) == "operator-1 log_taken_back 290 310"
    with pytest.raises(Conflict, match="not forked"):
        await TakingBack(owner, mirror).run("operator-1")
    # Nobody else lets it go back: neither the duties now, nor the owner without saying so.
    for url, role in ((database_url, DUTIES_ROLE), (database_url, None)):
        opened = await Database.open(url, role=role, size=1)
        with pytest.raises((RowRefused, Unavailable)):
            async with opened.connection() as connection:
                await connection.execute("UPDATE log_state SET size = 1")
        await opened.close()
    await log.append(database_url, published[290:])
    assert await admin.resume("operator-1") == 300
    assert (await publishing.round()).stop is None


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ("UPDATE log_entries SET leaf = leaf || 'x'::bytea WHERE idx = 7", 7),
        ("DELETE FROM log_entries WHERE idx = 298", 298),
        ("UPDATE log_state SET root = sha256('x')", 300),
        (
            (
                "INSERT INTO log_entries (idx, scope_id, kind, leaf)"
                " SELECT 300, scope_id, kind, leaf FROM log_entries WHERE idx = 0"
            ),
            300,
        ),
        # Not signed by the key of the log.
        ("UPDATE log_checkpoints SET note = 'another' WHERE size = 300", 300),
    ],
)
async def test_what_somebody_changed_is_taken_back_to_where_it_differs(
    publishing, admin, owner, mirror, database_url, change, first
):
    published = await log.entries(database_url)
    await execute(database_url, change)
    await execute(database_url, "UPDATE log_state SET stop = 'forked', stopped_at = now()")
    done = await TakingBack(owner, mirror).run("operator-1")
    assert (done.first, done.missing) == (first, 300 - first)
    assert await log.entries(database_url) == published[:first]
    await execute(database_url, "DELETE FROM log_queue")
    await log.append(database_url, published[first:])
    assert await admin.resume("operator-1") == 300
    assert (await publishing.round()).stop is None


async def test_another_tree_that_was_signed_is_taken_back_only_when_asked_for(
    publishing, owner, mirror, database_url
):
    await log.go_back(database_url, 290)
    await log.grow(database_url, 20, "other")
    for size in (300, 305):
        note = LOG.sign(
            Checkpoint(LOG.key.name, size, log.root_of((await log.entries(database_url))[:size])).text
        )
        await execute(database_url, "INSERT INTO log_checkpoints (size, note) VALUES ($1, $2)", size, note)
    assert (await publishing.round()).stop == "forked"
    taking = TakingBack(owner, mirror)
    with pytest.raises(
        Conflict, match=r"2 checkpoints were signed for another tree .* the first at 300 leaves"
    ):
        await taking.run("operator-1")
    assert await scalar(database_url, "SELECT size FROM log_state") == 310
    assert (await taking.run("operator-1", although_signed=True)).first == 290
    assert await scalar(database_url, "SELECT max(size) FROM log_checkpoints") is None


async def test_without_its_mirror_the_status_says_so(publishing, database, tmp_path):
    found = await LogAdmin(database, Mirror(tmp_path / "none")).status()
    assert found.mirror is not None
    assert found.mirror.size == 0
    (tmp_path / "mirror" / "checkpoint").write_bytes(b"no note")
    found = await LogAdmin(database, Mirror(tmp_path / "mirror")).status()
    assert (found.mirror, "damaged" in found.trouble) == (None, True)


async def test_a_lost_mirror_is_written_anew_from_what_was_signed(
    publishing, database, database_url, tmp_path
):
    lost, fresh = tmp_path / "mirror", tmp_path / "fresh"
    await log.grow(database_url, 5)
    admin = LogAdmin(database, Mirror(lost))
    with pytest.raises(Conflict, match="there is a mirror"):
        await admin.write_mirror("operator-1")
    assert await LogAdmin(database, Mirror(fresh)).write_mirror("operator-1") == 300
    assert files_in(fresh) == files_in(lost)
    done = "SELECT key_id || ' ' || action || ' ' || target FROM operator_actions"
    assert await scalar(database_url, done) == "operator-1 log_mirror_written 300"
    assert (await Publishing(database, Mirror(fresh), LOG).round()).size == 305


# Each with what undoes it.
CHANGES = (
    (
        "UPDATE log_entries SET leaf = leaf || 'x'::bytea WHERE idx = 7",
        "UPDATE log_entries SET leaf = substring(leaf FOR length(leaf) - 1) WHERE idx = 7",
    ),
    (
        "CREATE TABLE hidden AS SELECT size, note FROM log_checkpoints",
        "INSERT INTO log_checkpoints (size, note) SELECT size, note FROM hidden",
    ),
    (
        "UPDATE log_checkpoints SET note = overlay(note PLACING 'x' FROM length(note) - 20)",
        "UPDATE log_checkpoints c SET note = h.note FROM hidden h WHERE h.size = c.size",
    ),
    ("UPDATE log_entries SET idx = 1000 WHERE idx = 8", "UPDATE log_entries SET idx = 8 WHERE idx = 1000"),
)


async def test_from_a_database_that_was_changed_no_mirror_is_written(
    publishing, database, database_url, tmp_path
):
    fresh = Mirror(tmp_path / "fresh")
    for change, undo in CHANGES:
        await execute(database_url, change)
        if "hidden" in change:
            await execute(database_url, "DELETE FROM log_checkpoints")
        with pytest.raises(Corrupt):
            await LogAdmin(database, fresh).write_mirror("operator-1")
        assert fresh.checkpoint() is None
        await execute(database_url, undo)
    assert await LogAdmin(database, fresh).write_mirror("operator-1") == 300


def files_in(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}
