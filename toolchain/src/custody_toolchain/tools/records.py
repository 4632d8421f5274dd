"""What goes in and comes out of the entry: turns, actions, tools, receipts, answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from custody_toolchain.facts import Form, Stage, Status, View
from custody_toolchain.ids import ResultRef, checked_id
from custody_toolchain.observing import Report
from custody_toolchain.tools.schema import Fault, Schema
from custody_toolchain.tools.values import Frozen, Json, copied, same

# So many characters of a tool's name or a call id stand in a fact.
MOST_NAME: Final = 128


class Quiet(msgspec.Struct, frozen=True):
    """A value that holds content: its repr, which may end up in a log, shows none of it."""

    def __repr__(self) -> str:
        named = [f"{name}={getattr(self, name)!r}" for name in ("run", "action", "id") if hasattr(self, name)]
        return f"<{' '.join([type(self).__name__, *named])}>"


class Turn(msgspec.Struct, frozen=True):
    """Where an action comes from: its run, and whatever the owner's gates want to know in `about`.

    `report` takes the facts of this turn's run; None: the host's.
    """

    run: str
    about: object = None
    report: Report | None = None

    def __post_init__(self) -> None:
        checked_id(self.run, "a run's id")


class Action(Quiet, frozen=True):
    """What the model asked for. Its identity is (run, `id`); the tool's name is none, and `call_id` stands beside it.

    `arguments` that are no JSON (a Decimal, infinity, half a surrogate pair) are refused with `invalid_arguments`.

    `schema_version` is that of the tool's schema which the model saw; None: the current one.
    """

    id: str
    tool: str
    arguments: Json
    call_id: str | None = None
    schema_version: int | None = None

    def __post_init__(self) -> None:
        checked_id(self.id, "an action's id")


class Call(Quiet, frozen=True):
    """One call as its tool gets it: with arguments of its own to change, as gates get it: with frozen ones.

    `execution` counts from 1 what was really started of this action. A synchronous tool minds `timeout_s` itself and
    raises TimeoutError; an asynchronous one is cancelled then.
    """

    run: str
    action: str
    tool: str
    call_id: str | None
    execution: int
    arguments: Any
    timeout_s: float | None = None
    about: object = None


class ToolFailed(Exception):
    """A tool says that it failed: `code` is a closed word, `message` is for the model and holds no secret."""

    def __init__(self, code: str, message: str = "", *, retryable: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.retryable = retryable


class Held(Quiet, frozen=True):
    """The result that the runtime holds, as JSON, and whether the source was read whole (None: not known)."""

    value: Json
    source_whole: bool | None = None


class Block(msgspec.Struct, frozen=True):
    """A before-hook's no."""

    code: str
    message: str = ""
    retryable: bool = False


class Normalise(msgspec.Struct, frozen=True):
    """A before-hook's wish that a rule which the tool declared be applied; the hook itself changes nothing."""

    rule: str


class Proposed(Quiet, frozen=True):
    """What a before-hook sees; arguments are frozen copies, `arguments` after the rules applied so far."""

    turn: Turn
    action: str
    tool: str
    call_id: str | None
    original_arguments: Frozen
    arguments: Frozen


class Projected(Quiet, frozen=True):
    """What an after-hook sees: the held result and the view so far, both frozen copies; `form` is the view's."""

    turn: Turn
    action: str
    tool: str
    call_id: str | None
    held: Frozen
    view: Frozen
    form: Form


class Project(Quiet, frozen=True):
    """A view of the held result: what it leaves out is up to it, what it keeps is as held.

    `cut`: JSON pointer in the view → which bytes (UTF-8, `[start, stop)`) of the held string there are shown.
    `remarks` are derived; they stay beside the view and never in it.
    """

    view: Json
    cut: Mapping[str, tuple[int, int]] = {}
    remarks: tuple[str, ...] = ()


class Withhold(msgspec.Struct, frozen=True):
    """No view: only a reference (`Form.REFERENCE`) or nothing (`Form.OMITTED`) may enter the context."""

    form: Form = Form.REFERENCE
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.form not in {Form.REFERENCE, Form.OMITTED}:
            raise ValueError("what is withheld is a reference, or omitted")


class Failure(msgspec.Struct, frozen=True):
    """What a failure hook is told: which stage did not succeed, how, and of what."""

    turn: Turn
    action: str
    tool: str
    call_id: str | None
    stage: Stage
    status: Status
    code: str | None
    retryable: bool | None


@dataclass(frozen=True)
class Tool:
    """A tool's declaration; its logic stays its own.

    `execute(call)` gives the raw output, or raises: ToolFailed with a word of its own, TimeoutError, anything else.
    `hold(raw)` makes the Held of it (None: the raw output is JSON itself); `project(held)` the first view (None: all).
    `rules` normalise arguments: name → a function of a copy of the arguments that gives the new ones.
    `rows` is the JSON pointer of the list in the held result whose elements count as rows.
    `repeatable`: may be executed again when a process was killed and nobody knows how far it had come.
    """

    name: str
    version: int
    schema: Mapping[str, Any]
    execute: Callable[[Call], Any]
    hold: Callable[[Any], Any] | None = None
    project: Callable[[Frozen], Any] | None = None
    rules: Mapping[str, Callable[[Json], Json]] = field(default_factory=dict)
    rows: str | None = None
    timeout_s: float | None = None
    repeatable: bool = True
    checked: Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= MOST_NAME:
            raise ValueError("a tool's name is 1 to 128 characters")
        if self.version < 0:
            raise ValueError("versions of a schema count from 0")
        object.__setattr__(self, "checked", Schema(self.schema))


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one stage, and of no other. `message` is for the model; an exception's own text is never in it."""

    status: Status
    code: str | None = None
    message: str = ""
    retryable: bool | None = None
    duration_ms: int | None = None


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why there is no result, as the model is told."""

    stage: Stage
    code: str
    message: str = ""
    retryable: bool = False
    faults: tuple[Fault, ...] = ()


class Answer(Quiet, frozen=True):
    """What may enter the context for one call: a view with remarks beside it, or why there is none.

    Which call it answers is `call_id` and `action`, never a position in a list.
    """

    action: str
    call_id: str | None
    view: Json = None
    form: Form | None = None
    remarks: tuple[str, ...] = ()
    refusal: Refusal | None = None
    result: ResultRef | None = None

    @property
    def ok(self) -> bool:
        """Whether this is a result; a refusal or a failure is none, whatever else is in it."""
        return self.refusal is None

    def text(self) -> str:
        """Return this as JSON text for a message: `result` and `remarks`, or `reference`, or `error`."""
        told: dict[str, Any] = {}
        if self.refusal is not None:
            told["error"] = self.refusal
        elif self.form in {Form.FULL, Form.PARTIAL}:
            told["result"] = self.view
        elif self.form is Form.REFERENCE:
            told["reference"] = self.result
        if self.remarks:
            told["remarks"] = self.remarks
        return msgspec.json.encode(told).decode()


class Receipt(Quiet, frozen=True, omit_defaults=True):
    """What was done about one action, stage by stage; JSON throughout, so that the owner can keep it as it likes.

    The raw output is not here: it is the runtime's. `reservation` says what was known when this was saved; the
    settlement comes after. `execution` is None where nothing was started; `executions` counts what was. Where nothing
    was refused and it still is None, the start itself was broken off: the action may be asked for again.
    `original_arguments` are None, too, where what the model wrote is no JSON: nothing of it is kept.
    """

    run: str
    action: str
    tool: str
    call_id: str | None
    schema_version: int | None
    original_arguments: Json
    admission: Step | None = None
    effective_arguments: Json = None
    faults: tuple[Fault, ...] = ()
    reservation_id: str | None = None
    reservation: Step | None = None
    executions: int = 0
    execution: Step | None = None
    has_held: bool = False
    held: Json = None
    source_whole: bool | None = None
    projection: Step | None = None
    view: Json = None
    form: View | None = None
    remarks: tuple[str, ...] = ()
    format: int = 1

    @property
    def arguments_changed(self) -> bool:
        """Whether a rule of the tool's made other arguments of what the model wrote."""
        changed = self.effective_arguments is not None
        return changed and not same(self.effective_arguments, self.original_arguments)

    @property
    def finished(self) -> bool:
        """Whether it is known how this ended: False where a process was killed between two saves, or at the start."""
        if self.execution is None:
            return not self.never_started
        return self.execution.status is not Status.STARTED

    @property
    def never_started(self) -> bool:
        """Whether nothing was refused, and the start was broken off before anything was executed."""
        admitted = self.admission is not None and self.admission.status is Status.ADMITTED
        reserved = self.reservation is None or self.reservation.status is Status.RESERVED
        return admitted and reserved and self.execution is None

    @property
    def result_ref(self) -> ResultRef | None:
        """The name of the result: its version is the execution that gave it. None where there is none."""
        return ResultRef(self.run, self.action, self.executions) if self.has_held else None

    def answer(self) -> Answer:
        """Return what the model is told: made of this alone, so that a replay says the same."""
        if (
            self.projection is not None
            and self.projection.status is Status.PROJECTED
            and self.form is not None
        ):
            return Answer(
                action=self.action,
                call_id=self.call_id,
                view=copied(self.view),
                form=self.form.form,
                remarks=self.remarks,
                result=self.result_ref,
            )
        return Answer(action=self.action, call_id=self.call_id, refusal=self._refusal())

    def _refusal(self) -> Refusal:
        """Name the first stage that did not succeed."""
        stages = (
            (Stage.ADMISSION, self.admission, Status.ADMITTED),
            (Stage.RESERVATION, self.reservation, Status.RESERVED),
            (Stage.EXECUTION, self.execution, Status.SUCCEEDED),
            (Stage.PROJECTION, self.projection, Status.PROJECTED),
        )
        for stage, step, wanted in stages:
            if step is not None and step.status is not wanted:
                unknown = "outcome_unknown" if step.status is Status.STARTED else "not_given"
                return Refusal(
                    stage,
                    step.code or unknown,
                    step.message,
                    retryable=bool(step.retryable),
                    faults=self.faults,
                )
        return Refusal(Stage.EXECUTION, "not_executed", faults=self.faults)

    def own_copy(self) -> "Receipt":
        """Return a copy that shares nothing that can be changed."""
        return msgspec.structs.replace(
            self,
            original_arguments=copied(self.original_arguments),
            effective_arguments=copied(self.effective_arguments),
            held=copied(self.held),
            view=copied(self.view),
        )


class Outcome(Quiet, frozen=True):
    """What one run of the entry gave. `raw` and `cause` are there in this process only, never after a replay.

    `persisted`: whether the receipt was saved; a result whose receipt could not be is still a result.
    """

    receipt: Receipt
    answer: Answer
    replayed: bool = False
    persisted: bool = False
    raw: Any = None
    cause: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Outcome of {self.receipt!r}>"
