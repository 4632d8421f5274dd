"""One action under way: what it is, its receipt so far, and who is told of its stages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from custody_toolchain.driving import Steps, ask
from custody_toolchain.facts import Stage, Status, code_of
from custody_toolchain.tools.lanes import Key, Lanes
from custody_toolchain.tools.owners import Allow, Owner, Refuse, said
from custody_toolchain.tools.records import Action, Call, Failure, Receipt, Step, Tool, Turn
from custody_toolchain.tools.telling import Telling
from custody_toolchain.tools.unsaved import Unsaved
from custody_toolchain.tools.values import Frozen, Json

Hook: TypeAlias = Callable[[Any], Any]

ADMITTED: Final = Step(Status.ADMITTED)
_STOPPED: Final = {Status.REFUSED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}


@dataclass
class Counts:
    """What went wrong beside actions, and changed none: reports and failure hooks that raised."""

    reports_failed: int = 0
    failure_hooks_failed: int = 0


@dataclass(frozen=True)
class Fittings:
    """What every action of one host shares."""

    owner: Owner
    before: Sequence[Hook]
    after: Sequence[Hook]
    on_failure: Sequence[Hook]
    hook_timeout_s: float | None
    clock: Callable[[], float]
    lanes: Lanes = field(default_factory=Lanes)
    unsaved: Unsaved = field(default_factory=Unsaved)
    counts: Counts = field(default_factory=Counts)


class Unusable(Exception):
    """The action cannot go on, and its receipt, if it has one, stays as it is."""

    def __init__(self, stage: Stage, step: Step) -> None:
        super().__init__(step.code)
        self.stage = stage
        self.step = step


class Course:
    """One action under way."""

    def __init__(
        self,
        fittings: Fittings,
        turn: Turn,
        action: Action,
        tool: Tool | None,
        telling: Telling,
        *,
        arguments_are_json: bool,
    ) -> None:
        """`arguments_are_json` False: what was asked for cannot be written down, and is not in `action` any more."""
        self.fittings = fittings
        self.owner = fittings.owner
        self.turn = turn
        self.action = action
        self.tool = tool
        self.telling = telling
        self.arguments_are_json = arguments_are_json
        self.cause: BaseException | None = None
        self.receipt = Receipt(
            run=turn.run,
            action=action.id,
            tool=action.tool,
            call_id=action.call_id,
            schema_version=tool.version if tool is not None else None,
            original_arguments=action.arguments,
        )

    @property
    def key(self) -> Key:
        """The identity of the action."""
        return (self.turn.run, self.action.id)

    def note(self, **changes: Any) -> None:
        """Write into the receipt."""
        self.receipt = msgspec.structs.replace(self.receipt, **changes)

    def failed(self, error: BaseException, code: str, *, retryable: bool = False) -> Step:
        """Return a failed step; the error is kept for this process and its text goes nowhere."""
        self.cause = error
        return failed(code, retryable=retryable)

    def since(self, started: float) -> int:
        """Return how many milliseconds have passed."""
        return max(0, round((self.fittings.clock() - started) * 1000))

    def call(self, execution: int, arguments: Json | Frozen) -> Call:
        """Return the call as the tool, or a gate, gets it."""
        return Call(
            run=self.turn.run,
            action=self.action.id,
            tool=self.action.tool,
            call_id=self.action.call_id,
            execution=execution,
            arguments=arguments,
            timeout_s=self.tool.timeout_s if self.tool is not None else None,
            about=self.turn.about,
        )

    def gate(self, gate: Callable[..., Any], subject: object, code: str) -> Steps[Step]:
        """Ask one of the owner's gates; whatever is not a clear yes is a no, and `code` says that it failed."""
        try:
            decision = yield from ask(gate, self.turn, subject)
        except Exception as error:  # noqa: BLE001 - the owner's failure is told as one, never as a yes
            return self.failed(error, code)
        return decided(decision, code)

    def hook(self, hook: Hook, subject: object, *, to_the_end: bool = False) -> Steps[Any]:
        """Ask a hook, within its time."""
        return (yield from ask(hook, subject, timeout_s=self.fittings.hook_timeout_s, to_the_end=to_the_end))

    def to_the_end(self, function: Callable[..., Any], *given: object) -> Steps[Any]:
        """Ask the owner for what no cancellation breaks off; its own time does, so that no caller waits for ever."""
        return (yield from ask(function, *given, timeout_s=self.owner.timeout_s, to_the_end=True))

    def told(self, stage: Stage, step: Step, *, to_the_end: bool = False, **more: Any) -> Steps[None]:
        """Report a stage; if it stopped the action, tell the failure hooks which stage it was."""
        self.telling.stage(stage, step, **more)
        if step.status not in _STOPPED:
            return
        failure = Failure(
            turn=self.turn,
            action=self.action.id,
            tool=self.action.tool,
            call_id=self.action.call_id,
            stage=stage,
            status=step.status,
            code=step.code,
            retryable=step.retryable,
        )
        for hook in self.fittings.on_failure:
            try:
                yield from self.hook(hook, failure, to_the_end=to_the_end)
            except Exception:  # noqa: BLE001 - it is told, and has no say; it is counted
                self.fittings.counts.failure_hooks_failed += 1


def code_word(code: object) -> str:
    """A code is the owner's or the tool's closed word; a sentence in its place is none."""
    return code_of(code if isinstance(code, str) else "") or "other"


def failed(code: str, *, retryable: bool = False) -> Step:
    """Return a step that failed."""
    return Step(Status.FAILED, code, retryable=retryable)


def refused(code: str) -> Step:
    """Return a step that was refused for good."""
    return Step(Status.REFUSED, code, retryable=False)


def decided(decision: object, code: str) -> Step:
    """Return what a gate's answer means; `code` where it is none."""
    if isinstance(decision, Allow):
        return ADMITTED
    if isinstance(decision, Refuse):
        word, message = code_word(decision.code), said(decision.message)
        return Step(Status.REFUSED, word, message, retryable=decision.retryable)
    return failed(code)
