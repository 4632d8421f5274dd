"""Full is said to the newcomer, in a fixed order of reasons, and no scope starves another."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.capacity import Use, Waiting, admit_body, admit_disk, admit_fact, admit_note, admit_part
from policies.decisions import ALLOW, Decision, Refuse
from policies.limits import (
    DEFAULT_RUN_LIMITS,
    DEFAULT_SCOPE_LIMITS,
    DEFAULT_SHARD_LIMITS,
    NOTE_BYTES,
    RunLimits,
    ScopeLimits,
    ShardLimits,
)
from policies.reasons import Reason
from policies.scope_policy import MAX_PART_BYTES

FULL = Refuse(Reason.CAPACITY_EXCEEDED)
KIB, MIB = 1024, 1024 * 1024

RUN = RunLimits(
    part_bytes=10, run_parts=8, run_bytes=60, run_waiting_parts=4, run_waiting_bytes=40, run_waiting_notes=3
)
SCOPE = ScopeLimits(waiting_parts=6, waiting_bytes=60, share=0.5)
SHARD = ShardLimits(parts=20, bytes=200)


def admit(waiting: Waiting, exact_bytes: int = 10, sealed_bytes: int = 10) -> Decision:
    return admit_part(waiting, exact_bytes, sealed_bytes, RUN, SCOPE, SHARD)


def test_the_defaults_are_the_promised_ones():
    assert RunLimits(256 * KIB, 128, 16 * MIB, 32, 4 * MIB, 128) == DEFAULT_RUN_LIMITS
    assert ScopeLimits(4_096, 64 * MIB, 0.5) == DEFAULT_SCOPE_LIMITS
    assert ShardLimits(16_384, 256 * MIB, 65_536) == DEFAULT_SHARD_LIMITS
    assert NOTE_BYTES == KIB


@pytest.mark.parametrize(
    ("waiting", "exact_bytes", "sealed_bytes", "decision"),
    [
        (Waiting(), 10, 10, ALLOW),
        (Waiting(), 0, 1, ALLOW),
        (Waiting(), 11, 10, Refuse(Reason.PART_TOO_LARGE)),
        # Sealing adds bytes: what counts against the part's limit is what was posted.
        (Waiting(), 10, 20, ALLOW),
        (Waiting(captured=Use(7, 0)), 10, 10, ALLOW),
        (Waiting(captured=Use(8, 0)), 10, 10, Refuse(Reason.RUN_PART_LIMIT)),
        (Waiting(captured=Use(0, 50)), 10, 10, ALLOW),
        (Waiting(captured=Use(0, 51)), 10, 10, Refuse(Reason.RUN_BYTE_LIMIT)),
        (Waiting(run=Use(3, 0)), 10, 10, ALLOW),
        (Waiting(run=Use(4, 0)), 10, 10, FULL),
        (Waiting(run=Use(0, 30)), 10, 10, ALLOW),
        (Waiting(run=Use(0, 31)), 10, 10, FULL),
        (Waiting(scope=Use(5, 0)), 10, 10, ALLOW),
        (Waiting(scope=Use(6, 0)), 10, 10, FULL),
        (Waiting(scope=Use(0, 50)), 10, 10, ALLOW),
        (Waiting(scope=Use(0, 51)), 10, 10, FULL),
        # Others hold 10 of 20: half of what is free is 5.
        (Waiting(scope=Use(4, 0), shard=Use(14, 0)), 10, 10, ALLOW),
        (Waiting(scope=Use(5, 0), shard=Use(15, 0)), 10, 10, FULL),
        (Waiting(scope=Use(0, 40), shard=Use(0, 140)), 10, 10, ALLOW),
        (Waiting(scope=Use(0, 41), shard=Use(0, 141)), 10, 10, FULL),
        # A shard whose count lags behind the scope's gives nothing away.
        (Waiting(scope=Use(5, 0), shard=Use(0, 0)), 10, 10, ALLOW),
        (Waiting(scope=Use(0, 50), shard=Use(0, 0)), 10, 10, ALLOW),
    ],
)
def test_bounds(waiting: Waiting, exact_bytes: int, sealed_bytes: int, decision: Decision):
    assert admit(waiting, exact_bytes, sealed_bytes) == decision


def test_a_full_shard_refuses_even_a_scope_whose_share_is_everything():
    waiting = Waiting(shard=Use(20, 0))
    whole = replace(SCOPE, share=1.0)
    assert admit_part(waiting, 1, 1, RUN, whole, SHARD) == FULL
    assert admit_part(Waiting(shard=Use(0, 200)), 1, 1, RUN, whole, SHARD) == FULL
    # More than the limit may wait after it was lowered; a share of less than nothing is nothing.
    assert admit_part(Waiting(shard=Use(30, 0)), 1, 1, RUN, whole, SHARD) == FULL
    # The shard's own bound holds also where the counts contradict each other and a share seems free.
    torn = Waiting(scope=Use(4, 0), shard=Use(20, 0))
    assert admit_part(torn, 1, 1, RUN, replace(whole, waiting_parts=100), SHARD) == FULL


def test_the_order_of_reasons():
    everything = Waiting(run=Use(9, 99), captured=Use(8, 60), scope=Use(99, 999), shard=Use(99, 999))
    assert admit(everything, 11) == Refuse(Reason.PART_TOO_LARGE)
    assert admit(everything) == Refuse(Reason.RUN_PART_LIMIT)
    assert admit(replace(everything, captured=Use(7, 60))) == Refuse(Reason.RUN_BYTE_LIMIT)
    assert admit(replace(everything, captured=Use(7, 0))) == FULL


@pytest.mark.parametrize(("notes", "decision"), [(0, ALLOW), (2, ALLOW), (3, FULL), (4, FULL)])
def test_notes_are_counted_apart(notes: int, decision: Decision):
    assert admit_note(Waiting(run=Use(99, 999), run_notes=notes), RUN, SHARD) == decision
    of_shard = Waiting(shard=Use(99, 999), shard_notes=SHARD.notes - 3 + notes)
    assert admit_note(of_shard, RUN, SHARD) == decision


@pytest.mark.parametrize(
    ("waiting", "decision"),
    [
        (Waiting(run=Use(99, 999), scope=Use(99, 999), shard=Use(99, 999)), ALLOW),
        # Half of the run's three.
        (Waiting(run_notes=1), ALLOW),
        (Waiting(run_notes=2), FULL),
        # Half of the shard's twenty.
        (Waiting(shard_notes=8), ALLOW),
        (Waiting(shard_notes=10), FULL),
        # Others hold four of these ten: half of what is free is three.
        (Waiting(shard_notes=6, scope_notes=2), ALLOW),
        (Waiting(shard_notes=7, scope_notes=3), FULL),
        # A shard whose count lags behind the scope's gives nothing away.
        (Waiting(scope_notes=4), ALLOW),
        (Waiting(scope_notes=5), FULL),
    ],
)
def test_facts_leave_half_of_the_room_for_notes_and_a_scope_s_leave_others_theirs(
    waiting: Waiting, decision: Decision
):
    assert admit_fact(waiting, RUN, SCOPE, replace(SHARD, notes=20)) == decision


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 4))
def test_where_a_fact_fits_an_attempt_state_does(of_shard: int, of_scope: int, of_run: int):
    waiting = Waiting(run_notes=of_run, scope_notes=of_scope, shard_notes=of_shard)
    shard = replace(SHARD, notes=20)
    if admit_fact(waiting, RUN, SCOPE, shard) == ALLOW:
        assert admit_note(waiting, RUN, shard) == ALLOW


@pytest.mark.parametrize(
    ("used", "limit", "decision"), [(10**12, None, ALLOW), (0, 100, ALLOW), (89, 100, ALLOW), (90, 100, FULL)]
)
def test_the_disk_keeps_room_for_purging(used: int, limit: int | None, decision: Decision):
    assert admit_disk(used, limit) == decision


@pytest.mark.parametrize(
    "make",
    [lambda: Use(-1, 0), lambda: Use(0, -1), lambda: admit(Waiting(), -1), lambda: admit(Waiting(), 0, -1)],
)
def test_negative_amounts_are_a_fault_of_the_caller(make):
    with pytest.raises(ValueError, match="not negative"):
        make()


USES = st.builds(Use, st.integers(0, 30), st.integers(0, 300))
WAITINGS = st.builds(Waiting, run=USES, run_notes=st.integers(0, 5), captured=USES, scope=USES, shard=USES)


@given(WAITINGS, WAITINGS, st.integers(0, 12), st.integers(0, 12))
def test_where_more_waits_less_is_admitted(
    less: Waiting, added: Waiting, exact_bytes: int, sealed_bytes: int
):
    def plus(one: Use, other: Use) -> Use:
        return Use(one.parts + other.parts, one.bytes + other.bytes)

    more = Waiting(
        run=plus(less.run, added.run),
        captured=plus(less.captured, added.captured),
        scope=plus(less.scope, added.scope),
        # What a scope has more, its shard has more.
        shard=plus(less.shard, plus(added.shard, added.scope)),
    )
    if admit(more, exact_bytes, sealed_bytes) == ALLOW:
        assert admit(less, exact_bytes, sealed_bytes) == ALLOW


@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_however_scopes_come_each_finds_room_as_long_as_half_is_free(order: list[str]):
    held = dict.fromkeys("abc", 0)
    wide = ScopeLimits(waiting_parts=100, waiting_bytes=10**6)
    runless = replace(RUN, run_parts=100)
    for scope in order:
        waiting = Waiting(scope=Use(held[scope], 0), shard=Use(sum(held.values()), 0))
        free_to_it = SHARD.parts - (sum(held.values()) - held[scope])
        admitted = admit_part(waiting, 1, 0, runless, wide, SHARD) == ALLOW
        assert admitted == (held[scope] + 1 <= free_to_it / 2)
        held[scope] += admitted
    assert sum(held.values()) < SHARD.parts
    newcomer = Waiting(shard=Use(sum(held.values()), 0))
    assert admit_part(newcomer, 1, 0, runless, wide, SHARD) == ALLOW


@pytest.mark.parametrize(
    ("body_bytes", "of_scope", "of_others", "decision"),
    [
        (10, 40, 0, ALLOW),
        (11, 40, 0, FULL),
        # Half of what the others leave.
        (10, 20, 40, ALLOW),
        (11, 20, 40, FULL),
        # The only body of its scope.
        (80, 0, 0, ALLOW),
        (81, 0, 0, FULL),
        (40, 0, 40, ALLOW),
        (41, 0, 40, FULL),
        # Where much is taken a newcomer has its share all the same.
        (5, 0, 90, ALLOW),
        (6, 0, 90, FULL),
        (0, 50, 0, ALLOW),
    ],
)
def test_bodies_of_a_scope_leave_room_for_those_of_others(
    body_bytes: int, of_scope: int, of_others: int, decision: Decision
):
    assert admit_body(body_bytes, of_scope, of_others, 100) == decision


def test_the_largest_part_that_a_policy_allows_fits_into_a_process_of_the_usual_size():
    assert admit_body(MAX_PART_BYTES, 0, 0, 40 * MIB) == ALLOW


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 40 * MIB)), max_size=40))
def test_however_bodies_come_usual_ones_of_a_fifth_scope_fit_in(bodies: list[tuple[str, int]]):
    held = dict.fromkeys("abcd", 0)
    for scope, size in bodies:
        others = sum(held.values()) - held[scope]
        if admit_body(size, held[scope], others, 40 * MIB) == ALLOW:
            held[scope] += size
    assert admit_body(DEFAULT_RUN_LIMITS.part_bytes, 0, sum(held.values()), 40 * MIB) == ALLOW
