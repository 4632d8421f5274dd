"""The append script decides as `policies.capacity` does, on any amounts and any limits."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar
from uuid import uuid4

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from policies.capacity import Use, Waiting, admit_fact, admit_note, admit_part
from policies.decisions import Refuse
from policies.limits import RunLimits, ScopeLimits, ShardLimits
from store.queue import Queue, RunKey
from store.queue.keys import ShardKeys
from tests.support.queue_frames import fact, new_key, open_run, part, state

# Small numbers, so that every bound is met from below, exactly, and from above.
few = st.integers(0, 6)
uses = st.builds(Use, few, few)
waitings = st.builds(Waiting, uses, few, uses, uses, uses, few, few)
run_limits = st.builds(RunLimits, few, few, few, few, few, few)
scope_limits = st.builds(ScopeLimits, few, few, st.sampled_from([0.1, 0.25, 0.333, 0.5, 0.7, 1.0]))
shard_limits = st.builds(ShardLimits, st.integers(0, 12), st.integers(0, 12), few)

_Answer = TypeVar("_Answer")


class Bench:
    """A queue and a loop for all examples; connections belong to the loop that made them."""

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.queue = Queue(url, shards=1, shard_limits=ShardLimits())

    def do(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        return self.loop.run_until_complete(work)

    async def put(self, key: RunKey, waiting: Waiting) -> None:
        """Make the counters say what the example wants, whatever the stream holds."""
        keys, client = ShardKeys.of(0), self.queue._links.calls
        run = {
            "wparts": waiting.run.parts, "wbytes": waiting.run.bytes, "wnotes": waiting.run_notes,
            "parts": waiting.captured.parts, "bytes": waiting.captured.bytes,
        }  # fmt: skip
        for name, amounts in (
            (keys.run(key), run),
            (
                keys.scope(key.scope),
                {"parts": waiting.scope.parts, "bytes": waiting.scope.bytes, "notes": waiting.scope_notes},
            ),
            (
                keys.pending,
                {
                    "parts": waiting.shard.parts,
                    "bytes": waiting.shard.bytes,
                    "notes": waiting.shard_notes,
                },
            ),
        ):
            pairs = [item for pair in amounts.items() for item in pair]
            await client.execute_command("HSET", name, *pairs)


@pytest.fixture
def bench(redis_url: str) -> Iterator[Bench]:
    made = Bench(redis_url)
    yield made
    made.do(made.queue.close())
    made.loop.close()


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(waitings, few, few, run_limits, scope_limits, shard_limits)
@example(Waiting(), 1, 1, RunLimits(1, 1, 1, 1, 1, 0), ScopeLimits(1, 1, 1.0), ShardLimits(1, 1, 1))
def test_parts(
    bench: Bench,
    waiting: Waiting,
    exact: int,
    sealed: int,
    run: RunLimits,
    scope: ScopeLimits,
    shard: ShardLimits,
) -> None:
    key = new_key()
    bench.queue._appends._limits = shard
    bench.do(open_run(bench.queue, key, run_limits=run, scope_limits=scope))
    bench.do(bench.put(key, waiting))
    (answer,) = bench.do(bench.queue.append([part(key, exact=exact, sealed=sealed)]))
    decision = admit_part(waiting, exact, sealed, run, scope, shard)
    if isinstance(decision, Refuse):
        assert (answer.outcome, answer.reason) == ("refused", decision.reason)
        assert answer.recorded == (not isinstance(admit_note(waiting, run, shard), Refuse))
    else:
        assert answer.outcome == "queued"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(few, few, run_limits, shard_limits)
def test_notes(bench: Bench, of_run: int, of_shard: int, run: RunLimits, shard: ShardLimits) -> None:
    key, waiting = new_key(), Waiting(run_notes=of_run, shard_notes=of_shard)
    bench.queue._appends._limits = shard
    bench.do(open_run(bench.queue, key, run_limits=run))
    bench.do(bench.put(key, waiting))
    (answer,) = bench.do(bench.queue.append([state(key)]))
    decision = admit_note(waiting, run, shard)
    assert answer.reason == (decision.reason if isinstance(decision, Refuse) else None)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(waitings, run_limits, scope_limits, st.builds(ShardLimits, few, few, st.integers(0, 24)))
def test_facts(
    bench: Bench, waiting: Waiting, run: RunLimits, scope: ScopeLimits, shard: ShardLimits
) -> None:
    key = new_key()
    bench.queue._appends._limits = shard
    bench.do(open_run(bench.queue, key, run_limits=run, scope_limits=scope))
    bench.do(bench.put(key, waiting))
    (answer,) = bench.do(bench.queue.append([fact(key)]))
    decision = admit_fact(waiting, run, scope, shard)
    assert answer.reason == (decision.reason if isinstance(decision, Refuse) else None)


async def test_a_share_is_kept_to_the_thousandth(redis_url: str) -> None:
    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits(parts=1_000, bytes=10**9))
    key = RunKey(uuid4(), "r")
    limits = RunLimits(run_parts=10, run_waiting_parts=10)
    await open_run(queue, key, run_limits=limits, scope_limits=ScopeLimits(share=0.003))
    answers = await queue.append([part(key, f"x{n}") for n in range(5)])
    assert [answer.outcome for answer in answers] == ["queued"] * 3 + ["refused"] * 2
    await queue.close()
