"""The way of one action through the stages, as a core that calls nothing itself (driving.py does).

The order is the promise: admit, before-hooks, validate and authorise the effective arguments, reserve, mark as started,
execute, project, save the receipt, settle. Each stage has a status of its own. What is not expected refuses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from custody_toolchain.driving import Steps, Wait, ask
from custody_toolchain.facts import Stage, Status, code_of, fact_id
from custody_toolchain.tools.lanes import Lanes
from custody_toolchain.tools.owners import Allow, Owner, Refuse, Settlement, said
from custody_toolchain.tools.projection import Altered, Views
from custody_toolchain.tools.records import (
    Action,
    Answer,
    Block,
    Call,
    Failure,
    Held,
    Normalise,
    Outcome,
    Projected,
    Proposed,
    Receipt,
    Refusal,
    Step,
    Tool,
    ToolFailed,
    Turn,
)
from custody_toolchain.tools.schema import Fault
from custody_toolchain.tools.telling import Telling
from custody_toolchain.tools.values import Frozen, Json, NotJson, copied, frozen, same

Hook: TypeAlias = Callable[[Any], Any]

ADMITTED: Final = Step(Status.ADMITTED)
_MOST_TRIES: Final = 3
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
    # Receipts that could not be saved: in this process the action is not executed again for that.
    unsaved: dict[tuple[str, str], Receipt] = field(default_factory=dict)
    most_unsaved: int = 1024
    counts: Counts = field(default_factory=Counts)


class Unusable(Exception):
    """The action cannot go on, and its receipt, if it has one, stays as it is."""

    def __init__(self, stage: Stage, step: Step) -> None:
        super().__init__(step.code)
        self.stage = stage
        self.step = step


class Passage:
    """One action on its way; made for one `go`."""

    def __init__(
        self,
        fittings: Fittings,
        turn: Turn,
        action: Action,
        tool: Tool | None,
        telling: Telling,
        *,
        anew: bool,
    ) -> None:
        self._with = fittings
        self._owner = fittings.owner
        self._turn = turn
        self._action = action
        self._tool = tool
        self._telling = telling
        self._anew = anew
        self._prior: Receipt | None = None
        # What has yet to be settled or released, and the receipt that says which; None: the one in the making.
        self._open: tuple[str, Receipt | None] | None = None
        self._raw: Any = None
        self._cause: BaseException | None = None
        self._persisted = False
        self._receipt = Receipt(
            run=turn.run,
            action=action.id,
            tool=action.tool,
            call_id=action.call_id,
            schema_version=tool.version if tool is not None else None,
            original_arguments=action.arguments,
        )

    def go(self) -> Steps[Outcome]:
        """Give the outcome; ordinary errors are in it, an interrupt or a cancellation is raised again at the end."""
        key = (self._turn.run, self._action.id)
        holder = object()
        try:
            while (left := self._with.lanes.enter(key, holder)) is not None:
                yield Wait(left)
            try:
                return (yield from self._inside())
            except Unusable as unusable:
                return (yield from self._ended(unusable))
        finally:
            try:
                # Only if an interrupt came so early that nothing further in could do it.
                yield from self._settle()
            finally:
                self._with.lanes.leave(key, holder)

    def _inside(self) -> Steps[Outcome]:
        self._prior = yield from self._load()
        if self._prior is not None:
            yield from self._close_what_was_left_open(self._prior)
            self._same_action(self._prior)
            if self._prior.finished and not self._anew:
                return (yield from self._replay(self._prior))
            self._may_execute_again(self._prior)
            self._note(executions=self._prior.executions)
        admission = yield from self._admission()
        self._note(admission=admission)
        yield from self._told(Stage.ADMISSION, admission, arguments_changed=self._receipt.arguments_changed)
        if admission.status is Status.ADMITTED and self._tool is not None:
            yield from self._reserved(self._tool)
        else:
            yield from self._save_refusal(admission)
        return self._outcome()

    # Receipts that are there already

    def _load(self) -> Steps[Receipt | None]:
        key = (self._turn.run, self._action.id)
        if key in self._with.unsaved:
            return self._with.unsaved[key]
        try:
            prior = yield from ask(self._owner.receipts.load, *key)
        except Exception as error:
            # Without them nobody knows whether it was executed before.
            self._cause = error
            raise Unusable(Stage.REPLAY, _failed("receipts_unavailable", retryable=True)) from error
        if prior is None:
            return None
        if not isinstance(prior, Receipt) or (prior.run, prior.action) != key:
            raise Unusable(Stage.REPLAY, _failed("not_that_receipt"))
        return prior.own_copy()

    def _same_action(self, prior: Receipt) -> None:
        """Refuse where one id means two actions, or where the receipt is of another version of the schema."""
        mine = self._receipt
        if (prior.tool, prior.call_id) != (mine.tool, mine.call_id) or not same(
            prior.original_arguments, mine.original_arguments
        ):
            raise Unusable(Stage.REPLAY, _refused("identity_conflict"))
        if prior.schema_version != mine.schema_version:
            raise Unusable(Stage.REPLAY, _refused("schema_version"))

    def _replay(self, prior: Receipt) -> Steps[Outcome]:
        """Give what was given: no execution, no hook, no admission again."""
        if self._owner.may_replay is not None:
            step = yield from self._gate(self._owner.may_replay, prior.own_copy(), failed="may_replay_failed")
            if step.status is not Status.ADMITTED:
                raise Unusable(Stage.REPLAY, step)
        self._receipt, self._persisted = prior, True
        if (prior.run, prior.action) in self._with.unsaved:
            yield from self._save()
        self._telling.stage(
            Stage.REPLAY,
            Step(Status.REPLAYED),
            execution=prior.executions or None,
            result_version=prior.executions if prior.has_held else None,
        )
        return Outcome(prior, prior.answer(), replayed=True, persisted=self._persisted)

    def _close_what_was_left_open(self, prior: Receipt) -> Steps[None]:
        """Settle a reservation whose process was killed before it could: the owner knows whether it is still open."""
        reservations, reservation = self._owner.reservations, prior.reservation_id
        if reservations is None or reservation is None or prior.execution is None:
            return
        try:
            is_open = yield from ask(reservations.is_open, reservation)
        except Exception as error:
            self._cause = error
            raise Unusable(Stage.REPLAY, _failed("reservations_unavailable", retryable=True)) from error
        if is_open is True:
            self._open = (reservation, prior)
            yield from self._settle()

    def _may_execute_again(self, prior: Receipt) -> None:
        if not prior.finished and not self._anew and not (self._tool is not None and self._tool.repeatable):
            # It was started, and nobody saw how it ended: that is neither a success nor a failure.
            raise Unusable(Stage.REPLAY, _refused("outcome_unknown"))

    # Admission: everything before the first side effect

    def _admission(self) -> Steps[Step]:
        tool = self._tool
        if tool is None:
            return _refused("unknown_tool")
        if self._action.schema_version not in {None, tool.version}:
            return _refused("schema_version")
        if not isinstance(self._action.arguments, dict):
            self._note(faults=(Fault("", "type"),))
            return _refused("invalid_arguments")
        step = yield from self._gate(self._owner.admit, _own(self._action), failed="admission_failed")
        if step.status is Status.ADMITTED:
            step = yield from self._before_hooks(tool)
        if step.status is Status.ADMITTED:
            step = self._validated(tool)
        if step.status is Status.ADMITTED:
            call = self._call(frozen(self._receipt.effective_arguments))
            step = yield from self._gate(self._owner.authorise, call, failed="authorisation_failed")
        return step

    def _gate(self, gate: Callable[..., Any], subject: object, *, failed: str) -> Steps[Step]:
        """Ask one of the owner's gates; whatever is not a clear yes is a no."""
        try:
            decision = yield from ask(gate, self._turn, subject)
        except Exception as error:  # noqa: BLE001 - the owner's failure is told as one, never as a yes
            self._cause = error
            return _failed(failed)
        return _decided(decision, failed)

    def _before_hooks(self, tool: Tool) -> Steps[Step]:
        effective = copied(self._action.arguments)
        for hook in self._with.before:
            proposed = Proposed(
                turn=self._turn,
                action=self._action.id,
                tool=tool.name,
                call_id=self._action.call_id,
                original_arguments=frozen(self._action.arguments),
                arguments=frozen(effective),
            )
            try:
                wish = yield from ask(hook, proposed, timeout_s=self._with.hook_timeout_s)
                if isinstance(wish, Block):
                    return Step(
                        Status.REFUSED, _code(wish.code), said(wish.message), retryable=wish.retryable
                    )
                if isinstance(wish, Normalise):
                    effective = _normalised(tool, wish.rule, effective)
                elif wish is not None:
                    return _failed("hook_failed")
            except Exception as error:  # noqa: BLE001 - a hook may be what keeps something from happening
                self._cause = error
                return _failed("hook_failed")
        self._note(effective_arguments=effective)
        return ADMITTED

    def _validated(self, tool: Tool) -> Step:
        faults = tool.checked.faults(self._receipt.effective_arguments)
        self._note(faults=faults)
        return _refused("invalid_arguments") if faults else ADMITTED

    # From the reservation to its end

    def _reserved(self, tool: Tool) -> Steps[None]:
        """Take the action from its reservation to its receipt; the reservation is closed whatever happens."""
        execution = self._receipt.executions + 1
        try:
            if not (yield from self._reserve(execution)):
                return
            yield from self._marked(execution)
            try:
                yield from self._execute(tool, execution)
                yield from self._project(tool, execution)
            except BaseException:
                yield from self._broken_off()
                raise
            finally:
                yield from self._save()
        finally:
            yield from self._settle()

    def _reserve(self, execution: int) -> Steps[bool]:
        if self._owner.reservations is None:
            return True
        reservation = fact_id("reservation", self._turn.run, self._action.id, execution)
        self._note(reservation_id=reservation)
        call = self._call(frozen(self._receipt.effective_arguments))
        try:
            step = _decided(
                (
                    yield from ask(
                        self._once(self._owner.reservations.reserve, (reservation, None)), reservation, call
                    )
                ),
                "reservation_failed",
            )
        except Exception as error:  # noqa: BLE001 - the owner's failure is told as one, never as a yes
            self._cause = error
            step = _failed("reservation_failed")
        if step.status is Status.REFUSED:
            self._open = None
        reserved = step.status is Status.ADMITTED
        step = Step(Status.RESERVED) if reserved else step
        self._note(reservation=step)
        yield from self._told(Stage.RESERVATION, step, execution=execution)
        if not reserved:
            yield from self._save_refusal(step)
        return reserved

    def _marked(self, execution: int) -> Steps[None]:
        """Save that it is about to be started; without that nothing is, since nobody could tell afterwards."""
        mark = msgspec.structs.replace(
            self._receipt, executions=execution, execution=Step(Status.STARTED, "outcome_unknown")
        )
        try:
            yield from ask(self._owner.receipts.save, mark.own_copy())
        except Exception as error:
            self._cause = error
            raise Unusable(Stage.PERSISTENCE, _failed("receipts_unavailable", retryable=True)) from error
        self._receipt = mark

    def _execute(self, tool: Tool, execution: int) -> Steps[None]:
        started = self._with.clock()
        self._telling.stage(Stage.EXECUTION, Step(Status.STARTED), execution=execution)
        call = self._call(copied(self._receipt.effective_arguments))
        try:
            self._raw = yield from ask(tool.execute, call, timeout_s=tool.timeout_s)
            step = Step(Status.SUCCEEDED)
        except ToolFailed as error:
            self._cause = error
            step = Step(Status.FAILED, _code(error.code), said(error.message), retryable=error.retryable)
        except TimeoutError as error:
            self._cause = error
            step = Step(Status.TIMED_OUT, "timed_out", retryable=True)
        except Exception as error:  # noqa: BLE001 - a tool's failure is a fact, and its text is its own
            self._cause = error
            step = _failed("tool_raised")
        step = msgspec.structs.replace(step, duration_ms=self._since(started))
        self._note(execution=step)
        yield from self._told(Stage.EXECUTION, step, execution=execution)

    def _project(self, tool: Tool, execution: int) -> Steps[None]:
        if self._receipt.execution is None or self._receipt.execution.status is not Status.SUCCEEDED:
            return
        started = self._with.clock()
        step = yield from self._projected(tool)
        step = msgspec.structs.replace(step, duration_ms=self._since(started))
        self._note(projection=step)
        known: dict[str, Any] = {
            "execution": execution,
            "result_version": execution if self._receipt.has_held else None,
        }
        yield from self._told(Stage.PROJECTION, step, **known, view=self._receipt.form)

    def _projected(self, tool: Tool) -> Steps[Step]:
        """Make of the raw output the held result, and of that the view; what cannot be is a failed projection."""
        failed = "hold_failed"
        try:
            held = self._raw if tool.hold is None else (yield from self._hook(tool.hold, self._raw))
            held = held if isinstance(held, Held) else Held(held)
            self._note(has_held=True, held=copied(held.value), source_whole=held.source_whole)
            views = Views(frozen(held.value), rows=tool.rows, source_whole=held.source_whole)
            failed = "project_failed"
            if tool.project is not None:
                views.take((yield from self._hook(tool.project, views.held)))
            failed = "hook_failed"
            for hook in self._with.after:
                views.take((yield from self._hook(hook, self._seen(tool, views))))
        except Altered as error:
            self._cause = error
            return _failed("view_altered")
        except NotJson as error:
            self._cause = error
            return _failed("not_json")
        except Exception as error:  # noqa: BLE001 - the execution has succeeded all the same
            self._cause = error
            return _failed(failed)
        self._note(view=copied(views.view), form=views.form, remarks=tuple(views.remarks))
        return Step(Status.PROJECTED)

    def _seen(self, tool: Tool, views: Views) -> Projected:
        return Projected(
            turn=self._turn,
            action=self._action.id,
            tool=tool.name,
            call_id=self._action.call_id,
            held=views.held,
            view=views.view,
            form=views.form.form,
        )

    def _hook(self, hook: Hook, subject: object) -> Steps[Any]:
        return (yield from ask(hook, subject, timeout_s=self._with.hook_timeout_s))

    def _broken_off(self) -> Steps[None]:
        """Note which stage an interrupt or a cancellation broke off; those before it stay as they were."""
        receipt = self._receipt
        execution = receipt.executions
        if receipt.execution is not None and receipt.execution.status is Status.STARTED:
            step = Step(Status.CANCELLED, "cancelled", retryable=True)
            self._note(execution=step)
            yield from self._told(Stage.EXECUTION, step, to_the_end=True, execution=execution)
        elif receipt.projection is None and receipt.execution is not None:
            if receipt.execution.status is not Status.SUCCEEDED:
                return
            step = _failed("cancelled", retryable=True)
            self._note(projection=step)
            yield from self._told(Stage.PROJECTION, step, to_the_end=True, execution=execution)

    def _save_refusal(self, step: Step) -> Steps[None]:
        """Save a final no. One that may be retried, and an outage, leave the action as if it had not been asked for."""
        if self._prior is None and step.status is Status.REFUSED and not step.retryable:
            yield from self._save()

    def _save(self) -> Steps[None]:
        """Save the receipt; one that cannot be is kept in this process, so that nothing is executed again for it."""
        receipt = self._receipt
        key = (receipt.run, receipt.action)
        known: dict[str, Any] = {"execution": receipt.executions or None}
        try:
            yield from ask(self._owner.receipts.save, receipt.own_copy(), to_the_end=True)
        except BaseException as error:
            self._keep_unsaved(key, receipt)
            self._persisted = False
            step = _failed("receipts_unavailable", retryable=True)
            yield from self._told(Stage.PERSISTENCE, step, to_the_end=True, **known)
            if not isinstance(error, Exception):
                raise
            return
        self._with.unsaved.pop(key, None)
        self._persisted = True
        self._telling.stage(Stage.PERSISTENCE, Step(Status.PERSISTED), **known)

    def _keep_unsaved(self, key: tuple[str, str], receipt: Receipt) -> None:
        kept = self._with.unsaved
        kept[key] = receipt.own_copy()
        while len(kept) > self._with.most_unsaved:
            # The oldest; what is left of it is its mark, and that says that its outcome is unknown.
            kept.pop(next(iter(kept)), None)

    def _settle(self) -> Steps[None]:
        """Settle what was started, release what was not: the owner is asked once for each reservation.

        An interrupt before it is asked does not keep it from being asked; after that, nothing is tried twice.
        """
        interrupt: BaseException | None = None
        for _ in range(_MOST_TRIES):
            if self._open is None:
                break
            try:
                yield from self._close(*self._open)
            except BaseException as error:  # noqa: BLE001 - raised again as soon as the owner was asked
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _close(self, reservation: str, prior: Receipt | None) -> Steps[None]:
        reservations = self._owner.reservations
        if reservations is None:
            self._open = None
            return
        receipt = self._receipt if prior is None else prior
        known: dict[str, Any] = {"execution": receipt.executions or None}
        try:
            if receipt.execution is None:
                yield from ask(self._once(reservations.release, None), reservation, to_the_end=True)
                step = Step(Status.RELEASED)
            else:
                settlement = _settlement(reservation, receipt)
                yield from ask(self._once(reservations.settle, None), settlement, to_the_end=True)
                step = Step(Status.SETTLED)
        except Exception as error:  # noqa: BLE001 - whether it took effect is the owner's to find out
            self._cause = error
            step = _failed("settlement_failed")
        yield from self._told(Stage.RESERVATION, step, to_the_end=True, **known)

    def _once(
        self, function: Callable[..., Any], open_then: tuple[str, Receipt | None] | None
    ) -> Callable[..., Any]:
        """Return the function, noting what is open in the same moment in which it is called.

        One that reserves and raises may have reserved; one that closes and raises is not called again.
        """

        def note() -> None:
            self._open = open_then

        # One expression, of which `note` gives nothing: no interrupt comes between the note and the call.
        return lambda *given: note() or function(*given)  # type: ignore[func-returns-value,redundant-expr]

    # What all of them need

    def _note(self, **changes: Any) -> None:
        self._receipt = msgspec.structs.replace(self._receipt, **changes)

    def _since(self, started: float) -> int:
        return max(0, round((self._with.clock() - started) * 1000))

    def _call(self, arguments: Json | Frozen) -> Call:
        return Call(
            run=self._turn.run,
            action=self._action.id,
            tool=self._action.tool,
            call_id=self._action.call_id,
            execution=self._receipt.executions or 1,
            arguments=arguments,
            timeout_s=self._tool.timeout_s if self._tool is not None else None,
            about=self._turn.about,
        )

    def _told(self, stage: Stage, step: Step, *, to_the_end: bool = False, **more: Any) -> Steps[None]:
        """Report a stage; if it stopped the action, tell the failure hooks which stage it was."""
        self._telling.stage(stage, step, **more)
        if step.status not in _STOPPED:
            return
        failure = Failure(
            turn=self._turn,
            action=self._action.id,
            tool=self._action.tool,
            call_id=self._action.call_id,
            stage=stage,
            status=step.status,
            code=step.code,
            retryable=step.retryable,
        )
        for hook in self._with.on_failure:
            try:
                yield from ask(hook, failure, timeout_s=self._with.hook_timeout_s, to_the_end=to_the_end)
            except Exception:  # noqa: BLE001 - it is told, and has no say; it is counted
                self._with.counts.failure_hooks_failed += 1

    def _outcome(self) -> Outcome:
        receipt = self._receipt.own_copy()
        return Outcome(receipt, receipt.answer(), persisted=self._persisted, raw=self._raw, cause=self._cause)

    def _ended(self, unusable: Unusable) -> Steps[Outcome]:
        step = unusable.step
        yield from self._told(unusable.stage, step)
        refusal = Refusal(
            unusable.stage, step.code or "not_given", step.message, retryable=bool(step.retryable)
        )
        answer = Answer(action=self._action.id, call_id=self._action.call_id, refusal=refusal)
        receipt = self._prior if self._prior is not None else self._receipt
        return Outcome(receipt, answer, cause=self._cause)


def _own(action: Action) -> Action:
    return msgspec.structs.replace(action, arguments=frozen(action.arguments))


def _code(code: object) -> str:
    """A code is the owner's or the tool's closed word; a sentence in its place is none."""
    return code_of(code if isinstance(code, str) else "") or "other"


def _failed(code: str, *, retryable: bool = False) -> Step:
    return Step(Status.FAILED, code, retryable=retryable)


def _refused(code: str) -> Step:
    return Step(Status.REFUSED, code, retryable=False)


def _decided(decision: object, failed: str) -> Step:
    if isinstance(decision, Allow):
        return ADMITTED
    if isinstance(decision, Refuse):
        return Step(
            Status.REFUSED, _code(decision.code), said(decision.message), retryable=decision.retryable
        )
    return _failed(failed)


def _normalised(tool: Tool, rule: str, arguments: Json) -> Json:
    """Apply a rule that the tool declared; KeyError for another, NotJson if what it gives are no arguments."""
    changed = copied(tool.rules[rule](copied(arguments)))
    if not isinstance(changed, dict):
        raise NotJson("arguments are an object")
    return changed


def _settlement(reservation: str, receipt: Receipt) -> Settlement:
    execution = receipt.execution or Step(Status.STARTED)
    return Settlement(
        reservation, receipt.run, receipt.action, receipt.executions, execution.status, execution.duration_ms
    )
