"""The re-check before the write: the facts of a batch, read and locked in its transaction, and what they allow.

Having been admitted at capture is no reason to be admitted now. Fails closed: what cannot be found refuses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final
from uuid import UUID

from policies.admission import admitted
from policies.content import admit_kind
from policies.decisions import ALLOW, Decision, Refuse
from policies.kinds import Kind, Mode
from policies.reasons import Reason
from policies.revocation import SourceFacts, admit_sources
from policies.scope_policy import ScopePolicy
from store.db import Connection
from store.services import marks
from store.services.sealing import Candidate, Place
from store.tables import batch as table
from store.tables import restores, tombstones
from store.tables.batch import Key, LockedBucket, LockedRun

_NOBODY: Final = Refuse(Reason.RUN_NOT_ADMITTED)
# What purged it, as a capture is told.
_REFUSED_AS: Final = {Reason.SOURCE_UNAVAILABLE: Reason.SOURCE_REVOKED}


class Later(Enum):
    """Not now, and no refusal."""

    STALE = auto()  # sealed for a bucket, or a key, that is not the run's any more
    WAITING = auto()  # what it needs (bucket, key, partition) is not there yet
    FAULTY = auto()  # it could not be opened


@dataclass(frozen=True, slots=True)
class _OfRun:
    """What holds for all parts of a run and kind: what comes before the part's own marks, after them, and last."""

    first: Refuse | None
    then: Decision
    placed: Decision | Later


@dataclass(slots=True)
class Ground:
    """What a batch's decisions stand on; true until its transaction ends."""

    runs: dict[Key, LockedRun] = field(default_factory=dict)
    buckets: dict[Key, LockedBucket] = field(default_factory=dict)
    # By entry: why what it holds must never be written.
    gone: Mapping[str, Reason] = field(default_factory=dict)
    sources: Mapping[UUID, Mapping[str, SourceFacts]] = field(default_factory=dict)
    policies: Mapping[UUID, ScopePolicy] = field(default_factory=dict)
    # By place and kind, as it was found for the first such part.
    found: dict[tuple[bytes, str], _OfRun] = field(default_factory=dict)

    def temporary(self) -> set[Key]:
        """Return the runs that leave counts by reason and nothing else."""
        return {key for key, run in self.runs.items() if run.standing.mode is not Mode.NORMAL}


async def gather(
    connection: Connection, parts: Iterable[Candidate], runs: Iterable[Key], lookup: bytes
) -> Ground:
    """Lock the buckets of the parts, then all runs, scope by scope, and read what else decides.

    `lookup` is the key of marks.
    """
    parts = list(parts)
    ground = Ground()
    places = {part.place.named: part.place for part in parts}.values()
    buckets = {(place.key[0], place.bucket.bucket_id) for place in places if place.bucket is not None}
    for scope, (of_buckets, of_runs) in _by_scope(buckets, runs).items():
        if of_buckets:
            standing = await table.lock_buckets(connection, scope, of_buckets)
            ground.buckets.update({(scope, bucket): each for bucket, each in standing.items()})
        locked = await table.lock_runs(connection, scope, of_runs)
        ground.runs.update({(scope, run_uid): run for run_uid, run in locked.items()})
    if parts:
        # Only after the runs are locked: who erases leaves the mark first and waits for the run.
        demands = await table.scope_demands(connection, {place.key[0] for place in places})
        ground.policies = {scope: each.policy for scope, each in demands.items()}
        # Where nothing was ever erased, no mark needs to be made to look for it.
        marked = [part for part in parts if part.scope in demands and demands[part.scope].has_tombstones]
        ground.gone = await _gone(connection, marked, lookup) if marked else {}
        after_restore = [part for part in parts if part.scope in demands and demands[part.scope].has_lost]
        if after_restore:
            ground.gone = {**await _purged_and_lost(connection, after_restore), **ground.gone}
    sources = {(part.scope, each.source) for part in parts for each in part.bindings}
    if sources:
        ground.sources = await table.source_facts(connection, sources)
    return ground


async def _gone(connection: Connection, parts: Iterable[Candidate], lookup: bytes) -> dict[str, Reason]:
    marked = [
        (part.entry.id, (part.scope, mark))
        for part in parts
        for mark in (
            marks.identity_mark(lookup, part.identity),
            marks.evidence_mark(lookup, part.scope, part.evidence),
        )
    ]
    found = await tombstones.found(connection, [mark for _, mark in marked])
    # What is said of the evidence itself counts first.
    return {entry: found[mark] for entry, mark in marked if mark in found}


async def _purged_and_lost(connection: Connection, parts: Sequence[Candidate]) -> dict[str, Reason]:
    """Say which parts had been written, and purged, before a restore: the log tells of it, though no row does."""
    found = await restores.lost_among(connection, [(part.scope, part.evidence) for part in parts])
    purged = {key: each.purge_reason for key, each in found.items() if each.purge_reason is not None}
    return {
        part.entry.id: _REFUSED_AS.get(reason, reason)
        for part in parts
        if (reason := purged.get((part.scope, part.evidence))) is not None
    }


def recheck(part: Candidate, ground: Ground) -> Decision | Later:
    """Decide about one part; a refusal stands whether or not it could have been written."""
    key = (part.place.named, part.header.kind)
    found = ground.found.get(key)
    if found is None:
        found = ground.found[key] = _of_run(part, ground)
    if found.first is not None:
        return found.first
    if ground.gone and part.entry.id in ground.gone:
        return Refuse(ground.gone[part.entry.id])
    decision = found.then
    if part.bindings and decision is ALLOW:
        decision = _sources_allow(part, ground)
    if isinstance(decision, Refuse):
        return decision
    if part.sealed is None:
        return _unsealed(part, found.placed)
    return found.placed


def _unsealed(part: Candidate, placed: Decision | Later) -> Decision | Later:
    if part.faulty:
        return Later.FAULTY
    return Later.WAITING if placed is ALLOW else placed


def _of_run(part: Candidate, ground: Ground) -> _OfRun:
    run = ground.runs.get(part.place.key)
    if run is None or run.run != part.place.run:
        return _OfRun(_NOBODY, _NOBODY, _NOBODY)
    first = Refuse(Reason.ERASED) if run.erased else None
    return _OfRun(first, _allowed(part, run, ground), _placed(part.place, run, ground))


def _allowed(part: Candidate, run: LockedRun, ground: Ground) -> Decision:
    decision = admitted(run.standing, run.now)
    if isinstance(decision, Refuse):
        return decision
    policy = ground.policies.get(part.scope)
    if policy is None:
        return _NOBODY
    return admit_kind(run.standing.kinds & policy.kinds, Kind(part.header.kind))


def _sources_allow(part: Candidate, ground: Ground) -> Decision:
    unknown = ground.policies[part.scope].unknown_sources
    return admit_sources(part.bindings, ground.sources.get(part.scope, {}), unknown)


def _placed(place: Place, run: LockedRun, ground: Ground) -> Decision | Later:
    bucket = place.bucket
    if bucket is None:
        return Later.WAITING
    if not bucket.span_start <= run.standing.retain_until < bucket.span_end:
        return Later.STALE
    locked = ground.buckets.get((place.key[0], bucket.bucket_id))
    if locked is None:
        return Later.STALE
    if locked.state != "live":
        # The clock went back since: where it would lie is gone for good.
        return Refuse(Reason.RETENTION_EXPIRED)
    # Somebody changed its key since: what is wrapped in the old one now would be lost with it.
    return ALLOW if locked.key_id == bucket.key_id else Later.STALE


def _by_scope(buckets: Iterable[Key], runs: Iterable[Key]) -> dict[UUID, tuple[set[UUID], set[UUID]]]:
    found: dict[UUID, tuple[set[UUID], set[UUID]]] = {}
    for scope, run_uid in runs:
        found.setdefault(scope, (set(), set()))[1].add(run_uid)
    for scope, bucket in buckets:
        found[scope][0].add(bucket)
    return dict(sorted(found.items()))
