"""Two writers hold the same batch, because one was too slow: one row each, and one of them settles."""

import pytest

from tests.support.ledger import agree, books_of, drained, sound
from tests.support.locks import held, somebody_waits, waits_for_a_row
from tests.support.stack import Proc, until
from tests.support.traffic import Site, site

PARTS = 10


async def queued(here: Site):
    runtime = await here.runtime("run")
    await runtime.flush([runtime.observe(b'{"part": %d}' % number) for number in range(PARTS)])
    assert runtime.counts() == {"queued": PARTS}
    return runtime


async def finished(writer: Proc) -> None:
    async def look() -> bool:
        return "batch_written" in writer.said()

    await until(look, "the writer has done its batch")


async def stored_and_settled_once(here: Site, runtime) -> None:
    await drained(here.stack)
    books = await books_of(here.stack, runtime)
    agree(runtime, books)
    assert books.by_outcome() == {"stored": PARTS}
    with here.stack.redis() as client:
        assert int(client.hget("custody:{q0}:outcomes", "stored") or 0) == PARTS
    await sound(here.stack)


@pytest.mark.long
async def test_both_wait_for_the_same_lock_and_then_both_write(stack):
    async with site(stack) as here:
        runtime = await queued(here)
        async with held(stack, "LOCK TABLE parts IN SHARE MODE"):
            first = stack.writer()
            await somebody_waits(stack)
            second = stack.writer()
            # Each writer has two lanes, of which each takes the batch over from the one before.
            await somebody_waits(stack, 3)
        await finished(first)
        await finished(second)
        await stored_and_settled_once(here, runtime)


@pytest.mark.long
async def test_the_first_stops_before_it_writes_and_comes_back_after_the_second_settled(stack):
    async with site(stack) as here:
        runtime = await queued(here)
        async with held(stack, "SELECT FROM runs WHERE scope_id = $1 FOR UPDATE", runtime.scope):
            first = stack.writer()
            await somebody_waits(stack)
            first.pause()
        # It holds its share of the run's lock now, and nothing of it is written.
        second = stack.writer()
        await drained(stack)
        await finished(second)
        first.go_on()
        await finished(first)
        await stored_and_settled_once(here, runtime)


async def test_the_first_stops_between_its_insert_and_its_commit_and_the_second_waits_for_it(stack):
    async with site(stack) as here:
        runtime = await queued(here)
        async with held(stack, "LOCK TABLE log_queue IN SHARE MODE"):
            first = stack.writer()
            await somebody_waits(stack)
            first.pause()
        # Its parts are inserted, and not committed as long as it does not go on.
        second = stack.writer()
        await waits_for_a_row(stack)
        assert (await books_of(stack, runtime)).stored == {}
        first.go_on()
        await finished(first)
        await finished(second)
        await stored_and_settled_once(here, runtime)
