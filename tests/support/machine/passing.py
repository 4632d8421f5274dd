"""What the duties should make of a model: purging, expiring, changing keys; and what a restore should bring back."""

import copy
from datetime import datetime
from uuid import UUID

from tests.support.machine.model import Model
from tests.support.machine.state import HoldState, Leaf, PartState, State

# The scope whose policy has what was revoked destroyed; the other one keeps it closed for ever.
DESTROYING = 0


def purge(model: Model) -> None:
    """One run of the purge, whatever holds and revocations are due."""
    for hold in model.now.holds.values():
        hold.ended = hold.ended or hold.released
    _erased(model)
    for part in list(model.now.parts.values()):
        if part.state == "stored" and not model.held(part) and _outlives(model, part):
            model.purged(part, "retention_expired")
    _revoked(model)
    _bodies(model)


def _erased(model: Model) -> None:
    for erasure in model.now.erasures:
        if erasure.kind == "subject":
            model.erase_subject_s_runs(erasure)
    for erasure in model.now.erasures:
        for part in list(model.covered(erasure)):
            if not model.held(part):
                model.purged(part, "erased")


def _outlives(model: Model, part: PartState) -> bool:
    """Whether a hold kept it until now, beyond its bucket; or its run, whose retention was shortened, is over."""
    if part.moved:
        return part.reason is None
    run = model.now.runs[part.run]
    return run.shortened and run.span in model.over and model.bucket(part).state == "live"


def _revoked(model: Model) -> None:
    closed = [
        (scope, name, version, source)
        for (scope, name), source in sorted(model.now.sources.items())
        if scope == DESTROYING
        for version in source.ripe - source.destroyed
    ]
    # Whole sources first.
    for scope, name, version, source in sorted(
        closed, key=lambda each: (each[2] is not None, each[:2], each[2] or 0)
    ):
        reason = "source_unavailable" if version is None else "dependency_changed"
        parts = [
            part
            for part in model.now.parts.values()
            if part.state == "stored"
            and model.bucket(part).state == "live"
            and model.depends(part, scope, name, version)
        ]
        for part in parts:
            if not model.held(part):
                model.purged(part, reason)
        if all(part.state == "gone" for part in parts):
            source.destroyed.add(version)


def _bodies(model: Model) -> None:
    stale = set()
    for part in model.now.parts.values():
        if part.state == "gone" and part.body:
            part.body = False
            scope = model.now.runs[part.run].scope
            if part.key == model.now.hold_keys[scope]:
                stale.add(scope)
    for scope in sorted(stale):
        change_hold_key(model, scope)


def change_hold_key(model: Model, scope: int) -> None:
    """Another key for what is held beyond its span; what nobody can open stays so, under the new one's name."""
    old, new = model.now.hold_keys[scope], model.new_key()
    for part in model.now.parts.values():
        if part.key == old and part.body:
            part.garbled = part.garbled or old not in model.alive
            part.key = new
    model.now.hold_keys[scope] = new
    model.alive.discard(old)


def change_key(model: Model, place: tuple[int, datetime]) -> None:
    """Another key for a bucket; what its old one does not open any more stays as it is."""
    bucket = model.now.buckets[place]
    old, bucket.key = bucket.key, model.new_key()
    if old in model.alive:
        for part in model.now.parts.values():
            if part.key == old and part.body and not part.moved:
                part.key = bucket.key
    model.alive.discard(old)


def expire(model: Model) -> int:
    """Every span that is over and was begun, and the oldest that was not; return how many buckets went."""
    buckets = model.now.buckets.items()
    due = sorted({span for (_, span), each in buckets if span in model.over and each.state != "destroyed"})
    begun = {span for (_, span), each in buckets if each.state != "live"}
    begins = [span for span in due if span not in begun][:1]
    return sum(_let_go(model, span) for span in due if span in begun or span in begins)


def _let_go(model: Model, span: datetime) -> int:
    """What is held moves, the rest goes with the keys."""
    went = {
        scope: bucket
        for (scope, at), bucket in model.now.buckets.items()
        if at == span and bucket.state != "destroyed"
    }
    for scope, bucket in went.items():
        for part in model.now.parts.values():
            if model.place(part) == (scope, span) and not part.moved:
                _move_or_drop(model, scope, part, live=bucket.state == "live")
        if bucket.state == "live":
            model.leaf("expire", bucket.bucket.hex)
        bucket.state = "destroyed"
        model.alive.discard(bucket.key)
    return len(went)


def _move_or_drop(model: Model, scope: int, part: PartState, *, live: bool) -> None:
    if live and part.state == "stored" and part.body and model.held(part):
        part.moved = True
        model.ever_moved.add(part.evidence)
        if model.opens(part):
            part.key = model.now.hold_keys[scope]
        return
    if part.body and part.evidence not in model.ever_moved:
        model.told_expired.add(part.evidence)
    part.body = False


def forgettable(model: Model, name: str) -> bool:
    """Whether nothing of a run is readable, held, or on its way."""
    run = model.now.runs[name]
    parts = [part for part in model.now.parts.values() if part.run == name]
    on = {name, None, *(part.evidence for part in parts)}
    kept = any(
        not hold.ended and hold.scope == run.scope and hold.target in on for hold in model.now.holds.values()
    )
    gone = all(not part.body and (part.reason or model.bucket(part).state == "destroyed") for part in parts)
    return run.closed and run.span in model.over and not kept and gone


def forget(model: Model, name: str) -> None:
    """Of each identity a mark stays."""
    for part in [part for part in model.now.parts.values() if part.run == name]:
        reason = "erased" if part.reason == "erased" else "retention_expired"
        model.now.marks.setdefault(part.evidence, reason)
        model.now.marks.setdefault((part.run, part.exchange), reason)
        del model.now.parts[part.evidence]
        model.now.forgotten[part.evidence] = model.now.runs[name].scope
    del model.now.runs[name]


# --- restores


def back_to(model: Model, backup: State) -> bool:
    """Put a backup in the database's place; say whether the mirror has leaves that it has not."""
    model.now = copy.deepcopy(backup)
    return len(model.mirror) > len(model.now.entries)


def restore(model: Model) -> None:
    """What a restore does where the mirror has more leaves than the database."""
    state, mirror = model.now, model.mirror
    first = len(state.entries)
    assert [leaf.number for leaf in state.entries] == [leaf.number for leaf in mirror[:first]]
    beyond = mirror[first:]
    placed = {leaf.number for leaf in beyond}
    state.entries, state.queued = list(mirror), [leaf for leaf in state.queued if leaf.number not in placed]
    for leaf in beyond:
        _replay(model, leaf)
    model.leaf("restore", first, len(mirror))
    _replace_lost_keys(model)
    purge(model)
    purge(model)
    while any(bucket.state == "expired" for bucket in state.buckets.values()) and expire(model):
        pass


def _replace_lost_keys(model: Model) -> None:
    for place, bucket in sorted(model.now.buckets.items()):
        if bucket.state == "live" and bucket.key not in model.alive:
            change_key(model, place)
    for scope, key in enumerate(model.now.hold_keys):
        if key not in model.alive:
            change_hold_key(model, scope)


def _replay(model: Model, leaf: Leaf) -> None:
    about = leaf.about
    if leaf.kind == "part":
        _replay_part(model, UUID(str(about[0])))
    elif leaf.kind == "purge":
        _replay_purge(model, UUID(str(about[0])), str(about[1]))
    elif leaf.kind == "expire":
        for bucket in model.now.buckets.values():
            if bucket.bucket.hex == about[0] and bucket.state == "live":
                bucket.state = "expired"
    elif leaf.kind == "hold":
        _replay_hold(model, UUID(str(about[0])), str(about[1]))
    elif leaf.kind == "revoke":
        _replay_closed(model, str(about[0]), str(about[1]), about[2])
    elif leaf.kind == "close":
        for run in model.now.runs.values():
            run.open = run.open and run.uid.hex != about[0]


def _replay_part(model: Model, evidence: UUID) -> None:
    if evidence not in model.now.parts:
        model.now.lost.setdefault(evidence, (model.places[evidence], None))


def _replay_purge(model: Model, evidence: UUID, reason: str) -> None:
    state = model.now
    if evidence in state.parts:
        model.mark(state.parts[evidence], reason)
    elif state.lost[evidence][1] is None:
        state.lost[evidence] = (state.lost[evidence][0], reason)
        if reason in ("erased", "retention_expired"):
            state.marks.setdefault(evidence, reason)


def _replay_hold(model: Model, hold: UUID, op: str) -> None:
    state = model.now
    if op == "release":
        if hold in state.holds:
            state.holds[hold].released = True
        return
    asked = model.holds_asked[hold]
    known = {"part": asked.target in state.parts, "run": asked.target in state.runs, "scope": True}
    if known[asked.reach]:
        state.holds.setdefault(hold, HoldState(asked.scope, asked.reach, asked.target))


def _replay_closed(model: Model, uid: str, op: str, version: object) -> None:
    for source in model.now.sources.values():
        if source.uid.hex != uid:
            continue
        closed, at = op != "restore", version if isinstance(version, int) else None
        if at in source.destroyed or (at is not None and at > source.latest):
            continue
        if at is None:
            if source.revoked != closed and (closed or not source.erased):
                source.revoked = closed
                source.ripe.discard(None)
        elif (at in source.withdrawn) != closed:
            (source.withdrawn.add if closed else source.withdrawn.discard)(at)
            source.ripe.discard(at)
