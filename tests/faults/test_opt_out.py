"""An opt-out meets 200 queued parts at any moment of their writing: nothing is stored once it was answered."""

import asyncio
import random

import pytest

from tests.support.ledger import agree, books_of, drained, sound
from tests.support.stack import Stack
from tests.support.traffic import Site, site

PARTS = 200
ROOMY = {"limits": {"run_parts": 256}, "waiting": {"run_parts": 256, "run_notes": 256}}


async def race(here: Site, run: str, writer, after_s: float) -> int:
    """Opt out that long after the writer may begin; return how many parts were stored before the answer."""
    stack = here.stack
    runtime = await here.runtime(run)
    writer.pause()
    await runtime.flush([runtime.observe(b'{"text": "part %d of %d"}' % (n, PARTS)) for n in range(PARTS)])
    assert runtime.counts() == {"queued": PARTS}
    writer.go_on()
    await asyncio.sleep(after_s)
    admission = await runtime.declare(content="opt_out")
    answered_at = await stack.now()
    before = (await books_of(stack, runtime)).stored
    assert (admission["admitted"], admission["reason"]) == (False, "content_opt_out")
    assert admission["effective"] == "now"
    late = await runtime.put(runtime.observe(b"{}"))
    assert (late.status, late.reason) == (403, "content_opt_out")

    await drained(stack)
    books = await books_of(stack, runtime)
    agree(runtime, books)
    assert books.stored == before
    assert set(books.by_outcome()) <= {"stored", "content_opt_out"}
    stored_at = await stack.value(
        "SELECT max(p.stored_at) FROM parts p JOIN runs r USING (scope_id, run_uid) WHERE scope_id = $1 AND r.run = $2",
        runtime.scope, run,
    )  # fmt: skip
    assert stored_at is None or stored_at <= answered_at
    return len(before)


async def races(stack: Stack, times: int) -> list[int]:
    async with site(stack, **ROOMY) as here:
        writer = stack.writer()
        first = await here.runtime("first")
        assert (await first.put(first.observe(b"{}"), Prefer="wait=5")).capture == "stored"
        moments = [random.uniform(0, 0.15) for _ in range(times)]
        stored = [await race(here, f"run-{n}", writer, moment) for n, moment in enumerate(moments)]
        await sound(stack)
        return stored


@pytest.mark.long
async def test_three_opt_outs_at_random_moments(stack):
    await races(stack, 3)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_fifty_opt_outs_at_random_moments(stack):
    stored = await races(stack, 50)
    # Some came in the middle: else this would show nothing.
    assert any(0 < count < PARTS for count in stored), stored
