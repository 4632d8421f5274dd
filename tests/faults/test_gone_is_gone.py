"""Scheduled expiry during an open reading session: refused from its instant on; then nothing that is left opens it."""

import asyncio
import secrets
import shutil
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
import pytest

from policies.kinds import Role
from store.commitments import Identity
from store.services.keys import COMMAND_LINE
from tests.support.ledger import Runtime, Said, books_of, drained, sound
from tests.support.scan import Keys, Planted, in_clear, opened, secrets_in_clear
from tests.support.stack import Stack, until
from tests.support.traffic import site

SPANS = {"bucket_span": "2s", "reclaim_idle": "300ms"}


def planted_text(words: int) -> bytes:
    """Text that is nowhere else and compresses like text."""
    mark = secrets.token_hex(24)
    return b'{"planted": "%s"}' % " ".join([mark] * words).encode()


async def planted(stack: Stack, runtime: Runtime, said: Said) -> Planted:
    (row,) = await stack.rows(
        "SELECT p.evidence, p.bucket_id FROM parts p JOIN runs r USING (scope_id, run_uid)"
        " WHERE scope_id = $1 AND r.run = $2 AND p.sequence = $3",
        runtime.scope, runtime.run, said.sequence,
    )  # fmt: skip
    identity = Identity(runtime.scope, runtime.run, said.exchange, said.attempt, said.kind)
    return Planted(identity, row["evidence"], row["bucket_id"], said.content)


async def buckets_reach(stack: Stack, runtime: Runtime) -> None:
    """Wait until the duties have made the bucket of a run."""

    async def look() -> bool:
        return bool(
            await stack.value(
                "SELECT count(*) FROM runs r JOIN buckets b USING (scope_id) WHERE scope_id = $1 AND r.run = $2"
                " AND b.span_start <= r.retain_until AND b.span_end > r.retain_until",
                runtime.scope, runtime.run,
            )
        )  # fmt: skip

    await until(look, "there is a bucket")


@pytest.mark.long
async def test_what_expired_is_refused_at_once_and_then_nothing_that_is_left_opens_it(open_stack):
    stack = await open_stack(own=True, **SPANS)
    places, before = (stack.directory / "p", stack.directory / "v"), stack.directory / "before"
    stack.duties()
    short = {"retention": {"default": "6s", "max": "6s"}, "metadata_retention": "1h"}
    long = {"retention": {"default": "1m", "max": "1m"}, "metadata_retention": "1h"}
    async with site(stack, **short) as here:
        lasting = await stack.scope(**long)
        stack.writer()
        kept = Runtime(here.client, await stack.key(Role.RUNTIME, lasting), lasting.scope_id, "kept")
        await kept.declare()
        await buckets_reach(stack, kept)
        stays = await kept.put(kept.observe(planted_text(8)), Prefer="wait=5")
        assert stays.capture == "stored"

        runtime = await here.runtime("run")
        await buckets_reach(stack, runtime)
        texts = [runtime.observe(planted_text(1)), runtime.observe(planted_text(200))]
        for said in texts:
            await runtime.put(said, Prefer="wait=5")
        assert runtime.counts() == {"stored": 2}
        plants = [await planted(stack, runtime, said) for said in texts]
        control = await planted(stack, kept, stays)
        keys = Keys.left_in(stack.directory / "keys")
        await stack.rows("CHECKPOINT")
        for place in places:
            shutil.copytree(place, before / place.name, ignore=shutil.ignore_patterns("*.s*"))

        await read_until_it_expires(stack, here.client, await stack.key(Role.REVIEWER, here.scope), runtime)
        await destroyed(stack, plants[0])
        await drained(stack)
        await stack.rows("CHECKPOINT")
        left = Keys.left_in(stack.directory / "keys")
        lost = set(keys.every) - set(left.every)
        assert lost
        assert left.bucket
        assert left.intake
        # What has not expired is still there, and the scan finds it.
        *gone, kept_kinds = opened([*plants, control], left, *places)
        assert gone == [set(), set()]
        assert "part" in kept_kinds
        # As long as the keys were there, it opened them: else it would show nothing now.
        assert all("part" in kinds for kinds in opened(plants, keys, before))
        shutil.rmtree(before)
        # It lies nowhere in clear, nor do the keys that went.
        assert in_clear([plant.content for plant in plants], stack.directory, *places) == []
        assert secrets_in_clear(lost, stack.directory, *places) == []
        await sound(stack)


async def read_until_it_expires(
    stack: Stack, client: httpx.AsyncClient, reader: dict[str, str], runtime: Runtime
) -> None:
    """Read pages and content over and over: all of it, until from one instant on none of it."""
    ends_at: datetime = await stack.value(
        "SELECT retain_until FROM runs WHERE scope_id = $1 AND run = $2", runtime.scope, runtime.run
    )
    said = runtime.said[1]
    content = f"{runtime.path(said)}/content"
    first = await client.get("/v1/parts", params={"run": runtime.run, "limit": "1"}, headers=reader)
    reads = 0
    while True:
        before = await stack.now()
        answer = await client.get(content, headers=reader)
        after = await stack.now()
        if answer.status_code != httpx.codes.OK:
            break
        reads += 1
        assert answer.content == said.content
        assert before < ends_at
        await asyncio.sleep(0.02)
    assert reads
    assert after >= ends_at
    assert (answer.status_code, answer.json()["reason"]) == (410, "retention_expired")
    # The page that was open goes on, and says of each row what holds now.
    following = {"run": runtime.run, "limit": "1", "cursor": first.json()["page"]["next"]}
    page: dict[str, Any] = (await client.get("/v1/parts", params=following, headers=reader)).json()
    assert [item["availability"]["reason"] for item in page["items"]] == ["retention_expired"]
    late = await runtime.put(runtime.observe(b"{}"))
    assert (late.status, late.reason) in ((403, "retention_expired"), (403, "ticket_expired"))


async def destroyed(stack: Stack, plant: Planted) -> None:
    async def look() -> bool:
        return bool(
            await stack.value("SELECT state = 'destroyed' FROM buckets WHERE bucket_id = $1", plant.bucket)
        )

    await until(look, "the bucket is destroyed")


async def test_a_settled_part_leaves_the_queues_files_although_others_wait_beside_it(open_stack):
    stack = await open_stack()
    queues = stack.directory / "v"
    async with site(stack) as here:
        writer = stack.writer()
        runtime = await here.runtime("run")
        assert (await runtime.put(runtime.observe(b"{}"), Prefer="wait=5")).capture == "stored"
        # Held back before and after it are parts of a scope that has no bucket yet.
        services = await stack.services()
        bare = await services.scopes.create(
            "bare", {"retention": {"default": "9d", "max": "9d"}}, COMMAND_LINE
        )
        waiting = Runtime(here.client, await stack.key(Role.RUNTIME, bare), bare.scope_id, "waiting")
        await waiting.declare()
        writer.pause()
        first = await waiting.put(waiting.observe(b"before"))
        said = await runtime.put(runtime.observe(planted_text(3)))
        last = await waiting.put(waiting.observe(b"after"))
        assert first.capture == said.capture == last.capture == "queued"
        identity = Identity(runtime.scope, runtime.run, said.exchange, said.attempt, said.kind)
        plant = Planted(identity, UUID(int=0), UUID(int=0), said.content)
        keys = Keys.left_in(stack.directory / "keys")
        assert opened([plant], keys, queues) == [{"intake"}]

        writer.go_on()

        async def stored() -> bool:
            return bool((await runtime.receipt(said))["capture"] == "stored")

        await until(stored, "the part is stored")
        await services.queue.rewrite_file()
        assert opened([plant], keys, queues) == [set()]
        assert (await books_of(stack, waiting)).waiting == {1, 2}
