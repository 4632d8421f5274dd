"""Restores of what expired, was revoked, is torn or cannot be restored, again and again, and killed at each step."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from policies.kinds import Role
from policies.reasons import Reason
from store.errors import Conflict
from store.services.expiry import Expiry
from store.services.rewrapping import Rewrapping, Selection
from tests.integration.test_restore import SECRET, post, read, stored
from tests.support import log
from tests.support.backup import Back
from tests.support.duties import end_span, execute, scalar
from tests.support.journey import journey
from tests.support.sources import ROOT

pytestmark = pytest.mark.long

TABLE = "store.tables.restores"
# In the order in which a restore goes through them: each is reached by the run after the one that died before it. Most
# are in a transaction, which dies with it; after those that are not, what they did stays.
STEPS = [
    (TABLE, "begin", "after"),
    ("store.services.restore", "Restore._begun", "after"),
    ("store.services.sequencing", "append", "after"),
    (TABLE, "placed_already", "after"),
    ("store.services.restore", "copy_log", "after"),
    ("store.queue.queue", "Queue.begin_anew", "after"),
    (TABLE, "renewed", "after"),
    (TABLE, "lose", "after"),
    ("store.services.restore_replay", "Replay._stored", "after"),
    (TABLE, "purge_lost", "after"),
    ("store.tables.purging", "mark", "after"),
    ("store.services.restore_replay", "Replay._happened", "after"),
    (TABLE, "place", "after"),
    (TABLE, "expire", "after"),
    (TABLE, "torn", "before"),
    (TABLE, "said", "after"),
    ("store.services.restore", "Restore._say_so", "after"),
    ("store.tables.purging", "delete_bodies", "after"),
    ("store.services.purge", "Purge.run", "after"),
    ("store.tables.spans", "drop", "before"),
    ("store.tables.spans", "drop", "after"),
    (TABLE, "end", "after"),
]


@pytest.fixture
async def back(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path: Path
) -> AsyncIterator[Back]:
    mirror = str(tmp_path / "mirror")
    async with journey(postgres_url, template_database, valkey_url, tmp_path, mirror_dir=mirror) as way:
        yield Back(way, tmp_path)


async def span_of(back: Back, evidence: str) -> datetime:
    span: datetime = await back.way.house.value("SELECT span_start FROM parts WHERE evidence = $1", evidence)
    return span


async def opened_by_force(back: Back) -> None:
    """Let readers in without a replay."""
    await execute(
        back.way.url,
        "UPDATE log_state SET stop = NULL, stopped_at = NULL, compared_at = now(), compared_on = this_database()",
    )
    await asyncio.sleep(1.1)


async def test_what_expired_after_the_backup_has_expired_and_opens_with_no_key_even_without_a_replay(back):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    evidence, _ = await stored(way, runtime, "x-1")
    held, _ = await stored(way, runtime, "x-2")
    await post(way, runtime, "/v1/holds", part=held, reason="matter 7")
    await back.publish()
    await way.key(Role.CUSTODIAN, runtime.scope)
    await way.key(Role.REVIEWER, runtime.scope)
    await back.backup()
    span = await span_of(back, evidence)
    await end_span(way.url, span)
    assert await back.round() is None
    assert (await way.duties.perform("expiry")).counts == {"expired": 1}
    custodian = {"Custody-Purpose": "matter 7"}
    answer = await way.get(f"/v1/parts/{held}/content", runtime, Role.CUSTODIAN, headers=custodian)
    assert answer.content == SECRET
    await back.publish()

    await back.go_back()
    await opened_by_force(back)
    assert await read(way, runtime, evidence) == (500, "key_lost")
    for _ in range(2):
        await end_span(way.url, span)
        assert await back.restore()
        assert (await read(way, runtime, evidence))[1] == "retention_expired"
        # What was moved out of the bucket was moved after the backup: it went with the database.
        answer = await way.get(f"/v1/parts/{held}/content", runtime, Role.CUSTODIAN, headers=custodian)
        assert (answer.status_code, answer.json()["reason"]) == (410, "retention_expired")
        await back.publish()
        assert (await back.verified()).faults == []
        states = "SELECT string_agg(DISTINCT state, ' ') FROM buckets WHERE span_start = $1"
        assert await scalar(way.url, states, span) == "destroyed"
        # The same backup once more: the log now tells of the first restore too.
        await back.go_back()
    await end_span(way.url, span)
    assert await back.restore()


async def test_what_was_held_when_its_bucket_expired_survives_the_replay_while_its_key_is_there(
    back, monkeypatch: pytest.MonkeyPatch
):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    sibling, _ = await stored(way, runtime, "x-sibling")
    held, _ = await stored(way, runtime, "x-held")
    await back.publish()
    for role in (Role.CUSTODIAN, Role.REVIEWER):
        await way.key(role, runtime.scope)
    await back.backup()
    # After the backup, as its leaf tells.
    await post(way, runtime, "/v1/holds", part=held, reason="matter 7")
    span = await span_of(back, held)
    await end_span(way.url, span)
    assert await back.round() is None

    async def dies(*_: object) -> None:
        raise Conflict(Reason.IDENTITY_CONFLICT, "killed")

    # The duty dies once the bucket is marked: its partition and its key are still there.
    with monkeypatch.context() as killed:
        killed.setattr(Expiry, "_drop", dies)
        assert (await way.duties.perform("expiry")).failed
    await back.publish()

    await back.go_back()
    await end_span(way.url, span)
    assert await scalar(way.url, "SELECT count(*) FROM holds") == 0
    assert await back.restore()
    custodian = {"Custody-Purpose": "matter 7"}
    answer = await way.get(f"/v1/parts/{held}/content", runtime, Role.CUSTODIAN, headers=custodian)
    assert (answer.status_code, answer.content) == (200, SECRET)
    assert await read(way, runtime, held) == (403, "expired_held")
    assert await read(way, runtime, sibling) == (410, "retention_expired")
    assert await scalar(way.url, "SELECT array_agg(evidence::text) FROM bodies") == [held]
    states = "SELECT string_agg(DISTINCT state, ' ') FROM buckets WHERE span_start = $1"
    assert await scalar(way.url, states, span) == "destroyed"
    await back.publish()
    assert (await back.verified()).faults == []


async def test_sources_runs_and_captures_of_the_time_between(back):
    way = back.way
    scope = await way.scope()
    runtime, closed = await way.runtime(of=scope), await way.runtime("closed-after", of=scope)
    sources = way.api.services.sources
    for _ in range(2):
        await sources.put_version(scope.scope_id, "doc-7", "k", withdraw_earlier=False, audience=None)
    await sources.put_version(scope.scope_id, "doc-8", "k", withdraw_earlier=False, audience=None)
    await sources.revoke(scope.scope_id, "doc-8", None, "k")
    kept, _ = await stored(way, closed, "x-kept")
    await back.publish()
    await back.backup()

    await sources.put_version(scope.scope_id, "doc-7", "k", withdraw_earlier=False, audience=None)
    await sources.revoke(scope.scope_id, "doc-7", 1, "k")
    await sources.revoke(scope.scope_id, "doc-7", 3, "k")
    await sources.revoke(scope.scope_id, "doc-7", None, "k")
    await sources.restore(scope.scope_id, "doc-8", None, "k")
    later, _ = await stored(way, runtime, "x-later")
    await post(way, runtime, "/v1/holds", run=runtime.run, reason="matter 7")
    await execute(
        way.url,
        "UPDATE runs SET state = 'closing', closing_at = now() - interval '1 hour' WHERE run = $1",
        closed.run,
    )
    assert (await way.duties.perform("reconcile")).succeeded
    await back.publish()

    await back.go_back()
    assert (await way.duties.perform("purge")).succeeded
    # Who waits in the queue does not know of it; and nobody is refused meanwhile.
    between = await runtime.put(SECRET, "x-between")
    assert between.status_code == 202
    await way.write()
    assert await back.restore()
    found = "SELECT revoked_at IS NOT NULL FROM sources WHERE source = $1"
    assert (await scalar(way.url, found, "doc-7"), await scalar(way.url, found, "doc-8")) == (True, False)
    versions = (
        "SELECT array_agg(version ORDER BY version) FROM source_versions WHERE withdrawn_at IS NOT NULL"
    )
    assert await scalar(way.url, versions) == [1]
    assert await scalar(way.url, "SELECT unknown FROM restores") == 1
    assert await scalar(way.url, "SELECT reach || ' ' || placed_by FROM holds") == "run restore"
    assert await read(way, runtime, later) == (410, "lost_in_restore")
    assert await way.content(runtime, "x-between") == SECRET
    # Tickets of before are of a policy that counted up: everybody declares again, and says what he wishes now.
    again = await runtime.put(SECRET, "x-after")
    assert (again.status_code, again.json()["reason"]) == (403, "ticket_expired")
    await runtime.declare()
    assert (await runtime.put(SECRET, "x-after")).status_code == 202
    await way.write()
    refused = await closed.put(SECRET, "x-more")
    assert refused.status_code == 403
    # Its gap waits, and a run is closed once nothing of it does.
    await way.write()
    await execute(
        way.url, "UPDATE runs SET closing_at = closing_at - interval '1 hour' WHERE state = 'closing'"
    )
    assert (await way.duties.perform("reconcile")).succeeded
    assert await scalar(way.url, "SELECT state FROM runs WHERE run = 'closed-after'") == "closed"
    assert (await read(way, closed, kept))[0] == 200
    await back.publish()
    assert (await back.verified()).faults == []


async def test_a_torn_backup_says_what_did_not_come_back(back):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    torn, _ = await stored(way, runtime, "x-torn")
    whole, _ = await stored(way, runtime, "x-whole")
    await back.publish()
    await back.backup()
    later, _ = await stored(way, runtime, "x-later")
    await post(way, runtime, "/v1/holds", part=later, reason="matter 7")
    await back.publish()
    await back.go_back()
    await execute(way.url, "DELETE FROM bodies WHERE evidence = $1", torn)
    assert await back.restore()
    # What was lost nobody can hold.
    assert await scalar(way.url, "SELECT row(lost, held, unknown)::text FROM restores") == "(1,0,1)"
    assert await scalar(way.url, "SELECT state FROM parts WHERE exchange = 'x-torn'") == "lost_in_restore"
    assert await read(way, runtime, torn) == (410, "lost_in_restore")
    assert await read(way, runtime, whole) == (200, "")
    await back.publish()
    assert (await back.verified()).faults == []
    # Rows that somebody takes away are not lost: the log says what was.
    await execute(way.url, "DELETE FROM bodies WHERE evidence = $1", whole)
    await execute(way.url, "DELETE FROM parts WHERE evidence = $1", whole)
    await execute(
        way.url,
        "INSERT INTO lost_evidence (scope_id, evidence, bucket_id) VALUES ($1, $2, gen_random_uuid())",
        runtime.scope.scope_id, whole,
    )  # fmt: skip
    assert {fault.kind for fault in (await back.verified()).faults} == {"lost_without_restore"}


async def test_where_a_key_was_changed_after_the_backup_the_old_opens_nothing_and_the_next_part_gets_another(
    back,
):
    way = back.way
    scope = await way.scope()
    runtime = await way.runtime(of=scope)
    before, _ = await stored(way, runtime, "x-before")
    await back.publish()
    await back.backup()
    rewrapping = Rewrapping(way.house.duties, way.house.keyring, grace_s=0)
    assert (await rewrapping.run("operator-1", Selection(scope.scope_id))).secrets == 1
    await stored(way, runtime, "x-later")
    await back.publish()
    await back.go_back()
    assert await back.restore()
    assert await read(way, runtime, before) == (500, "key_lost")
    await runtime.declare()
    await stored(way, runtime, "x-after")
    assert await way.content(runtime, "x-after") == SECRET
    await back.publish()
    assert {(fault.kind, fault.id) for fault in (await back.verified()).faults} == {("key_lost", before)}


async def test_without_mirror_or_keys_and_beside_a_fork_nothing_is_changed(back):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    await stored(way, runtime, "x-1")
    await back.publish()
    assert not await back.restore()
    await back.backup()
    await stored(way, runtime, "x-2")
    await back.publish()
    await back.go_back()
    before = await scalar(way.url, "SELECT row(size, stop, published_size)::text FROM log_state")
    for place, words in (
        (back.mirror, "mirror is empty"),
        (way.settings.keys_dir / "bucket", "key directory"),
    ):
        place.rename(place.with_name("away"))
        place.mkdir(mode=0o700)
        with pytest.raises(Conflict, match=words) as refused:
            await back.restore()
        assert refused.value.reason is Reason.IDENTITY_CONFLICT
        place.rmdir()
        place.with_name("away").rename(place)
        assert await scalar(way.url, "SELECT row(size, stop, published_size)::text FROM log_state") == before
    assert await scalar(way.url, "SELECT count(*) FROM restores") == 0

    await log.grow(way.url, 1, "other")
    with pytest.raises(Conflict, match="forked"):
        await back.restore()
    assert await scalar(way.url, "SELECT stop FROM log_state") == "forked"
    with pytest.raises(Conflict, match="forked"):
        await back.restore()
    assert await read(way, runtime, str(await way.house.value("SELECT evidence FROM parts"))) == (
        503,
        "reads_closed",
    )


@pytest.mark.timeout(240)
async def test_killed_at_each_step_it_is_done_once(back):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    short = await way.runtime(of=await way.scope())
    erased, _ = await stored(way, runtime, "x-erased")
    held, _ = await stored(way, runtime, "x-held")
    expired, _ = await stored(way, short, "x-expired")
    await back.publish()
    await back.backup()
    later, _ = await stored(way, runtime, "x-later")
    gone, _ = await stored(way, runtime, "x-gone")
    await post(way, runtime, "/v1/erasures", part=gone)
    await post(way, runtime, "/v1/erasures", part=erased)
    await post(way, runtime, "/v1/holds", part=held, reason="matter 7")
    span = await span_of(back, expired)
    await execute(
        way.url,
        "UPDATE buckets SET span_end = span_end + interval '1 second' WHERE scope_id = $1",
        short.scope.scope_id,
    )
    await end_span(way.url, span)
    assert await back.round() is None
    assert (await way.duties.perform("expiry")).counts == {"expired": 2}
    await back.publish()
    leaves = await log.entries(way.url)

    await back.go_back()
    await end_span(way.url, span)
    died = []
    for module, name, when in STEPS:
        died.append((name, when, await killed_at(back, module, name, when)))
        assert await read(way, runtime, erased) == (503, "reads_closed"), name
    assert [each for each in died if each[2] != -signal.SIGKILL] == []
    assert await back.restore()
    assert await log.entries(way.url) == leaves
    assert (
        await scalar(way.url, "SELECT row(lost, purged, expired, held, unknown)::text FROM restores")
        == "(2,2,2,1,0)"
    )
    assert await scalar(way.url, "SELECT count(*) FROM operator_actions WHERE action = 'log_restored'") == 1
    assert (await read(way, runtime, erased))[1] == "erased"
    assert (await read(way, runtime, gone))[1] == "erased"
    assert (await read(way, short, expired))[1] == "retention_expired"
    await back.publish()
    assert (await back.verified()).faults == []
    assert later


async def killed_at(back: Back, module: str, name: str, when: str) -> int:
    settings = back.way.settings
    assert settings.database_url is not None
    assert settings.redis_url is not None
    written = {
        "CUSTODY_DATABASE_URL": settings.database_url.reveal(),
        "CUSTODY_REDIS_URL": settings.redis_url.reveal(),
        "CUSTODY_KEYS_DIR": str(settings.keys_dir),
        "CUSTODY_DATA_DIR": str(settings.data_dir),
        "CUSTODY_MIRROR_DIR": str(back.mirror),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.dying_restore", module, name, when,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **written},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    assert process.returncode == -signal.SIGKILL, said.decode()
    return process.returncode
