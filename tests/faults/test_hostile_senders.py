"""Senders that are too slow, too wordy or silent: they are refused or left alone, and nobody else notices them."""

import asyncio
from contextlib import AsyncExitStack, suppress

import httpx
import pytest

from tests.support.cut import head, line_to, status_of
from tests.support.ledger import books_of, sound
from tests.support.traffic import Site, site

MEBIBYTE = 1 << 20


async def goes_on(here: Site, run: str = "other") -> None:
    """Somebody else posts, and waits for no longer than usual."""
    runtime = await here.runtime(run)
    async with asyncio.timeout(10):
        for _ in range(5):
            assert (await runtime.put(runtime.observe(b"{}"), Prefer="wait=5")).capture == "stored"


async def test_headers_that_are_too_large_are_refused_with_the_body_unread(stack):
    async with site(stack) as here:
        runtime = await here.runtime("run")
        said = runtime.observe(b"body")
        headers = {
            **runtime.headers(said),
            "X-Padding": "p" * 20_000,
            "Content-Length": "4",
            "Expect": "100-continue",
        }
        async with line_to(here.proc.url) as line:
            await line.send(head("PUT", runtime.path(said), headers))
            answer = await line.answer()
        assert status_of(answer) == 400
        assert b"100 Continue" not in answer
        assert b"p" * 100 not in answer


async def test_headers_without_end_are_cut_off(stack):
    async with site(stack) as here:
        sent = 0
        async with line_to(here.proc.url) as line:
            await line.send(b"GET /livez HTTP/1.1\r\nHost: custody\r\n")
            with suppress(ConnectionError):
                while sent < 4 * MEBIBYTE and not line.reader.at_eof():
                    await line.send(b"X-Padding: " + b"p" * 10_000 + b"\r\n")
                    sent += 10_000
                    await asyncio.sleep(0)
        assert sent < 4 * MEBIBYTE
        assert (await here.client.get("/livez")).status_code == httpx.codes.OK


async def test_slow_bodies_do_not_stop_others(stack):
    async with site(stack) as here, AsyncExitStack() as exits:
        stack.writer()
        runtime = await here.runtime("run")
        lines = []
        for _ in range(20):
            said = runtime.observe(b"s" * 1000)
            line = await exits.enter_async_context(line_to(here.proc.url))
            await line.begin("PUT", runtime.path(said), runtime.headers(said), len(said.content))
            await line.send(b"s")
            lines.append(line)
        await goes_on(here)
        answers = await asyncio.gather(*(line.answer() for line in lines))
        assert {status_of(answer) for answer in answers} == {408}
        await goes_on(here, "after")
        assert (await books_of(stack, runtime)).by_outcome() == {"interrupted": 20}
        await sound(stack)


async def idle_connections(here: Site, exits: AsyncExitStack, count: int) -> None:
    """Half of them say nothing at all, half begin a request and leave it at that."""
    for number in range(count):
        line = await exits.enter_async_context(line_to(here.proc.url))
        if number % 2:
            await line.send(b"GET /livez HTTP/1.1\r\n")


async def test_idle_connections_do_not_stop_others(stack):
    async with site(stack) as here, AsyncExitStack() as exits:
        stack.writer()
        await idle_connections(here, exits, 200)
        await goes_on(here)
        await sound(stack)


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_two_thousand_idle_connections_do_not_stop_others(open_stack):
    stack = await open_stack()
    async with site(stack) as here, AsyncExitStack() as exits:
        stack.writer()
        await idle_connections(here, exits, 2_000)
        await goes_on(here)
        await sound(stack)
