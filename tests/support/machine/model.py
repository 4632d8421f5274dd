"""What should become of a store, step by step: the state of its database, and what lies outside and never goes back."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from tests.support.machine.state import (
    Binding,
    BucketState,
    ErasureState,
    HoldState,
    Leaf,
    PartState,
    Place,
    SourceState,
    State,
)

# What a mark of a part that was destroyed says for ever; other reasons may open again.
MARKING = ("erased", "retention_expired")


@dataclass(frozen=True)
class Waiting:
    """An entry of the queue: a part, or (without evidence) a loss under a name."""

    run: str
    exchange: str
    evidence: UUID | None = None
    content: bytes = b""
    bindings: tuple[Binding, ...] = ()
    reason: str = ""


@dataclass
class Model:
    """`now` is the database; keys, spans that are over, the mirror and the queue are outside of it."""

    now: State = field(default_factory=State)
    alive: set[int] = field(default_factory=set)
    over: set[datetime] = field(default_factory=set)
    mirror: list[Leaf] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    # Of those, what a writer has written that died before it could say so.
    unsettled: list[Waiting] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    # Evidence of which somebody was told that it is purged, and bodies that went with their bucket.
    told_purged: set[UUID] = field(default_factory=set)
    told_expired: set[UUID] = field(default_factory=set)
    ever_moved: set[UUID] = field(default_factory=set)
    # What a replay of the log finds elsewhere: where parts lie, and what holds were asked for.
    places: dict[UUID, Place] = field(default_factory=dict)
    holds_asked: dict[UUID, HoldState] = field(default_factory=dict)
    # By run, what the queue was ever told of it: that goes not back either.
    told_queue: dict[str, set[str]] = field(default_factory=dict)
    went_back: bool = False

    # --- parts and their places

    def place(self, part: PartState) -> Place:
        return self.now.runs[part.run].scope, part.span

    def bucket(self, part: PartState) -> BucketState:
        return self.now.buckets[self.place(part)]

    def held(self, part: PartState) -> bool:
        scope = self.now.runs[part.run].scope
        targets = {"scope": None, "run": part.run, "part": part.evidence}
        return any(
            not hold.ended and hold.scope == scope and hold.target == targets[hold.reach]
            for hold in self.now.holds.values()
        )

    def opens(self, part: PartState) -> bool:
        return part.key in self.alive and not part.garbled

    def new_key(self) -> int:
        number = next(self.numbers)
        self.alive.add(number)
        return number

    def leaf(self, kind: str, *about: object) -> None:
        self.now.queued.append(Leaf(next(self.numbers), kind, about))

    # --- writing

    def write(self) -> None:
        """What a writer makes of what another one left, and then of everything that waits."""
        self._batch(self.unsettled, again=True)
        self.unsettled.clear()
        self._batch(self.waiting, again=False)
        self.waiting.clear()

    def write_and_die(self) -> None:
        """What is committed stays, and is delivered again."""
        self._batch(self.waiting, again=False)
        self.unsettled += self.waiting
        self.waiting.clear()

    def _batch(self, entries: Sequence[Waiting], *, again: bool) -> None:
        stored: list[PartState] = []
        losses: list[Waiting] = []
        for entry in entries:
            if entry.run not in self.now.runs or entry.evidence in self.now.parts:
                continue
            if entry.evidence is None:
                losses.append(entry)
            elif reason := self._refusal(entry):
                losses.append(Waiting(entry.run, entry.exchange, reason=reason))
            else:
                stored.append(self._stored(entry))
        for loss in losses:
            lost = self.now.runs[loss.run].lost
            if not (again and (loss.exchange, loss.reason) in lost):
                lost[loss.exchange, loss.reason] += 1
        for part in stored:
            lost = self.now.runs[part.run].lost
            for name in [
                name for name in lost if name[0] == part.exchange and name[1] != "identity_conflict"
            ]:
                del lost[name]

    def _stored(self, entry: Waiting) -> PartState:
        assert entry.evidence is not None
        run = self.now.runs[entry.run]
        key = self.now.buckets[run.scope, run.span].key
        part = PartState(
            entry.evidence, entry.run, entry.exchange, entry.content, entry.bindings, run.span, key
        )
        self.now.parts[part.evidence] = part
        self.places[part.evidence] = self.place(part)
        self.leaf("part", part.evidence.hex)
        return part

    def _refusal(self, entry: Waiting) -> str | None:
        run = self.now.runs[entry.run]
        assert entry.evidence is not None
        if run.erased:
            return "erased"
        for mark in (entry.evidence, (entry.run, entry.exchange)):
            if mark in self.now.marks:
                return self.now.marks[mark]
        if run.opted_out:
            return "content_opt_out"
        if run.span in self.over:
            return "retention_expired"
        return self.admits(run.scope, entry.bindings) or self._taken(entry)

    def _taken(self, entry: Waiting) -> str | None:
        holder = self.named(entry.run, entry.exchange)
        if holder is None:
            return None
        if holder.state != "gone":
            return "identity_conflict"
        return "retention_expired" if holder.reason == "retention_expired" else "erased"

    # --- what a capture is answered

    def closed_to(self, name: str, *, again: bool = False) -> set[str]:
        """Why nothing more of a run is taken; `again`: of an identity that is there already."""
        run = self.now.runs[name]
        if run.erased:
            return {"erased"}
        found = {"content_opt_out": run.opted_out, "retention_expired": run.span in self.over}
        found["run_closed"] = not again and (run.closed or not run.open)
        return {reason for reason, so in found.items() if so}

    def compared(self, part: PartState, content: bytes) -> str | None:
        """Why a repeat is refused; None where it is the same."""
        if part.reason == "erased" or part.state != "stored":
            return "retention_expired" if part.reason == "retention_expired" else "erased"
        same = self.opens(part) and part.content == content
        return None if same else "identity_conflict"

    def named(self, run: str, exchange: str) -> PartState | None:
        found = (part for part in self.now.parts.values() if (part.run, part.exchange) == (run, exchange))
        return next(found, None)

    # --- sources

    def admits(self, scope: int, bindings: tuple[Binding, ...]) -> str | None:
        return self._by_sources(scope, bindings, "source_revoked", "source_unknown")

    def _by_sources(
        self, scope: int, bindings: tuple[Binding, ...], revoked: str, unknown: str
    ) -> str | None:
        facts = [(each.version, self.now.sources.get((scope, each.source))) for each in bindings]
        if any(source is not None and source.revoked for _, source in facts):
            return revoked
        if any(source is None or (version or 1) > source.latest for version, source in facts):
            return unknown
        return "dependency_changed" if any(_withdrawn(*each) for each in facts) else None

    # --- reading

    def answer(self, part: PartState, *, custodian: bool) -> str | None:
        """Why a read is refused; None where it gives the bytes."""
        run = self.now.runs[part.run]
        return (
            part.reason
            or self._ended(part, custodian=custodian)
            or ("erased" if run.erased else None)
            or ("lost_in_restore" if part.state == "lost" or not part.body else None)
            or self._by_sources(run.scope, part.bindings, "source_unavailable", "source_unavailable")
            or ("key_lost" if part.key not in self.alive else None)
            or ("integrity_mismatch" if part.garbled else None)
        )

    def _ended(self, part: PartState, *, custodian: bool) -> str | None:
        over = self.now.runs[part.run].span in self.over or self.bucket(part).state != "live"
        if not over:
            return None
        if not (self.held(part) and part.body):
            return "retention_expired"
        return None if custodian else "expired_held"

    def answer_lost(self, evidence: UUID) -> str:
        place, reason = self.now.lost[evidence]
        if reason is not None:
            return reason
        over = place[1] in self.over or self.now.buckets[place].state != "live"
        return "retention_expired" if over else "lost_in_restore"

    # --- destroying

    def mark(self, part: PartState, reason: str) -> bool:
        """T1 of one part."""
        if part.state == "gone":
            return False
        part.state, part.reason = "gone", reason
        if reason in MARKING:
            self.now.marks.setdefault(part.evidence, reason)
            self.now.marks.setdefault((part.run, part.exchange), reason)
        return True

    def purged(self, part: PartState, reason: str) -> None:
        if self.mark(part, reason):
            self.leaf("purge", part.evidence.hex, reason)

    def depends(self, part: PartState, scope: int, source: str, version: int | None) -> bool:
        """Whether a part is bound to a source, in whatever version where none is named."""
        return self.now.runs[part.run].scope == scope and any(
            each.source == source and version in (None, each.version) for each in part.bindings
        )

    def covered(self, erasure: ErasureState) -> Iterator[PartState]:
        """Yield the parts that an erasure is about and that are to go."""
        for part in self.now.parts.values():
            run = self.now.runs[part.run]
            if part.state == "gone" or run.scope != erasure.scope:
                continue
            if erasure.kind == "source":
                there = part.moved or self.bucket(part).state != "destroyed"
                if (
                    part.state == "stored"
                    and there
                    and self.depends(part, erasure.scope, str(erasure.target), None)
                ):
                    yield part
            elif erasure.kind == "subject":
                if run.erased and run.subject == erasure.target:
                    yield part
            elif erasure.target in (part.evidence, part.run):
                yield part

    def erase_subject_s_runs(self, erasure: ErasureState) -> None:
        for run in self.now.runs.values():
            if (run.scope, run.subject) == (erasure.scope, erasure.target) and run.born < erasure.born:
                run.erased = True

    # --- what is lost, counted

    def counts(self, run: str) -> tuple[int, Counter[str]]:
        stored = sum(part.run == run for part in self.now.parts.values())
        lost: Counter[str] = Counter()
        for (_, reason), times in self.now.runs[run].lost.items():
            lost[reason] += times
        return stored, lost

    # --- holds

    def finds(self, reach: str, target: UUID | str | None) -> str:
        """What a hold is answered that is placed now."""
        if reach == "scope":
            return "placed"
        if reach == "run":
            run = self.now.runs[str(target)]
            if not (run.erased or run.closed or run.span in self.over):
                return "placed"
        parts = [part for part in self.now.parts.values() if target in (part.evidence, part.run)]
        there = any(
            part.state == "stored" and (part.moved or self.bucket(part).state == "live") for part in parts
        )
        return "placed" if there else "too_late"

    def placed(self, hold: UUID, scope: int, reach: str, target: UUID | str | None) -> None:
        self.now.holds[hold] = HoldState(scope, reach, target)
        self.holds_asked[hold] = HoldState(scope, reach, target)
        self.leaf("hold", hold.hex, "place")


def _withdrawn(version: int | None, source: SourceState | None) -> bool:
    if source is None:
        return False
    if version is not None:
        return version in source.withdrawn
    return all(each in source.withdrawn for each in range(1, source.latest + 1))
