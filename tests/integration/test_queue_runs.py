"""A run's hash on a real Valkey: made once, only ever narrowed, rebuilt from what the stream holds."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from policies.limits import RunLimits, ScopeLimits, ShardLimits
from policies.reasons import Reason
from policies.revocation import Binding
from store.queue import Belonging, Queue, RunKey
from store.services.run_facts import facts_told, narrower
from tests.support.queue_frames import FAR, RUN_UID, fields_of, gap, keys_in, new_key, open_run, part, state

pytestmark = pytest.mark.asyncio


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    made = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    yield made
    await made.close()


def name_of(key: RunKey) -> str:
    return f"custody:{{q0}}:run:{key.scope.hex}:{key.run}"


async def run_hash(queue: Queue, key: RunKey) -> dict[str, str]:
    return await fields_of(queue, name_of(key))


async def test_a_run_is_viewed_as_it_was_opened(queue: Queue) -> None:
    key = new_key()
    assert await queue.run_view(key) is None
    await open_run(queue, key, policy_version=3)
    view = await queue.run_view(key)
    assert view is not None
    assert (view.run_uid, view.state, view.policy_version, view.temporary) == (RUN_UID, "open", 3, False)
    assert abs(view.retain_until - FAR) < timedelta(milliseconds=1)
    assert view.announced == {}


async def test_a_run_says_whose_it_is_and_of_two_words_the_narrower_one(queue: Queue) -> None:
    key = new_key()
    first, second = Binding("doc-7", 3), Binding("doc-8", None)
    await open_run(queue, key, belonging=Belonging("owner", True, frozenset({first})))
    await open_run(queue, key, belonging=Belonging("owner", False, frozenset({first, second})))
    # What was read before the second word, and comes after it.
    await open_run(queue, key, belonging=Belonging("owner", True, frozenset({first})))
    view = await queue.run_view(key)
    assert view is not None
    assert view.belonging == Belonging("owner", False, frozenset({first, second}))


async def test_opening_again_changes_nothing_that_is_not_narrower(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, run_limits=RunLimits(run_parts=5))
    await queue.append([part(key)])
    before = await run_hash(queue, key)
    await open_run(queue, key, run_uid=uuid4(), run_limits=RunLimits(run_parts=9), captured_parts=50)
    assert await run_hash(queue, key) == before
    # Redis was away while the database was narrowed: opening brings it in.
    await open_run(queue, key, state="content_opt_out", retain_until=FAR - timedelta(days=1))
    view = await queue.run_view(key)
    assert view is not None
    assert view.state == "content_opt_out"
    assert view.retain_until < FAR - timedelta(hours=23)


async def test_limits_follow_a_newer_policy_and_never_an_older_one(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, policy_version=2)
    newer: dict[str, Any] = {
        "policy_version": 3, "run_limits": RunLimits(run_parts=7), "scope_limits": ScopeLimits(share=0.25),
    }  # fmt: skip
    await open_run(queue, key, **newer)
    assert (await run_hash(queue, key))["l_parts"] == "128"
    await open_run(queue, key, **newer, refresh_limits=True)
    after = await run_hash(queue, key)
    assert (after["l_parts"], after["share"], after["policy_version"]) == ("7", "250", "3")
    await open_run(queue, key, policy_version=2, refresh_limits=True)
    assert (await run_hash(queue, key))["l_parts"] == "7"


@pytest.mark.parametrize(
    ("was", "told", "becomes"),
    [
        ("open", "run_closed", "run_closed"),
        ("open", "content_opt_out", "content_opt_out"),
        ("run_closed", "content_opt_out", "content_opt_out"),
        ("content_opt_out", "run_closed", "content_opt_out"),
        ("content_opt_out", "not_sampled", "content_opt_out"),
        ("content_opt_out", "erased", "erased"),
        ("erased", "content_opt_out", "erased"),
        ("run_closed", "open", "run_closed"),
        ("erased", "closing", "erased"),
    ],
)
async def test_a_run_only_ever_becomes_narrower(queue: Queue, was: str, told: str, becomes: str) -> None:
    key = new_key()
    await open_run(queue, key, state=was)
    before = await queue.run_view(key)
    await queue.narrow_run(key, state=told)
    view = await queue.run_view(key)
    assert before is not None
    assert view is not None
    assert view.state == becomes
    # Guards, who also see the row, order states as the queue does.
    known = facts_told(before)
    assert narrower(replace(known, state=told, owner_key="owner"), known).state == becomes


async def test_retention_is_only_ever_shortened(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.narrow_run(key, retain_until=FAR + timedelta(days=3))
    assert (await queue.run_view(key)).retain_until <= FAR  # type: ignore[union-attr]
    await queue.narrow_run(key, retain_until=datetime.now(UTC) + timedelta(hours=1))
    # Its hash lives a day longer than it, and no more.
    life_s = await queue._links.calls.ttl(name_of(key))
    assert 24 * 3600 < life_s <= 25 * 3600
    await queue.narrow_run(key, retain_until=datetime.now(UTC) - timedelta(seconds=1))
    (answer,) = await queue.append([part(key)])
    assert answer.reason == Reason.RETENTION_EXPIRED


async def test_a_run_that_becomes_temporary_is_so_for_good(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.narrow_run(key, state="temporary_mode")
    answers = await queue.append([part(key), state(key)])
    assert {answer.reason for answer in answers} == {Reason.TEMPORARY_MODE}
    await queue.narrow_run(key, state="erased")
    view = await queue.run_view(key)
    assert view is not None
    assert (view.state, view.temporary) == ("erased", True)


async def test_narrowing_before_opening_is_not_undone_by_a_stale_opening(queue: Queue) -> None:
    key = new_key()
    await queue.narrow_run(key, state="erased")
    assert await queue.run_view(key) is None
    assert [answer.outcome for answer in await queue.append([part(key)])] == ["absent"]
    await open_run(queue, key, state="open")
    assert (await queue.run_view(key)).state == "erased"  # type: ignore[union-attr]
    assert await queue._links.calls.ttl(name_of(key)) > 3600


async def test_a_closed_run_that_is_asked_for_late_is_not_kept_until_its_retention_ends(queue: Queue) -> None:
    closed, closing = new_key(), new_key()
    await open_run(queue, closed, state="run_closed")
    await open_run(queue, closing)
    await queue.narrow_run(closing, state="run_closed")
    assert 0 < await queue._links.calls.ttl(name_of(closed)) <= 3600
    assert await queue._links.calls.ttl(name_of(closing)) > 24 * 3600


async def test_a_run_that_became_temporary_before_a_stale_opening_tells_nothing_of_its_attempts(
    queue: Queue,
) -> None:
    key = new_key()
    await queue.narrow_run(key, state="temporary_mode")
    await open_run(queue, key, state="open", temporary=False)
    assert [answer.reason for answer in await queue.append([state(key)])] == [Reason.TEMPORARY_MODE]


async def test_closing_keeps_the_first_deadline_and_the_highest_number(queue: Queue) -> None:
    key = new_key()
    until = datetime.now(UTC) + timedelta(seconds=30)
    assert not await queue.close_run(key, {"s": 1}, until)
    await open_run(queue, key)
    assert await queue.close_run(key, {"s": 5}, until)
    assert await queue.close_run(key, {"s": 3, "t": 0}, until + timedelta(hours=1))
    view = await queue.run_view(key)
    assert view is not None
    assert (view.state, dict(view.announced)) == ("closing", {"s": 5, "t": 0})
    assert int((await run_hash(queue, key))["closing_until"]) == int(until.timestamp() * 1000)


async def test_only_a_run_of_which_nothing_waits_is_forgotten(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([state(key)])
    assert not await queue.forget_run(key)
    (entry,) = await queue.take(0, "w", 10, 0)
    await queue.settle(0, [entry.settle("noted")])
    assert await queue.forget_run(key)
    assert await queue.run_view(key) is None
    assert [name for name in await keys_in(queue) if key.scope.hex in name] == []


async def test_runs_that_nobody_asks_about_are_forgotten_some_at_a_time(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.queue.upkeep._PAGES", 1)
    monkeypatch.setattr("store.queue.upkeep._SCAN", 10)
    idle, asked, waits, closing = new_key("idle:1"), new_key("asked"), new_key("waits"), new_key("closing")
    many = [new_key(f"many-{number}") for number in range(100)]
    for key in (idle, asked, waits, closing, *many):
        await open_run(queue, key)
    await queue.append([part(waits)])
    await queue.close_run(closing, {"s": 5}, FAR)
    narrowed = new_key("narrowed")
    await queue.narrow_run(narrowed, state="erased")
    for key in (idle, asked, waits, closing, narrowed, *many):
        await _nobody_asked(queue, key, 3600)
    assert await queue.run_view(asked) is not None

    hours, minutes = timedelta(hours=6), timedelta(minutes=15)
    assert [await queue.forget_idle(hours, minutes) for _ in range(30)] == [0] * 30
    monkeypatch.setattr("store.queue.upkeep._MANY", 1)
    rounds = [await queue.forget_idle(hours, minutes) for _ in range(30)]

    assert sum(rounds) == 101
    assert max(rounds) < 60
    left = sorted(name for name in await keys_in(queue) if ":run:" in name)
    assert left == sorted(map(name_of, (asked, waits, closing, narrowed)))
    await open_run(queue, idle)
    assert (await queue.append([part(idle)]))[0].outcome == "queued"


async def _nobody_asked(queue: Queue, key: RunKey, seconds: int) -> None:
    """As if nobody had asked about the run for so long."""
    client: Any = queue._links.calls
    name = name_of(key)
    value, ttl = await client.execute_command("DUMP", name), await client.pttl(name)
    await client.execute_command("RESTORE", name, max(0, ttl), value, "REPLACE", "IDLETIME", seconds)


async def test_a_run_whose_hash_was_lost_alone_is_counted_from_the_stream(queue: Queue) -> None:
    key, other = new_key(), new_key()
    for run in (key, other):
        await open_run(queue, run)
    stored = part(key, "x0", exact=7)
    await queue.append([stored, part(other, "x9")])
    entries = await queue.take(0, "w", 1, 0)
    await queue.settle(0, [entries[0].settle("stored")])
    waiting = [part(key, "x1", exact=10, digest=b"\x0a" * 8), part(key, "x2", exact=20)]
    await queue.append([*waiting, state(key), gap(key)])
    before = await run_hash(queue, key)

    await queue._links.calls.delete(name_of(key))
    assert [answer.outcome for answer in await queue.append([part(key, "x3")])] == ["absent"]
    facts: dict[str, Any] = {
        "captured_parts": 1, "captured_bytes": 7, "stored": [("x0", "a", "logical-request", stored.evidence)],
    }  # fmt: skip
    await open_run(queue, key, **facts)
    assert await run_hash(queue, key) == before
    await open_run(queue, key, **facts)
    assert await run_hash(queue, key) == before


async def test_recounting_finds_nothing_wrong_where_only_scripts_were_at_work(queue: Queue) -> None:
    keys = [new_key(f"r{n}") for n in range(5)]
    for key in keys:
        await open_run(queue, key)
    await queue.append([frame for key in keys for frame in (part(key, "x1"), part(key, "x2"), state(key))])
    taken = await queue.take(0, "w", 7, 0)
    await queue.settle(0, [e.settle("stored" if e.type == "part" else "noted") for e in taken])
    assert await queue.recount(0) == 0


async def test_recounting_repairs_every_counter_and_identity(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key, "x1", exact=10), part(key, "x2", exact=20), state(key)])
    right = {
        name: await fields_of(queue, name) for name in await keys_in(queue) if not name.endswith("entries")
    }
    scope = f"custody:{{q0}}:scope:{key.scope.hex}"
    client: Any = queue._links.calls
    await client.hset("custody:{q0}:pending", mapping={"parts": 99, "bytes": 1, "notes": 5})
    await client.hset(scope, mapping={"parts": 0, "r:ghost": 4})
    await client.hset("custody:{q0}:scope:" + "0" * 32, mapping={"parts": 8, "bytes": 8, "r:gone": 8})
    await client.hset(name_of(key), mapping={"wparts": 7, "wbytes": 0, "wnotes": 0, "bytes": 40, "parts": 3})
    lost = f"{uuid4().hex}p{'0' * 32}:10:160"
    await client.hset(name_of(key), "i:x9/a/logical-request", lost)
    assert await queue.recount(0) == 4
    assert {name: await fields_of(queue, name) for name in await keys_in(queue) if name in right} == right
    assert set(await keys_in(queue)) == {*right, "custody:{q0}:entries"}
    assert await queue.recount(0) == 0


async def test_an_epoch_begins_once(queue: Queue) -> None:
    assert await queue.epochs() == {0: None}
    epoch = await queue.ensure_epoch(0)
    assert len(epoch) == 32
    assert await queue.ensure_epoch(0) == epoch
    assert await queue.epochs() == {0: epoch}


async def test_beginning_anew_forgets_runs_but_for_how_narrow_they_are_and_what_waits(queue: Queue) -> None:
    waits, narrow = new_key("waits"), new_key("narrow")
    await open_run(queue, waits, stored=[("old", "a", "logical-request", uuid4())], captured_parts=1)
    await open_run(queue, narrow)
    waiting = part(waits)
    await queue.append([waiting])
    await queue.narrow_run(narrow, state="erased", retain_until=FAR - timedelta(days=1))
    before = await queue.ensure_epoch(0)

    epoch = await queue.begin_anew(0)
    assert (epoch != before, await queue.epochs()) == (True, {0: epoch})
    assert (await queue.run_view(waits), await queue.identity(waits, "old", "a", "logical-request")) == (
        None,
        None,
    )
    for key in (waits, narrow):
        await open_run(queue, key)
    view = await queue.run_view(narrow)
    assert view is not None
    assert view.state == "erased"
    assert view.retain_until < FAR - timedelta(hours=23)
    found = await queue.identity(waits, "x", "a", "logical-request")
    assert found is not None
    assert (found.pending, found.evidence) == (True, waiting.evidence)
    (depth,) = await queue.depth()
    assert (depth.parts, depth.stream_length) == (1, 1)
    assert await queue.recount(0) == 0
