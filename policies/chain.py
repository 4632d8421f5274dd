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


_BEFORE: Final = frozenset({Stage.ADMISSION, Stage.RESERVATION, Stage.REPLAY})
_TURNED_DOWN: Final = frozenset({Status.REFUSED, Status.FAILED})
_FAILED: Final = frozenset({Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})
_BEST_FIRST: Final = (
    (Form.FULL, Row.CARRIED),
    (Form.PARTIAL, Row.CUT),
    (Form.REFERENCE, Row.REFERENCE_ONLY),
)


def row(steps: Sequence[Step], seen: Iterable[Seen]) -> Row:
    """Decide from the stages, in the order told, and from what stands in one request, or in all of them."""
    return _broken(steps) or _given(seen)


def executions(steps: Sequence[Step]) -> int | None:
    """Return how many times the tool was really started; None where nobody told us."""
    started = [step.execution or 1 for step in steps if step.stage is Stage.EXECUTION]
    if started:
        return max(started)
    return 0 if _broken(steps) is Row.REFUSED_BEFORE_CALL else None


def last_of(steps: Sequence[Step]) -> dict[Stage, Status]:
    """Return the last status of each stage that was told of; of executions, that of the last one."""
    others = [step for step in steps if step.stage is not Stage.EXECUTION]
    return {step.stage: step.status for step in (*others, *_executed(steps))}


def _executed(steps: Sequence[Step]) -> list[Step]:
    # A stable order: of the last execution the last word counts.
    return sorted((s for s in steps if s.stage is Stage.EXECUTION), key=lambda step: step.execution or 1)


def _broken(steps: Sequence[Step]) -> Row | None:
    """Return the stage at which it ended; None where none of them says so."""
    executed = _executed(steps)
    replayed = any(step.status is Status.REPLAYED for step in steps)
    if not executed and not replayed:
        refused = any(step.stage in _BEFORE and step.status in _TURNED_DOWN for step in steps)
        return Row.REFUSED_BEFORE_CALL if refused else None
    if executed and executed[-1].status in _FAILED:
        return Row.EXECUTION_FAILED
    projected = [step.status for step in steps if step.stage is Stage.PROJECTION]
    return Row.PROJECTION_FAILED if projected and projected[-1] is Status.FAILED else None


def _given(seen: Iterable[Seen]) -> Row:
    found = list(seen)
    forms = {each.form for each in found if each.link is Link.BOUND}
    best = next((held for form, held in _BEST_FIRST if form in forms), None)
    if best is not None:
        return best
    return Row.LINEAGE_MISSING if found else Row.NOT_RECORDED
