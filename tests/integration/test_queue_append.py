"""Appending on a real Valkey: what is taken, what is refused, and what a refusal leaves behind."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from policies.limits import NOTE_BYTES, RunLimits, ScopeLimits, ShardLimits
from policies.reasons import Reason
from store.queue import GapHeader, Queue, RunKey
from tests.support.queue_frames import KEY_ID, fact, fields_of, gap, new_key, open_run, part, state

pytestmark = pytest.mark.asyncio


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    made = Queue(redis_url, shards=1, shard_limits=ShardLimits())
    yield made
    await made.close()


async def run_hash(queue: Queue, key: RunKey) -> dict[str, str]:
    return await fields_of(queue, f"custody:{{q0}}:run:{key.scope.hex}:{key.run}")


async def test_a_part_of_an_unknown_run_is_absent_and_leaves_nothing(queue: Queue) -> None:
    key = new_key()
    answers = await queue.append([part(key), state(key), gap(key)])
    assert [answer.outcome for answer in answers] == ["absent"] * 3
    assert (await queue.depth())[0].stream_length == 0
    assert await queue.outcomes() == {}


async def test_what_was_queued_is_delivered_byte_for_byte(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    frame = part(key, session="s", sequence=1, sealed=4096, sources=[("doc-7", 3)])
    (answer,) = await queue.append([frame])
    assert answer.outcome == "queued"
    (entry,) = await queue.take(0, "w", 10, 0)
    assert (entry.type, entry.key, entry.sealed, entry.deliveries) == ("part", key, frame.sealed, 1)
    assert entry.header.sources == [("doc-7", 3)]  # type: ignore[union-attr]
    assert entry.settle("stored").evidence == frame.evidence.bytes


async def test_forty_at_once_against_a_limit_of_32_are_32_queued_and_8_refused_with_gaps(
    queue: Queue,
) -> None:
    key = new_key()
    await open_run(queue, key)
    frames = [part(key, f"x{n}", session="s", sequence=n + 1) for n in range(40)]
    answers = [answer for (answer,) in await asyncio.gather(*(queue.append([frame]) for frame in frames))]
    refused = [frame for frame, answer in zip(frames, answers, strict=True) if answer.outcome == "refused"]
    assert Counter(answer.outcome for answer in answers) == {"queued": 32, "refused": 8}
    assert {(a.reason, a.recorded) for a in answers if a.outcome == "refused"} == {
        (Reason.CAPACITY_EXCEEDED, True)
    }
    entries = await queue.take(0, "w", 100, 0)
    gaps = [entry for entry in entries if isinstance(entry.header, GapHeader)]
    assert {(g.header.exchange, g.header.first, g.header.last, g.header.said_by) for g in gaps} == {  # type: ignore[union-attr]
        (frame.exchange, frame.sequence, frame.sequence, "store") for frame in refused
    }
    assert {entry.reason for entry in gaps} == {Reason.CAPACITY_EXCEEDED}
    assert len(entries) == 40
    assert await queue.outcomes() == {"capacity_exceeded": 8}


async def test_a_resend_exists_while_pending_and_once_stored(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    frame = part(key, digest=b"\xaa" * 8)
    await queue.append([frame])
    (again,) = await queue.append([part(key, digest=b"\xbb" * 8)])
    assert (again.outcome, again.evidence, again.pending) == ("exists", frame.evidence, True)
    assert (again.key_id, again.digest) == (KEY_ID, b"\xaa" * 8)
    (entry,) = await queue.take(0, "w", 10, 0)
    assert await queue.settle(0, [entry.settle("stored")]) == [True]
    (again,) = await queue.append([part(key)])
    assert (again.outcome, again.evidence, again.pending, again.digest) == (
        "exists",
        frame.evidence,
        False,
        None,
    )
    assert (await queue.identity(key, "x", "a", "logical-request")) == again
    assert await queue.identity(key, "x", "a", "observable-output") is None


async def test_the_same_identity_twice_in_one_call_is_taken_once(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    first, second = part(key), part(key)
    answers = await queue.append([first, second])
    assert [answer.outcome for answer in answers] == ["queued", "exists"]
    assert answers[1].evidence == first.evidence
    assert (await queue.depth())[0].parts == 1


async def test_a_resend_at_full_bounds_or_after_closing_is_no_newcomer(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, run_limits=RunLimits(run_parts=1))
    frame = part(key)
    await queue.append([frame])
    await queue.narrow_run(key, state="run_closed")
    (again,) = await queue.append([part(key)])
    assert (again.outcome, again.evidence) == ("exists", frame.evidence)


@pytest.mark.parametrize(
    ("limits", "exact", "reason"),
    [
        (RunLimits(part_bytes=99), 100, Reason.PART_TOO_LARGE),
        (RunLimits(part_bytes=100), 100, None),
        (RunLimits(run_parts=0), 100, Reason.RUN_PART_LIMIT),
        (RunLimits(run_bytes=99), 100, Reason.RUN_BYTE_LIMIT),
        (RunLimits(run_bytes=100), 100, None),
        (RunLimits(run_waiting_parts=0), 100, Reason.CAPACITY_EXCEEDED),
        (RunLimits(run_waiting_bytes=159), 100, Reason.CAPACITY_EXCEEDED),
        (RunLimits(run_waiting_bytes=160), 100, None),
    ],
)
async def test_each_bound_of_a_run_at_its_edge(
    queue: Queue, limits: RunLimits, exact: int, reason: Reason | None
) -> None:
    key = new_key()
    await open_run(queue, key, run_limits=limits)
    (answer,) = await queue.append([part(key, exact=exact, sealed=160)])
    assert answer.reason == reason


@pytest.mark.parametrize("limits", [ScopeLimits(waiting_parts=2), ScopeLimits(waiting_bytes=320)])
async def test_a_scope_is_bounded_over_all_its_runs(queue: Queue, limits: ScopeLimits) -> None:
    scope = uuid4()
    keys = [RunKey(scope, f"r{n}") for n in range(4)]
    for key in keys:
        await open_run(queue, key, scope_limits=limits)
    answers = await queue.append([part(key) for key in keys])
    assert [answer.outcome for answer in answers] == ["queued"] * 2 + ["refused"] * 2


async def test_no_scope_takes_more_than_its_share_of_what_is_free(redis_url: str) -> None:
    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits(parts=16, bytes=1_000_000))
    loud, quiet = new_key(), new_key()
    for key in (loud, quiet):
        await open_run(queue, key)
    answers = await queue.append([part(loud, f"x{n}") for n in range(16)])
    assert Counter(answer.outcome for answer in answers) == {"queued": 8, "refused": 8}
    # The loud one holds 8 of 16; the quiet one may have half of the other 8.
    answers = await queue.append([part(quiet, f"x{n}") for n in range(16)])
    assert Counter(answer.outcome for answer in answers) == {"queued": 4, "refused": 12}
    await queue.close()


async def test_a_shard_is_full_at_its_own_bound(redis_url: str) -> None:
    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits(parts=3, bytes=1_000_000))
    keys = [new_key() for _ in range(5)]
    for key in keys:
        await open_run(queue, key, scope_limits=ScopeLimits(share=1.0))
    answers = await queue.append([part(key) for key in keys])
    assert [answer.outcome for answer in answers] == ["queued"] * 3 + ["refused"] * 2
    await queue.close()


@pytest.mark.parametrize(
    "word",
    [Reason.CONTENT_OPT_OUT, Reason.NOT_SAMPLED, Reason.ERASED, Reason.RUN_NOT_ADMITTED, Reason.RUN_CLOSED],
)
async def test_a_run_that_refuses_says_its_reason_and_leaves_a_gap(queue: Queue, word: Reason) -> None:
    key = new_key()
    await open_run(queue, key, state=word.value)
    (answer,) = await queue.append([part(key)])
    assert (answer.outcome, answer.reason, answer.recorded) == ("refused", word, True)
    (entry,) = await queue.take(0, "w", 10, 0)
    assert (entry.type, entry.reason, entry.sealed) == ("gap", word, None)


async def test_a_temporary_run_takes_no_part_and_no_state_and_its_gaps_are_counted_by_the_writer(
    queue: Queue,
) -> None:
    key = new_key()
    await open_run(queue, key, state="temporary_mode", temporary=True)
    answers = await queue.append([part(key), gap(key), state(key)])
    assert [(answer.outcome, answer.recorded) for answer in answers] == [
        ("refused", True), ("queued", False), ("refused", False),
    ]  # fmt: skip
    assert {answers[0].reason, answers[2].reason} == {Reason.TEMPORARY_MODE}
    entries = await queue.take(0, "w", 10, 0)
    assert [(entry.type, entry.sealed, entry.reason) for entry in entries] == [
        ("gap", None, Reason.TEMPORARY_MODE), ("gap", None, None),
    ]  # fmt: skip
    assert await queue.outcomes() == {"temporary_mode": 1}


@pytest.mark.parametrize("ago", [timedelta(seconds=1), timedelta(days=400)])
async def test_past_its_retention_a_run_takes_nothing(queue: Queue, ago: timedelta) -> None:
    key = new_key()
    await open_run(queue, key, retain_until=datetime.now(UTC) - ago)
    answers = await queue.append([part(key), state(key)])
    assert {answer.reason for answer in answers} == {Reason.RETENTION_EXPIRED}


async def test_while_a_run_closes_only_announced_numbers_come_in(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    assert await queue.close_run(key, {"s": 5, "t": 0}, datetime.now(UTC) + timedelta(seconds=30))
    answers = await queue.append(
        [
            part(key, "x1", session="s", sequence=5),
            part(key, "x2", session="s", sequence=6),
            part(key, "x3", session="t", sequence=1),
            part(key, "x4", session="unknown", sequence=1),
            part(key, "x5"),
        ]
    )
    assert [answer.outcome for answer in answers] == ["queued", *["refused"] * 4]
    assert {answer.reason for answer in answers[1:]} == {Reason.RUN_CLOSED}
    assert (await queue.append([state(key)]))[0].outcome == "queued"


async def test_once_closing_is_over_announced_numbers_come_too_late(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.close_run(key, {"s": 5}, datetime.now(UTC))
    (answer,) = await queue.append([part(key, session="s", sequence=5)])
    assert answer.reason == Reason.RUN_CLOSED


async def test_notes_are_bounded_apart_and_gaps_share_their_bound(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, run_limits=RunLimits(run_waiting_notes=2, run_waiting_parts=1))
    notes = await queue.append([state(key), gap(key), gap(key)])
    assert [(a.outcome, a.reason) for a in notes] == [
        ("queued", None), ("queued", None), ("refused", Reason.CAPACITY_EXCEEDED),
    ]  # fmt: skip
    first, second = await queue.append([part(key, "x1"), part(key, "x2")])
    assert first.outcome == "queued"
    # No room for its gap: the sender keeps it and reports it later.
    assert (second.outcome, second.recorded) == ("refused", False)


async def test_gaps_are_still_taken_from_a_closed_run_and_states_are_not(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, state="run_closed")
    answers = await queue.append([gap(key), state(key), gap(key, Reason.IDENTITY_CONFLICT)])
    assert [answer.outcome for answer in answers] == ["queued", "refused", "queued"]
    entries = await queue.take(0, "w", 10, 0)
    assert [entry.reason for entry in entries] == [None, Reason.IDENTITY_CONFLICT]
    assert await queue.outcomes() == {"identity_conflict": 1}


@pytest.mark.parametrize(
    ("standing", "reason"),
    [
        ("open", None),
        ("closing", None),
        ("run_closed", Reason.RUN_CLOSED),
        ("content_opt_out", Reason.CONTENT_OPT_OUT),
        ("not_sampled", Reason.NOT_SAMPLED),
        ("temporary_mode", Reason.TEMPORARY_MODE),
        ("erased", Reason.ERASED),
    ],
)
async def test_facts_are_taken_while_a_run_s_content_is_admitted(
    queue: Queue, standing: str, reason: Reason | None
) -> None:
    key = new_key()
    await open_run(queue, key, state=standing, temporary=standing == "temporary_mode")
    (answer,) = await queue.append([fact(key, b"told")])
    assert (answer.outcome, answer.reason, answer.recorded) == (
        "refused" if reason else "queued",
        reason,
        False,
    )
    entries = await queue.take(0, "w", 10, 0)
    assert [(entry.type, entry.header.body) for entry in entries] == ([] if reason else [("fact", b"told")])  # type: ignore[union-attr] # a fact
    assert await queue.outcomes() == {}


async def test_facts_are_bounded_with_the_other_notes_of_their_run(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, run_limits=RunLimits(run_waiting_notes=4))
    notes = await queue.append([fact(key), state(key), fact(key), part(key)])
    assert [answer.reason for answer in notes] == [None, None, Reason.CAPACITY_EXCEEDED, None]


async def test_facts_leave_half_of_their_run_s_room_to_states_and_gaps(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    answers = await queue.append([fact(key) for _ in range(128)])
    assert Counter(answer.reason for answer in answers) == {None: 64, Reason.CAPACITY_EXCEEDED: 64}
    answers = await queue.append([(state if n % 2 else gap)(key) for n in range(65)])
    assert Counter(answer.reason for answer in answers) == {None: 64, Reason.CAPACITY_EXCEEDED: 1}


async def test_one_scope_s_facts_starve_no_other_scope(redis_url: str) -> None:
    queue = Queue(redis_url, shards=1, shard_limits=ShardLimits(notes=512))
    greedy = uuid4()
    for run in range(16):
        key = RunKey(greedy, f"r{run}")
        await open_run(queue, key)
        await queue.append([fact(key) for _ in range(64)])
    (depth,) = await queue.depth()
    # Its share of the half that facts may take.
    assert depth.notes == 128
    other = new_key()
    await open_run(queue, other)
    answers = await queue.append([*(fact(other) for _ in range(60)), state(other), gap(other)])
    assert {answer.outcome for answer in answers} == {"queued"}
    answers = await queue.append([state(key), gap(key), fact(key)])
    assert [answer.outcome for answer in answers] == ["queued", "queued", "refused"]
    # What was written makes room again.
    entries = await queue.take(0, "w", 256, 0)
    assert all(await queue.settle(0, [entry.settle("noted") for entry in entries]))
    assert (await queue.append([fact(key)]))[0].outcome == "queued"
    await queue.close()


async def test_a_refused_parts_gap_is_no_longer_than_a_note_may_be(queue: Queue) -> None:
    key = new_key("r" * 128)
    await open_run(queue, key, state="content_opt_out")
    sources: list[tuple[str, int | None]] = [(f"s{n:03}" * 32, n) for n in range(32)]
    frame = part(key, "x" * 128, attempt="a" * 128, session="s" * 128, sequence=1, sources=sources)
    await queue.append([frame])
    assert len(frame.header) > NOTE_BYTES
    (entry,) = await queue._links.calls.xrange("custody:{q0}:entries")
    assert len(entry[1][b"h"]) <= NOTE_BYTES


async def test_answers_come_in_the_order_of_the_frames_over_runs_and_types(queue: Queue) -> None:
    known, unknown = new_key(), new_key()
    await open_run(queue, known, run_limits=RunLimits(part_bytes=50))
    answers = await queue.append(
        [
            part(unknown, "x1"), part(known, "x1", exact=50), state(known), part(known, "x2", exact=51),
            gap(unknown), part(known, "x1", exact=50),
        ]
    )  # fmt: skip
    assert [answer.outcome for answer in answers] == [
        "absent",
        "queued",
        "queued",
        "refused",
        "absent",
        "exists",
    ]


async def test_more_than_one_call_can_carry_is_split_and_answered_in_order(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key, run_limits=RunLimits(run_parts=2_000, run_waiting_parts=1_100))
    answers = await queue.append([part(key, f"x{n}") for n in range(1_300)])
    assert Counter(answer.outcome for answer in answers) == {"queued": 1_100, "refused": 200}
    again = await queue.append([part(key, f"x{n}") for n in range(1_300)])
    assert [a.outcome == "exists" for a in again] == [a.outcome == "queued" for a in answers]


async def test_frames_over_shards_are_answered_in_order(redis_url: str) -> None:
    queue = Queue(redis_url, shards=4, shard_limits=ShardLimits())
    keys = [new_key(f"r{n}") for n in range(40)]
    for key in keys[::2]:
        await open_run(queue, key)
    answers = await queue.append([part(key) for key in keys])
    assert [answer.outcome for answer in answers] == ["queued", "absent"] * 20
    depths = await queue.depth()
    assert sum(depth.parts for depth in depths) == 20
    assert sum(depth.parts > 0 for depth in depths) > 1
    await queue.close()


async def test_concurrent_callers_share_calls(queue: Queue) -> None:
    keys = [new_key() for _ in range(100)]
    for key in keys:
        await open_run(queue, key)
    client = queue._links.calls
    await client.config_resetstat()
    answers = await asyncio.gather(*(queue.append([part(key)]) for key in keys))
    assert all(answer.outcome == "queued" for (answer,) in answers)
    calls = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    # One turn of the loop, one call; and another where the server had to be told the script first.
    assert calls <= 2


async def test_one_callers_cancellation_leaves_the_others_alone(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    going, staying = (asyncio.ensure_future(queue.append([part(key, name)])) for name in ("x1", "x2"))
    await asyncio.sleep(0)
    going.cancel()
    (answer,) = await staying
    assert answer.outcome == "queued"
    with pytest.raises(asyncio.CancelledError):
        await going


async def test_scripts_that_the_server_forgot_are_told_again(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue._links.calls.script_flush()
    (answer,) = await queue.append([part(key)])
    assert answer.outcome == "queued"
    await queue._links.calls.script_flush()
    (entry,) = await queue.take(0, "w", 10, 0)
    assert await queue.settle(0, [entry.settle("stored")]) == [True]


async def test_exact_sizes_and_digests_go_when_settled(queue: Queue) -> None:
    key = new_key()
    await open_run(queue, key)
    await queue.append([part(key, "x1", exact=12_345, digest=b"\xd1" * 8), part(key, "x2", exact=5)])
    assert "12345" in str(await run_hash(queue, key))
    entries = await queue.take(0, "w", 10, 0)
    await queue.settle(0, [entry.settle("stored") for entry in entries])
    after = await run_hash(queue, key)
    assert after["bytes"] == "12350"
    assert "12345" not in str(after)
    assert "d1" * 8 not in str(after)
