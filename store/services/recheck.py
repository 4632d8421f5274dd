"""The re-check before the write: the facts of a batch, read and locked in its transaction, and what they allow.

Having been admitted at capture is no reason to be admitted now. Fails closed: what cannot be found refuses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from uuid import UUID

from policies.admission import admitted
from policies.content import admit_kind
from policies.decisions import ALLOW, Decision, Refuse
from policies.kinds import Kind, Mode
from policies.reasons import Reason
from policies.revocation import SourceFacts, admit_sources
from policies.scope_policy import ScopePolicy
from store.db import Connection
from store.services.sealing import Candidate
from store.tables import batch as table
from store.tables import tombstones
from store.tables.batch import Key, LockedRun
from store.tables.tombstones import Mark


class Later(Enum):
    """Not now, and no refusal."""

    STALE = auto()  # sealed for a bucket that is not the run's any more
    WAITING = auto()  # what it needs (bucket, key, partition) is not there yet
    FAULTY = auto()  # it could not be opened


@dataclass(slots=True)
class Ground:
    """What a batch's decisions stand on; true until its transaction ends."""

    runs: dict[Key, LockedRun] = field(default_factory=dict)
    buckets: dict[Key, str] = field(default_factory=dict)
    tombstones: Mapping[Mark, Reason] = field(default_factory=dict)
    sources: Mapping[UUID, Mapping[str, SourceFacts]] = field(default_factory=dict)
    policies: Mapping[UUID, ScopePolicy] = field(default_factory=dict)

    def temporary(self) -> set[Key]:
        """Return the runs that leave counts by reason and nothing else."""
        return {key for key, run in self.runs.items() if run.standing.mode is not Mode.NORMAL}


async def gather(connection: Connection, parts: Iterable[Candidate], runs: Iterable[Key]) -> Ground:
    """Lock the buckets of the parts, then all runs, scope by scope, and read what else decides."""
    parts = list(parts)
    ground = Ground()
    buckets = {(part.scope, part.bucket.bucket_id) for part in parts if part.bucket is not None}
    for scope, (of_buckets, of_runs) in _by_scope(buckets, runs).items():
        if of_buckets:
            states = await table.lock_buckets(connection, scope, of_buckets)
            ground.buckets.update({(scope, bucket): state for bucket, state in states.items()})
        locked = await table.lock_runs(connection, scope, of_runs)
        ground.runs.update({(scope, run_uid): run for run_uid, run in locked.items()})
    if parts:
        # Only after the runs are locked: who erases leaves the mark first and waits for the run.
        wanted = [(part.scope, mark) for part in parts for mark in part.marks]
        ground.tombstones = await tombstones.found(connection, wanted)
        ground.policies = await table.scope_policies(connection, {part.scope for part in parts})
    sources = {(part.scope, each.source) for part in parts for each in part.bindings}
    if sources:
        ground.sources = await table.source_facts(connection, sources)
    return ground


def recheck(part: Candidate, ground: Ground) -> Decision | Later:
    """Decide about one part; a refusal stands whether or not it could have been written."""
    run = ground.runs.get((part.scope, part.run_uid))
    if run is None or run.run != part.header.run:
        return Refuse(Reason.RUN_NOT_ADMITTED)
    decision = _allowed(part, run, ground)
    if isinstance(decision, Refuse):
        return decision
    return _placed(part, run, ground)


def _allowed(part: Candidate, run: LockedRun, ground: Ground) -> Decision:
    if run.erased:
        return Refuse(Reason.ERASED)
    for mark in part.marks:
        reason = ground.tombstones.get((part.scope, mark))
        if reason is not None:
            return Refuse(reason)
    decision = admitted(run.standing, run.now)
    if isinstance(decision, Refuse):
        return decision
    policy = ground.policies.get(part.scope)
    if policy is None:
        return Refuse(Reason.RUN_NOT_ADMITTED)
    decision = admit_kind(run.standing.kinds & policy.kinds, Kind(part.header.kind))
    if isinstance(decision, Refuse) or not part.bindings:
        return decision
    return admit_sources(part.bindings, ground.sources.get(part.scope, {}), policy.unknown_sources)


def _placed(part: Candidate, run: LockedRun, ground: Ground) -> Decision | Later:
    if part.faulty:
        return Later.FAULTY
    bucket = part.bucket
    if bucket is None:
        return Later.WAITING
    if not bucket.span_start <= run.standing.retain_until < bucket.span_end:
        return Later.STALE
    state = ground.buckets.get((part.scope, bucket.bucket_id))
    if state is None:
        return Later.STALE
    if state != "live":
        # The clock went back since: where it would lie is gone for good.
        return Refuse(Reason.RETENTION_EXPIRED)
    return ALLOW if part.sealed is not None else Later.WAITING


def _by_scope(buckets: Iterable[Key], runs: Iterable[Key]) -> dict[UUID, tuple[set[UUID], set[UUID]]]:
    found: dict[UUID, tuple[set[UUID], set[UUID]]] = {}
    for scope, run_uid in runs:
        found.setdefault(scope, (set(), set()))[1].add(run_uid)
    for scope, bucket in buckets:
        found[scope][0].add(bucket)
    return dict(sorted(found.items()))
