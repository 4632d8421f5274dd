"""What became of a result, step by step, each a fact of its own: none is concluded from another.

That a plan was parsed whole does not say that it is executed whole, and an answer that could not be assembled is no
execution that failed: there is nothing here to write it down as one.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from custody_toolchain.facts import code_of, now
from custody_toolchain.intake.results import Result


class Step(StrEnum):
    """The steps between a model's answer and a task that is done."""

    PLAN_PARSE = "plan_parse"
    POLICY_CHECK = "policy_check"
    TOOL_RUN = "tool_run"
    TOOL_COMMIT = "tool_commit"
    TASK_COMPLETE = "task_complete"


class Outcome(StrEnum):
    """How a step ended."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


class StepFact(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step: of one action, or of the whole batch where `ordinal` is None. `code` is a closed word."""

    step: Step
    outcome: Outcome
    at: datetime
    ordinal: int | None = None
    actions: int | None = None
    code: str | None = None


# What must have been done for the same action before.
_BEFORE: Final = {
    Step.POLICY_CHECK: Step.PLAN_PARSE,
    Step.TOOL_RUN: Step.POLICY_CHECK,
    Step.TOOL_COMMIT: Step.TOOL_RUN,
}


class Steps:
    """The facts of one result, in the order in which they were recorded. They stay with the runtime."""

    def __init__(self, result: Result) -> None:
        refusal = result.refusal
        self._ordinals = {action.ordinal for action in result.actions}
        self._facts = [
            StepFact(
                step=Step.PLAN_PARSE,
                outcome=Outcome.DONE if refusal is None else Outcome.REFUSED,
                at=now(),
                actions=len(result.actions),
                code=None if refusal is None else str(refusal.why),
            )
        ]

    @property
    def facts(self) -> tuple[StepFact, ...]:
        """All facts so far."""
        return tuple(self._facts)

    def record(
        self, step: Step, outcome: Outcome, ordinal: int | None = None, code: str | None = None
    ) -> StepFact:
        """Record one step of one action, or that the task is done or not.

        ValueError for an action that the result does not have, and for a step whose predecessor was not done.
        """
        if step is Step.PLAN_PARSE or (step is Step.TASK_COMPLETE) != (ordinal is None):
            raise ValueError("an action's steps have its ordinal, a task has none, and a plan is parsed once")
        if ordinal is not None:
            self._follows(step, ordinal)
        fact = StepFact(step=step, outcome=outcome, at=now(), ordinal=ordinal, code=code_of(code))
        self._facts.append(fact)
        return fact

    def _follows(self, step: Step, ordinal: int) -> None:
        if ordinal not in self._ordinals:
            raise ValueError("there is no such action in the result")
        before = _BEFORE[step]
        if before is not Step.PLAN_PARSE and self.of(before, ordinal) is not Outcome.DONE:
            raise ValueError(f"{step} follows {before}, which was not done")

    def of(self, step: Step, ordinal: int | None = None) -> Outcome | None:
        """Return how the last such step ended, None where there was none."""
        found = [fact.outcome for fact in self._facts if fact.step is step and fact.ordinal == ordinal]
        return found[-1] if found else None
