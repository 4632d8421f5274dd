"""The publisher on a real stack: killed at any point, two at a time, and before a database that went back or forked."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from policies.kinds import Role
from store.log_tree.notes import Checkpoint, parse_vkey, verify_checkpoint
from store.mirror import Mirror
from store.services.verify import verify
from tests.support import log
from tests.support.stack import ROOT, Stack, until
from tests.support.traffic import Site, Traffic, site

ROOMY = {
    "limits": {"run_parts": 100_000, "run_bytes": "1GiB"},
    "waiting": {"run_parts": 256, "run_notes": 4096},
}


@asynccontextmanager
async def checkpoints(mirror: Path) -> AsyncIterator[dict[int, bytes]]:
    """Every checkpoint that could be seen in the mirror, by its size; two of one size are a failure."""
    seen: dict[int, bytes] = {}

    async def watch() -> None:
        while True:
            note = Mirror(mirror).checkpoint()
            if note is not None:
                size = checkpoint_of(mirror, note).size
                assert size >= max(seen, default=0)
                assert seen.setdefault(size, note) == note
            await asyncio.sleep(0.005)

    task = asyncio.create_task(watch())
    try:
        yield seen
        assert not task.done() or task.result() is None
    finally:
        task.cancel()


def checkpoint_of(mirror: Path, note: bytes) -> Checkpoint:
    return verify_checkpoint(note, parse_vkey(Mirror(mirror).key() or ""))


async def published(stack: Stack) -> int:
    """Wait until everything is stored, sequenced and published; return how many leaves that are."""

    async def look() -> int:
        (row,) = await stack.rows(
            "SELECT size, published_size, (SELECT count(*) FROM log_queue) AS waiting, stop FROM log_state"
        )
        assert row["stop"] is None
        return 0 if row["waiting"] or row["published_size"] < row["size"] else int(row["size"])

    return await until(look, "everything is published", 60)


async def lease_over(stack: Stack) -> None:
    """As if the time of a killed publisher's lease had passed."""
    await stack.rows("UPDATE leases SET held_until = now() - interval '1 s' WHERE holder IS NOT NULL")


async def faultless(stack: Stack) -> None:
    services = await stack.services()
    report = await verify(services.database, services.keyring, None, Mirror(stack.settings.mirror_dir))
    assert report.faults == []
    assert report.checked["mirror leaves"]


@pytest.mark.long
@pytest.mark.timeout(420)
async def test_killed_again_and_again_nothing_is_signed_twice_and_nothing_is_missing(open_stack):
    stack: Stack = await open_stack()
    mirror = stack.settings.mirror_dir
    async with site(stack, **ROOMY) as here, checkpoints(mirror) as seen:
        stack.writer()
        stack.duties()
        traffic = Traffic([await here.runtime(f"run-{number}") for number in range(2)])
        async with traffic:
            for _ in range(12):
                publisher = stack.publisher()
                before = len(seen)

                async def moved(before: int = before) -> bool:
                    return len(seen) > before

                await until(moved, "a checkpoint is published", 60)
                await asyncio.sleep(random.uniform(0, 1.2))
                publisher.kill()
                await lease_over(stack)
        pair = [stack.publisher(), stack.publisher()]
        size = await published(stack)
        # While both run one works; whichever is killed, the other goes on.
        for each in pair:
            each.kill()
            await stack.rows(
                "UPDATE leases SET held_until = now() WHERE duty = 'publish' AND holder IS NOT NULL"
            )
            await log.grow(stack.database_url, 1)
            if each is pair[0]:
                assert await published(stack) == size + 1
    assert len(seen) > 12
    kept = {row["size"]: row["note"] for row in await stack.rows("SELECT size, note FROM log_checkpoints")}
    assert all(kept.get(size, note) == note for size, note in seen.items())
    assert len(await log.entries(stack.database_url)) == size + 2
    stack.publisher()
    assert await published(stack) == size + 2
    await faultless(stack)


async def store_one(here: Site) -> str:
    runtime = await here.runtime("run-1")
    await runtime.flush([runtime.observe(b"content")])

    async def look() -> Any:
        return await here.stack.value("SELECT evidence FROM parts WHERE scope_id = $1", here.scope.scope_id)

    return str(await until(look, "it is stored"))


async def command(stack: Stack, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, **stack.environment, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "store", *arguments, cwd=ROOT, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("stop", ["rolled_back", "forked"])
async def test_a_database_that_went_back_or_forked_shows_nothing_until_an_operator_acts(open_stack, stop):
    stack: Stack = await open_stack()
    async with site(stack) as here:
        stack.writer()
        working = [stack.duties(), stack.publisher()]
        evidence = await store_one(here)
        reviewer = await stack.key(Role.REVIEWER, here.scope)

        async def status(path: str = f"/v1/parts/{evidence}/content") -> tuple[int, str]:
            answer = await here.client.get(path, headers=dict(reviewer))
            problem = answer.headers["content-type"].startswith("application/problem")
            return answer.status_code, answer.json()["reason"] if problem else ""

        await published(stack)
        assert await status() == (200, "")
        for process in working:
            process.kill()
        await stack.rows(
            "UPDATE leases SET held_until = now() - interval '1 second' WHERE holder IS NOT NULL"
        )
        kept = await log.entries(stack.database_url)
        await stack.rows("CREATE TABLE saved AS SELECT idx, kind, subject, scope_id FROM log_entries")
        await log.go_back(stack.database_url, len(kept) - 1)

        # As restored it was last compared long ago: closed before anybody looks.
        async def closed() -> bool:
            return await status() == (503, "reads_closed")

        await until(closed, "reads close")
        if stop == "forked":
            await log.grow(stack.database_url, 3, "other")
        publisher = stack.publisher()

        async def stopped() -> bool:
            return bool(await stack.value("SELECT stop = $1 FROM log_state", stop))

        await until(stopped, "the publisher stops the log", 60)
        assert "log_stopped" in publisher.said()
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()["reads_closed"]) == (httpx.codes.OK, stop)
        operator = dict(await stack.key(Role.OPERATOR, None))
        duties = (await here.client.get("/v1/duties", headers=operator)).json()
        (told,) = [each for each in duties["items"] if each["duty"] == "publish"]
        assert told["last_outcome"] == f"failed: {stop}"
        # Captures go on.
        runtime = await here.runtime("run-2")
        await runtime.flush([runtime.observe(b"more")])
        assert runtime.counts() == {"queued": 1}

        code, out = await command(stack, "log", "resume")
        assert code == 1
        assert ("log take-back" if stop == "forked" else "replay the log") in out
        if stop == "forked":
            return
        await log.append(stack.database_url, kept[-1:])
        assert (await command(stack, "log", "resume"))[0] == 0
        await stack.rows("UPDATE log_entries e SET kind = s.kind, subject = s.subject, scope_id = s.scope_id"
                         " FROM saved s WHERE s.idx = e.idx")  # fmt: skip

        async def open_again() -> bool:
            return await status() == (200, "")

        await until(open_again, "reads open")
        stack.duties()
        await published(stack)
