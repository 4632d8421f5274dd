"""Postgres is away for a while: declared runs go on, the queue fills to its bounds, nothing that was queued is lost."""

import asyncio

import httpx
import pytest

from policies.kinds import Role
from tests.support.ledger import Runtime, agree, books_of, drained, sound
from tests.support.stack import Stack, until
from tests.support.traffic import Site, Traffic, site

# Within one scope: a run may fill its 32, all runs together 50.
BOUNDS = {"waiting": {"parts": 50}, "share": 1.0}


async def fill(runtime: Runtime, count: int) -> None:
    await asyncio.gather(*(runtime.put(runtime.observe(b'{"part": %d}' % number)) for number in range(count)))


async def delivered(stack: Stack, times: int) -> None:
    """Wait until writers have taken some entry over from each other so often."""

    async def look() -> bool:
        with stack.redis() as client:
            pending = client.xpending_range("custody:{q0}:entries", "writers", "-", "+", 1000)
        return any(entry["times_delivered"] >= times for entry in pending)

    await until(look, f"an entry is delivered {times} times")


async def stored_whole(here: Site, runtime: Runtime, queued: int) -> None:
    books = await books_of(here.stack, runtime)
    agree(runtime, books)
    refused = len(runtime.said) - queued
    expected = {"stored": queued, "capacity_exceeded": refused}
    assert books.by_outcome() == {word: count for word, count in expected.items() if count}


@pytest.mark.long
async def test_the_queue_fills_refuses_and_is_stored_whole_afterwards(open_stack):
    # One delivery too many makes an entry a suspect: the outage must not.
    stack = await open_stack(own=True, max_deliveries="1")
    async with site(stack, **BOUNDS) as here:
        one, other = await here.runtime("one"), await here.runtime("other")
        stack.writer()
        for runtime in (one, other):
            assert (await runtime.put(runtime.observe(b"{}"), Prefer="wait=5")).capture == "stored"
        reader = await stack.key(Role.REVIEWER, here.scope)

        stack.stop_postgres()
        await fill(one, 40)
        await fill(other, 20)
        assert one.counts() == {"stored": 1, "queued": 32, "capacity_exceeded": 8}
        assert other.counts() == {"stored": 1, "queued": 18, "capacity_exceeded": 2}
        assert all(said.recorded for said in (*one.told("not_captured"), *other.told("not_captured")))
        await only_outages(here, reader)
        # Others come, and take over what the first holds and cannot write.
        stack.writer()
        await delivered(stack, 2)
        stack.start_postgres()

        await drained(stack)
        await stored_whole(here, one, 33)
        await stored_whole(here, other, 19)
        # And it goes on as before.
        assert (await one.put(one.observe(b"{}"), Prefer="wait=5")).capture == "stored"
        await sound(stack)


@pytest.mark.long
async def test_however_many_writers_hold_a_part_while_it_is_away_none_gives_it_up(open_stack):
    stack = await open_stack(own=True, max_deliveries="1", reclaim_idle="100ms")
    async with site(stack) as here:
        runtime = await here.runtime("run")
        await fill(runtime, 3)
        assert runtime.counts() == {"queued": 3}
        stack.stop_postgres()
        for _ in range(4):
            stack.writer()
        await delivered(stack, 7)
        stack.start_postgres()
        await drained(stack)
        await stored_whole(here, runtime, 3)
        await sound(stack)


async def only_outages(here: Site, reader: dict[str, str]) -> None:
    """What needs Postgres says that it is away, and that trying again makes sense to whoever waits."""
    for call, key in (
        (here.client.put("/v1/runs/another", json={}, headers=here.key), "declaring"),
        (here.client.get("/v1/parts", headers=reader), "reading"),
        (here.client.get("/readyz"), "readiness"),
    ):
        answer = await call
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, (key, answer.text)
        if key != "readiness":
            assert answer.json()["reason"] == "store_unavailable", key
            assert answer.json()["retryable"] is True


async def stopped_and_started_under_load(stack: Stack, times: int) -> None:
    roomy = {"limits": {"run_parts": 100_000, "run_bytes": "1GiB"}, "waiting": {"run_notes": 4096}}
    async with site(stack, **roomy) as here:
        runtimes = [await here.runtime(f"run-{number}") for number in range(3)]
        for _ in range(2):
            stack.writer()
        async with Traffic(runtimes) as traffic:
            for number in range(times):
                await some_more(stack)
                stack.stop_postgres(kill=number % 2 == 0)
                await until(lambda: refused_for_capacity(runtimes), "the queue is full")
                stack.start_postgres()
                await some_more(stack)
                async with traffic.paused():
                    for runtime in runtimes:
                        agree(runtime, await books_of(stack, runtime))
        await drained(stack)
        for runtime in runtimes:
            books = await books_of(stack, runtime)
            agree(runtime, books)
            assert not books.waiting
            assert books.stored.keys() >= {said.sequence for said in runtime.told("queued", "stored")}
            assert runtime.counts().keys() <= {"queued", "stored", "capacity_exceeded"}
        await sound(stack)


async def refused_for_capacity(runtimes: list[Runtime]) -> bool:
    return all(runtime.last.reason == "capacity_exceeded" for runtime in runtimes)


async def some_more(stack: Stack) -> None:
    before = await stack.value("SELECT count(*) FROM parts")

    async def look() -> bool:
        return bool(await stack.value("SELECT count(*) > $1 FROM parts", before))

    await until(look, "something more is stored")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_killed_or_stopped_and_started_again_five_times_under_load(open_stack):
    await stopped_and_started_under_load(await open_stack(own=True, durable=True), 5)
