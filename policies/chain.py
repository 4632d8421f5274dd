"""Where the chain from an action to what a model was given is broken first: one row of the lens's table.

Fails towards not knowing: what no fact shows is `not_recorded`, which never means that it did not happen. Parts of a
result are not added up: of several views that each leave something out it stays `cut`, and the views say which parts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from policies.facts import Form, Link, Stage, Status


class Row(StrEnum):
    """What was seen of an action, or of an action in one request; each says where to look first."""

    REFUSED_BEFORE_CALL = "refused_before_call"  # arguments, permission, admission
    EXECUTION_FAILED = "execution_failed"  # the tool, and what it needs
    PROJECTION_FAILED = "projection_failed"  # after-hooks, the result's structure
    REFERENCE_ONLY = "reference_only"  # how the context is put together
    LINEAGE_MISSING = "lineage_missing"  # the observation, before the model is blamed
    CUT = "cut"  # the observation: what was left out of the view, before the model is blamed
    CARRIED = "carried"  # the whole result was in the request
    NOT_RECORDED = "not_recorded"  # nobody told us; it may have happened


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of an action, as it was told; `execution` counts from 1 what was really started."""

    stage: Stage
    status: Status
    execution: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One object in a submitted request: the action's result where it is bound, else something of the same call."""

    link: Link
    form: Form


_TURNED_DOWN: Final = frozenset({Status.REFUSED, Status.FAILED})
_FAILED: Final = frozenset({Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})
_BEST_FIRST: Final = (
    (Form.FULL, Row.CARRIED),
    (Form.PARTIAL, Row.CUT),
    (Form.REFERENCE, Row.REFERENCE_ONLY),
)


def row(steps: Sequence[Step], seen: Iterable[Seen]) -> Row:
    """Decide from the stages, in the order told, and from what stands in one request, or in all of them."""
    return rows(steps, [seen])[0]


def rows(steps: Sequence[Step], requests: Iterable[Iterable[Seen]]) -> list[Row]:
    """Decide for each of an action's requests, from what stands in each."""
    broken = _broken(steps)
    return [broken or _given(seen) for seen in requests]


def executions(steps: Sequence[Step]) -> int | None:
    """Return how many times the tool was really started; None where nobody told us."""
    started = [step.execution or 1 for step in steps if _shows_a_start(step)]
    if started:
        return max(started)
    return 0 if _refused(steps) else None


def last_of(steps: Sequence[Step]) -> dict[Stage, Status]:
    """Return the last status of each stage that was told of; of executions, that of the last one."""
    others = [step for step in steps if step.stage is not Stage.EXECUTION]
    return {step.stage: step.status for step in (*others, *_executed(steps))}


def _executed(steps: Sequence[Step]) -> list[Step]:
    # A stable order: of the last execution the last word counts.
    return sorted((s for s in steps if s.stage is Stage.EXECUTION), key=lambda step: step.execution or 1)


def _broken(steps: Sequence[Step]) -> Row | None:
    """Return the stage at which it ended; None where none of them says so."""
    if _refused(steps):
        return Row.REFUSED_BEFORE_CALL
    executed = _executed(steps)
    if executed and executed[-1].status in _FAILED:
        return Row.EXECUTION_FAILED
    projected = [step.status for step in steps if step.stage is Stage.PROJECTION]
    return Row.PROJECTION_FAILED if projected and projected[-1] is Status.FAILED else None


def _refused(steps: Sequence[Step]) -> bool:
    """Say whether it was surely not executed: what decides last was told of, and of it nothing but refusals.

    A yes that was told once, or a replay, refused ones too, may stand for a start of which nobody told.
    """
    if any(_shows_a_start(step) or step.stage is Stage.REPLAY for step in steps):
        return False
    reserved = [step.status for step in steps if step.stage is Stage.RESERVATION]
    decided = reserved or [step.status for step in steps if step.stage is Stage.ADMISSION]
    return bool(decided) and _TURNED_DOWN.issuperset(decided)


def _shows_a_start(step: Step) -> bool:
    """Say whether a step is of an execution, or of what only follows one."""
    if step.stage is Stage.EXECUTION or step.status is Status.SETTLED:
        return True
    # An admission and a reservation name the execution that they are for.
    return step.execution is not None and step.stage not in {Stage.ADMISSION, Stage.RESERVATION}


def _given(seen: Iterable[Seen]) -> Row:
    found = list(seen)
    forms = {each.form for each in found if each.link is Link.BOUND}
    best = next((held for form, held in _BEST_FIRST if form in forms), None)
    if best is not None:
        return best
    return Row.LINEAGE_MISSING if found else Row.NOT_RECORDED
