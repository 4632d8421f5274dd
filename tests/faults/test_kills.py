"""A writer is killed with -9: by chance under load, and exactly where it hurts most."""

import asyncio
import random

import pytest

from tests.support.ledger import Runtime, agree, books_of, drained, sound
from tests.support.locks import held, somebody_waits
from tests.support.stack import Proc, Stack, until
from tests.support.traffic import Site, Traffic, site

ROOMY = {
    "limits": {"run_parts": 100_000, "run_bytes": "1GiB"},
    "waiting": {"run_parts": 256, "run_notes": 4096},
}


async def killed_under_load(stack: Stack, times: int) -> None:
    async with site(stack, **ROOMY) as here:
        runtimes = [await here.runtime(f"run-{number}") for number in range(4)]
        traffic = Traffic(runtimes)
        async with traffic:
            for _ in range(times):
                writer = stack.writer()
                await wrote_something(stack, writer)
                await asyncio.sleep(random.uniform(0, 0.5))
                writer.kill()
                async with traffic.paused():
                    for runtime in runtimes:
                        agree(runtime, await books_of(stack, runtime))
        stack.writer()
        await drained(stack)
        assert sum(len(runtime.said) for runtime in runtimes) > 20 * times
        for runtime in runtimes:
            books = await books_of(stack, runtime)
            agree(runtime, books)
            assert books.by_outcome().keys() <= {"stored", "capacity_exceeded", "client_queue_full"}
            assert not runtime.told("unanswered")
        await sound(stack)


async def wrote_something(stack: Stack, writer: Proc) -> None:
    before = await stack.value("SELECT count(*) FROM parts")

    async def look() -> bool:
        assert writer.alive, writer.said()
        return bool(await stack.value("SELECT count(*) > $1 FROM parts", before))

    await until(look, "the writer writes")


@pytest.mark.long
async def test_killed_twice_under_load_nothing_is_lost_and_nothing_comes_twice(stack):
    await killed_under_load(stack, 2)


@pytest.mark.long
@pytest.mark.timeout(420)
async def test_killed_twenty_times_under_load_the_books_agree_each_time(stack):
    await killed_under_load(stack, 20)


async def queued(here: Site, count: int) -> Runtime:
    runtime = await here.runtime("run")
    await runtime.flush([runtime.observe(b'{"part": %d}' % number) for number in range(count)])
    assert runtime.counts() == {"queued": count}
    return runtime


async def all_stored(here: Site, runtime: Runtime) -> None:
    """Every part is stored, once, and settled once."""
    stack = here.stack
    await drained(stack)
    books = await books_of(stack, runtime)
    agree(runtime, books)
    assert books.by_outcome() == {"stored": len(runtime.said)}
    with stack.redis() as client:
        assert int(client.hget("custody:{q0}:outcomes", "stored") or 0) == len(runtime.said)
    await sound(stack)


@pytest.mark.long
async def test_killed_before_its_commit_another_writer_writes_the_batch(stack):
    async with site(stack) as here:
        runtime = await queued(here, 10)
        async with held(stack, "LOCK TABLE parts IN SHARE MODE"):
            first = stack.writer()
            await somebody_waits(stack)
            first.kill()
        stack.writer()
        await all_stored(here, runtime)


async def test_killed_between_commit_and_settle_the_batch_is_settled_as_it_is(stack):
    async with site(stack) as here:
        runtime = await queued(here, 10)
        with stack.redis() as client:
            async with held(stack, "LOCK TABLE parts IN SHARE MODE"):
                first = stack.writer()
                await somebody_waits(stack)
                # Whoever wants to change something in Redis waits: the writer can commit, and cannot settle.
                client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")

            async def committed() -> bool:
                return len((await books_of(stack, runtime)).stored) == 10

            await until(committed, "the first writer commits")
            first.kill()
            client.execute_command("CLIENT", "UNPAUSE")
        books = await books_of(stack, runtime)
        assert len(books.stored) == len(books.waiting) == 10
        stack.writer()
        await all_stored(here, runtime)
