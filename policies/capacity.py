"""Whether there is room. Full means an explicit refusal of the newcomer, never an eviction.

Fails closed: once a bound is reached the next one is refused. Waiting bytes are sealed bytes (what the queue
holds); captured bytes are exact bytes (what the run's limit is about).

The service asks `admit_disk` only. What may wait is decided where it is counted, by `store/queue/lua/append.lua`:
`admit_part`, `admit_note` and `admit_fact` are what that script is held to, on any amounts and limits by
`tests/integration/test_queue_capacity.py`, and in any order of calls by `tests/integration/test_queue_model.py`.
"""

from dataclasses import dataclass
from typing import Final

from policies.decisions import ALLOW, Decision, Refuse
from policies.limits import RunLimits, ScopeLimits, ShardLimits
from policies.reasons import Reason

# Purging needs room to work, so that captures stop before the disk is full.
DISK_SHARE: Final = 0.9
# Facts are many. Attempt states and gaps, by which a run is accounted for, keep the rest of the room for notes.
FACTS_SHARE: Final = 0.5
# The bodies of a scope may take so much of what those of the others leave free in an api process.
BODIES_SHARE: Final = 0.5
# A scope's only body may be larger, so that what a policy allows (32 MiB) fits; the others still have room beside it.
BODY_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Use:
    """An amount of parts and their bytes."""

    parts: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse counts that cannot be counts."""
        if self.parts < 0 or self.bytes < 0:
            raise ValueError("an amount is not negative")


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for the writers in a run, its scope and its shard, and what the run has captured so far."""

    run: Use = Use()
    run_notes: int = 0
    captured: Use = Use()
    scope: Use = Use()
    shard: Use = Use()
    shard_notes: int = 0
    scope_notes: int = 0


def admit_part(
    waiting: Waiting,
    exact_bytes: int,
    sealed_bytes: int,
    run_limits: RunLimits,
    scope_limits: ScopeLimits,
    shard_limits: ShardLimits,
) -> Decision:
    """Decide whether one more part fits: its own size, the run's totals, then run, scope, share and shard."""
    exact, sealed = Use(1, exact_bytes), Use(1, sealed_bytes)
    if exact_bytes > run_limits.part_bytes:
        return Refuse(Reason.PART_TOO_LARGE)
    if waiting.captured.parts + exact.parts > run_limits.run_parts:
        return Refuse(Reason.RUN_PART_LIMIT)
    if waiting.captured.bytes + exact.bytes > run_limits.run_bytes:
        return Refuse(Reason.RUN_BYTE_LIMIT)
    room = (
        _fits(waiting.run, sealed, run_limits.run_waiting_parts, run_limits.run_waiting_bytes)
        and _fits(waiting.scope, sealed, scope_limits.waiting_parts, scope_limits.waiting_bytes)
        and _fair(waiting, sealed, scope_limits.share, shard_limits)
        and _fits(waiting.shard, sealed, shard_limits.parts, shard_limits.bytes)
    )
    return ALLOW if room else Refuse(Reason.CAPACITY_EXCEEDED)


def admit_note(waiting: Waiting, run_limits: RunLimits, shard_limits: ShardLimits) -> Decision:
    """Decide whether one more attempt state or gap fits; notes are counted apart from parts."""
    if waiting.run_notes < run_limits.run_waiting_notes and waiting.shard_notes < shard_limits.notes:
        return ALLOW
    return Refuse(Reason.CAPACITY_EXCEEDED)


def admit_fact(
    waiting: Waiting, run_limits: RunLimits, scope_limits: ScopeLimits, shard_limits: ShardLimits
) -> Decision:
    """Decide whether one more fact fits: in what facts may take of its run and shard, there in its scope's share."""
    of_run, of_shard = FACTS_SHARE * run_limits.run_waiting_notes, FACTS_SHARE * shard_limits.notes
    others = max(0, waiting.shard_notes - waiting.scope_notes)
    room = (
        waiting.run_notes < of_run
        and waiting.shard_notes < of_shard
        and waiting.scope_notes + 1 <= scope_limits.share * (of_shard - others)
    )
    return ALLOW if room else Refuse(Reason.CAPACITY_EXCEEDED)


def admit_body(body_bytes: int, scope_bytes: int, others_bytes: int, budget_bytes: int) -> Decision:
    """Decide whether an api process may hold a body, besides other bodies of its scope and those of other scopes."""
    in_share = scope_bytes + body_bytes <= BODIES_SHARE * (budget_bytes - others_bytes)
    alone = scope_bytes == 0 and others_bytes + body_bytes <= BODY_SHARE * budget_bytes
    return ALLOW if in_share or alone else Refuse(Reason.CAPACITY_EXCEEDED)


def admit_disk(used_bytes: int, limit_bytes: int | None) -> Decision:
    """Decide whether the database's disk takes new captures; without a limit nobody asked for a decision."""
    if limit_bytes is None or used_bytes < DISK_SHARE * limit_bytes:
        return ALLOW
    return Refuse(Reason.CAPACITY_EXCEEDED)


def _fits(use: Use, more: Use, parts: float, size: float) -> bool:
    return use.parts + more.parts <= parts and use.bytes + more.bytes <= size


def _fair(waiting: Waiting, more: Use, share: float, shard: ShardLimits) -> bool:
    """Keep a scope to its share of what the others leave free, so that none can starve them."""
    others_parts = max(0, waiting.shard.parts - waiting.scope.parts)
    others_bytes = max(0, waiting.shard.bytes - waiting.scope.bytes)
    return _fits(
        waiting.scope, more, share * (shard.parts - others_parts), share * (shard.bytes - others_bytes)
    )
