"""A database that goes back under everybody's hands makes no fork, and there is a way out of one that came."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from policies.kinds import Role
from store.db import Database
from store.mirror import Mirror
from store.services import sequencing
from store.services.expiry import Expiry
from store.services.taking_back import TakingBack
from store.tables.buckets import Bucket
from tests.faults.test_publishing import command, published, store_one
from tests.integration.test_restore import SECRET, post, read, stored
from tests.support.backup import Back
from tests.support.capture import Capturing
from tests.support.cli import Ran, ran
from tests.support.duties import execute, scalar
from tests.support.journey import journey
from tests.support.stack import Stack, until
from tests.support.traffic import site

pytestmark = pytest.mark.long


@pytest.mark.timeout(240)
async def test_a_server_that_came_back_from_a_moment_ago_gives_no_place_away_before_it_is_compared(
    open_stack,
):
    stack: Stack = await open_stack(own=True)
    data, saved = stack.directory / "p" / "data", stack.directory / "p" / "saved"
    async with site(stack) as here:
        stack.writer()
        stack.duties()
        publisher = stack.publisher()
        evidence = await store_one(here)
        reviewer = dict(await stack.key(Role.REVIEWER, here.scope))
        operator = dict(await stack.key(Role.OPERATOR, here.scope))

        async def status() -> tuple[int, str]:
            answer = await here.client.get(f"/v1/parts/{evidence}/content", headers=reviewer)
            problem = answer.headers["content-type"].startswith("application/problem")
            return answer.status_code, answer.json()["reason"] if problem else ""

        async def is_so(*wanted: Any) -> None:
            async def look() -> bool:
                return await status() == wanted

            await until(look, f"{wanted}", 60)

        await published(stack)
        await is_so(200, "")
        stack.stop_postgres()
        await shell("cp", "-a", data, saved)
        stack.start_postgres()
        # Each restart closes reads until somebody compares.
        await is_so(200, "")
        asked = await here.client.post("/v1/erasures", json={"part": evidence}, headers=operator)
        assert asked.status_code == httpx.codes.ACCEPTED
        await until(lambda: purged(stack), "it is purged", 60)
        size = await published(stack)

        publisher.pause()
        stack.stop_postgres()
        await shell("rm", "-rf", data)
        await shell("mv", saved, data)
        stack.start_postgres()
        # As young as can be: not even a moment has gone by.
        await stack.rows("UPDATE log_state SET compared_at = now()")
        before = await stack.value("SELECT size FROM log_state")
        assert before < size
        runtime = await here.runtime("run-2")
        await runtime.flush([runtime.observe(b"after")])
        await until(lambda: waits(stack), "its leaf waits for a place", 60)
        await is_so(503, "reads_closed")
        await asyncio.sleep(3)
        assert await stack.value("SELECT size FROM log_state") == before
        publisher.go_on()

        async def stopped() -> Any:
            return await stack.value("SELECT stop FROM log_state")

        assert await until(stopped, "the publisher stops the log", 60) == "rolled_back"
        code, out = await command(stack, "restore")
        assert code == 0, out
        await is_so(410, "erased")
        await published(stack)
        code, out = await command(stack, "verify")
        assert code == 0, out


async def shell(*command: str | Path) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0


async def purged(stack: Stack) -> bool:
    return bool(await stack.value("SELECT state = 'purged' FROM erasures"))


async def waits(stack: Stack) -> bool:
    return bool(await stack.value("SELECT count(*) FROM log_queue"))


@pytest.fixture
async def back(
    postgres_url: str, template_database: str, valkey_url: str, tmp_path: Path
) -> AsyncIterator[Back]:
    mirror = str(tmp_path / "mirror")
    async with journey(postgres_url, template_database, valkey_url, tmp_path, mirror_dir=mirror) as way:
        yield Back(way, tmp_path)


async def sequenced_unseen(back: Back, runtime: Capturing, twice: str, parts: int) -> None:
    """Go on in a database that went back, as versions before did within the lease."""
    way = back.way
    with pytest.MonkeyPatch.context() as blind:
        blind.setattr(sequencing, "trusted", lambda *_: True)
        await execute(way.url, "UPDATE log_state SET compared_on = this_database()")
        await asyncio.sleep(1.1)
        for number in range(parts):
            await stored(way, runtime, f"x-between-{number}")
        await post(way, runtime, "/v1/erasures", part=twice)
        assert (await way.duties.perform("sequence")).counts["sequenced"] == parts + 1


@pytest.mark.parametrize("more", [0, 12])
async def test_out_of_a_fork_by_the_steps_as_they_are_written(back, more):
    way = back.way
    runtime = await way.runtime(of=await way.scope())
    erased, _ = await stored(way, runtime, "x-erased")
    twice, _ = await stored(way, runtime, "x-twice")
    held, _ = await stored(way, runtime, "x-held")
    await back.publish()
    await back.backup()
    await post(way, runtime, "/v1/erasures", part=erased)
    await post(way, runtime, "/v1/holds", part=held, reason="matter 7")
    lost, _ = await stored(way, runtime, "x-lost")
    await back.publish()

    await back.go_back(aged=False)
    await sequenced_unseen(back, runtime, twice, 1 + more)
    # With fewer leaves than were published it looks like one that went back, until a restore looks closer.
    assert await back.round() == ("forked" if more else "rolled_back")

    async def cli(*arguments: str) -> Ran:
        return await ran(way.settings, *arguments)

    if not more:
        code, said = await cli("restore")
        assert (code, "log take-back" in said) == (1, True)
    code, said = await cli("log", "status")
    assert (code, "stopped    forked" in said) == (1, True)
    code, said = await cli("verify")
    assert (code, "mirror_entry_mismatch" in said) == (1, True)
    code, said = await cli("log", "resume")
    assert (code, "take-back" in said) == (1, True)
    code, said = await cli("log", "take-back")
    assert (code, "python -m store restore" in said) == (0, True), said
    code, said = await cli("restore")
    assert (code, "1 parts lost, 1 purged again" in said) == (0, True), said
    await asyncio.sleep(1.1)
    assert await read(way, runtime, erased) == (410, "erased")
    assert await read(way, runtime, twice) == (410, "erased")
    assert await read(way, runtime, lost) == (410, "lost_in_restore")
    assert await read(way, runtime, held) == (200, "")
    assert await scalar(way.url, "SELECT evidence::text FROM holds") == held
    await back.publish()
    assert (await cli("restore-check"))[0] == 0
    code, said = await cli("verify")
    assert code == 0, said
    assert await way.content(runtime, "x-between-0") == SECRET
    part = await scalar(way.url, "SELECT evidence::text FROM parts WHERE exchange = 'x-between-0'")
    assert (await way.json(f"/v1/parts/{part}", runtime))["proof_state"] == "verified"
    actions = "SELECT array_agg(action ORDER BY at) FROM operator_actions WHERE action LIKE 'log%'"
    assert await scalar(way.url, actions) == ["log_taken_back", "log_restored"]
    # And what was blind is not any more: it goes on by itself.
    assert (await way.duties.perform("purge")).succeeded


async def test_what_happened_on_both_ways_of_a_fork_is_said_once_or_does_no_harm(back):
    way = back.way
    runtime, short = await way.runtime(of=await way.scope()), await way.runtime(of=await way.scope())
    erased, _ = await stored(way, runtime, "x-erased")
    expired, _ = await stored(way, short, "x-expired")
    # Of another span, so that only one of the two is over.
    await execute(
        way.url,
        "UPDATE buckets SET span_end = span_end + interval '1 day' WHERE scope_id = $1",
        runtime.scope.scope_id,
    )
    await back.publish()
    await back.backup()

    async def happens() -> None:
        span = await scalar(way.url, "SELECT span_start FROM parts WHERE exchange = 'x-expired'")
        over = "UPDATE buckets SET span_end = now() - interval '1 second' WHERE span_start = $1 AND scope_id = $2"
        await execute(way.url, "ALTER TABLE buckets DROP CONSTRAINT IF EXISTS buckets_span_forward")
        await execute(way.url, over, span, short.scope.scope_id)
        await post(way, runtime, "/v1/erasures", part=erased)
        expiry = Expiry(way.house.duties, way.house.keyring, way.queue, 86_400)
        bucket = await scalar(way.url, "SELECT bucket_id FROM parts WHERE exchange = 'x-expired'")
        await expiry._expire(Bucket(short.scope.scope_id, bucket, span, span, "live"))

    await happens()
    await back.publish()
    await back.go_back(aged=False)
    await asyncio.sleep(1.1)
    with pytest.MonkeyPatch.context() as blind:
        blind.setattr(sequencing, "trusted", lambda *_: True)
        await execute(way.url, "UPDATE log_state SET compared_on = this_database()")
        await asyncio.sleep(1.1)
        await stored(way, runtime, "x-between")
        await happens()
        assert (await way.duties.perform("sequence")).counts["sequenced"] == 3
    assert await back.round() == "forked"
    owner = await Database.open(way.url, role=None, size=2)
    done = await TakingBack(owner, Mirror(back.mirror)).run("operator-1")
    await owner.close()
    assert (done.leaves, done.missing) == (3, 2)
    assert await back.restore()
    await back.publish()
    assert (await back.verified()).faults == []
    kinds = "SELECT string_agg(kind, ' ' ORDER BY idx) FROM log_entries WHERE idx >= $1"
    assert await scalar(way.url, kinds, done.first) == "purge expire part purge restore"
    assert await read(way, runtime, erased) == (410, "erased")
    assert await read(way, short, expired) == (410, "retention_expired")
