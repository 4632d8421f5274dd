"""Facts of stages, handed to whoever reports them. Nothing here can stop or change an action."""

import secrets
from typing import Any, Final

from custody_toolchain.facts import Stage, StageFact, call_id_of, code_of, fact_id, now
from custody_toolchain.observing import Guarded, Report
from custody_toolchain.tools.records import Action, Step, Tool

# The model may ask for a tool that there is not: its name is the model's text then, and no fact carries that.
UNKNOWN: Final = "unknown"


def stage_fact(action: Action, tool: Tool | None, stage: Stage, step: Step, **more: Any) -> StageFact:
    """Make the fact of one stage; told again it is the same fact, except for replays, each of which is one."""
    execution = more.get("execution")
    told_apart = secrets.token_hex(4) if stage is Stage.REPLAY else execution or 0
    return StageFact(
        fact=fact_id("stage", action.id, stage, step.status, told_apart),
        at=now(),
        action=action.id,
        tool=tool.name if tool is not None else UNKNOWN,
        stage=stage,
        status=step.status,
        call_id=call_id_of(action.call_id),
        code=code_of(step.code),
        retryable=step.retryable,
        duration_ms=step.duration_ms,
        schema_version=tool.version if tool is not None else None,
        **more,
    )


class Telling(Guarded):
    """One action's facts, to one report."""

    def __init__(self, report: Report | None, action: Action, tool: Tool | None) -> None:
        super().__init__(report)
        self._action = action
        self._tool = tool

    def stage(self, stage: Stage, step: Step, **more: Any) -> None:
        """Report one stage; a report that raises is counted, and the action goes on."""
        self.tell(lambda: stage_fact(self._action, self._tool, stage, step, **more))
