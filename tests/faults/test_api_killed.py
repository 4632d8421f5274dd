"""The api ends while bodies arrive, or right after it answered: what was said holds, what was not said hurts nobody."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.cut import Line, line_to, status_of
from tests.support.ledger import Runtime, Said, agree, books_of, drained, sound
from tests.support.stack import Proc, until
from tests.support.traffic import site

TERMINATED = pytest.param(signal.SIGTERM, id="terminated")
KILLED = pytest.param(signal.SIGKILL, id="killed")


def ends(*, usual: Any, other: Any) -> pytest.MarkDecorator:
    """Both ways to end; one of them only where there is time."""
    long = pytest.param(*other.values, id=other.id, marks=pytest.mark.long)
    return pytest.mark.parametrize("end", [usual, long])


ROOMY = {"limits": {"run_parts": 1000}, "waiting": {"run_parts": 256}}
BODY = 100_000


async def half_sent(exits: AsyncExitStack, runtime: Runtime, said: Said) -> Line:
    """A part whose body was asked for, and of which half has come."""
    line = await exits.enter_async_context(line_to(str(runtime.client.base_url)))
    await line.begin("PUT", runtime.path(said), runtime.headers(said), len(said.content))
    await line.send(said.content[: len(said.content) // 2])
    return line


async def ended(proc: Proc, end: signal.Signals) -> None:
    if end is signal.SIGKILL:
        proc.kill()
    else:
        proc.signal(end)
        await proc.ended()


@pytest.mark.long
@ends(usual=TERMINATED, other=KILLED)
async def test_half_of_a_body_becomes_interrupted_or_nothing(open_stack, end):
    stack = await open_stack()
    async with site(stack, **ROOMY) as here, AsyncExitStack() as exits:
        runtime = await here.runtime("run")
        whole = await runtime.put(runtime.observe(b"x" * BODY))
        halves = [runtime.observe(b"y" * BODY) for _ in range(3)]
        for said in halves:
            await half_sent(exits, runtime, said)
        await ended(here.proc, end)

        await here.restart_api()
        stack.writer()
        await drained(stack)
        books = await books_of(stack, runtime)
        assert books.outcome(whole.sequence) == "stored"
        # One that is told to end still says why; one that is killed cannot.
        left = "nothing" if end is signal.SIGKILL else "interrupted"
        assert [books.outcome(said.sequence) for said in halves] == [left] * len(halves)
        # One resend of what was not answered is allowed, and is harmless.
        for said in halves:
            assert (await runtime.put(said, Prefer="wait=5")).capture == "stored"
        books = await books_of(stack, runtime)
        agree(runtime, books)
        await sound(stack)


@ends(usual=KILLED, other=TERMINATED)
async def test_twenty_accepted_parts_outlive_the_api_that_accepted_them(open_stack, end):
    stack = await open_stack()
    async with site(stack, **ROOMY) as here:
        runtime = await here.runtime("run")
        await asyncio.gather(
            *(runtime.put(runtime.observe(b'{"part": %d}' % number)) for number in range(20))
        )
        assert runtime.counts() == {"queued": 20}
        await ended(here.proc, end)
        await here.restart_api()
        for said in runtime.told("queued"):
            assert (await runtime.receipt(said))["capture"] == "queued"
        stack.writer()
        await drained(stack)
        for said in runtime.told("queued"):
            assert (await runtime.receipt(said))["capture"] == "stored"
        agree(runtime, await books_of(stack, runtime))
        await sound(stack)


@pytest.mark.long
@pytest.mark.parametrize("end", [KILLED, TERMINATED])
async def test_ended_while_many_post_every_answer_holds_and_every_resend_is_harmless(open_stack, end):
    stack = await open_stack()
    async with site(stack, **ROOMY) as here:
        runtime = await here.runtime("run")
        stack.writer()
        posts = [
            asyncio.create_task(runtime.put(runtime.observe(b'{"part": %d}' % number)))
            for number in range(200)
        ]

        async def some_answered() -> bool:
            return len(runtime.told("queued")) > 20

        await until(some_answered, "some parts are answered")
        await asyncio.sleep(random.uniform(0, 0.02))
        await ended(here.proc, end)
        await asyncio.gather(*posts)
        await here.restart_api()
        unanswered = runtime.told("unanswered")
        await asyncio.gather(*(runtime.put(said) for said in unanswered))
        await drained(stack)
        books = await books_of(stack, runtime)
        agree(runtime, books)
        refused = runtime.told("not_captured")
        assert {said.reason for said in refused} <= {"capacity_exceeded"}
        assert books.stored.keys() == {said.sequence for said in runtime.told("queued", "stored")}
        await sound(stack)


async def test_a_sender_that_goes_away_leaves_a_reason_and_gives_its_room_back(open_stack):
    # Room for four bodies of one scope, no more.
    stack = await open_stack(body_budget="2MiB", flush_bytes="1MiB")
    async with site(stack, **ROOMY) as here, AsyncExitStack() as exits:
        runtime = await here.runtime("run")
        halves = [runtime.observe(b"y" * 262_144) for _ in range(4)]
        lines = [await half_sent(exits, runtime, said) for said in halves]
        full = await runtime.put(runtime.observe(b"z" * 262_144))
        assert (full.status, full.reason, full.recorded) == (429, "capacity_exceeded", True)
        for line in lines:
            line.cut()

        async def taken() -> bool:
            return (await runtime.put(runtime.observe(b"z" * 262_144))).capture == "queued"

        await until(taken, "there is room again")
        stack.writer()
        await drained(stack)
        books = await books_of(stack, runtime)
        assert {books.outcome(said.sequence) for said in halves} == {"interrupted"}
        await sound(stack)


@pytest.mark.long
async def test_a_body_that_comes_too_slowly_is_interrupted_in_time_and_its_connection_closed(open_stack):
    stack = await open_stack()
    async with site(stack) as here, AsyncExitStack() as exits:
        runtime = await here.runtime("run")
        said = runtime.observe(b"slow" * 100)
        line = await half_sent(exits, runtime, said)

        async def drip() -> None:
            while True:
                await line.send(b"s")
                await asyncio.sleep(1)

        dripping = asyncio.create_task(drip())
        try:
            answer = await line.answer()
        finally:
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)
        assert status_of(answer) == 408
        assert b'"interrupted"' in answer
        stack.writer()
        await drained(stack)
        assert (await books_of(stack, runtime)).by_outcome() == {"interrupted": 1}
        await sound(stack)
