"""The way of one action through the stages, as a core that calls nothing itself (driving.py does).

The order is the promise: admit, before-hooks, validate and authorise the effective arguments, reserve, mark as started,
execute, project, save the receipt, settle. Each stage has a status of its own. What is not expected refuses.
"""

from typing import Any

import msgspec

from custody_toolchain.driving import Steps, ask, unless_cancelled
from custody_toolchain.facts import Stage, Status
from custody_toolchain.tools.budget import Budget
from custody_toolchain.tools.course import Course, Unusable, code_word, failed, refused
from custody_toolchain.tools.gates import admission
from custody_toolchain.tools.keeping import Keeping
from custody_toolchain.tools.owners import said
from custody_toolchain.tools.projection import Altered, Views
from custody_toolchain.tools.records import (
    Answer,
    Held,
    Outcome,
    Projected,
    Receipt,
    Refusal,
    Step,
    Tool,
    ToolFailed,
)
from custody_toolchain.tools.values import NotJson, copied, frozen


class Passage:
    """One action on its way; made for one `go`."""

    def __init__(self, course: Course, *, anew: bool) -> None:
        self._course = course
        self._budget = Budget(course)
        self._keeping = Keeping(course)
        self._anew = anew
        self._raw: Any = None

    def go(self) -> Steps[Outcome]:
        """Give the outcome; ordinary errors are in it, an interrupt or a cancellation is raised again at the end."""
        lanes, key, holder = self._course.fittings.lanes, self._course.key, object()
        try:
            while (wait := lanes.enter(key, holder)) is not None:
                yield wait
            try:
                return (yield from self._inside())
            except Unusable as unusable:
                return (yield from self._ended(unusable))
        finally:
            try:
                # Only if an interrupt came so early that nothing further in could do it.
                yield from self._budget.settle()
            finally:
                lanes.leave(key, holder)

    def _inside(self) -> Steps[Outcome]:
        course = self._course
        prior = yield from self._keeping.load()
        if prior is not None:
            yield from self._budget.close_what_was_left_open(prior)
            self._keeping.same_action(prior)
            if prior.finished and not self._anew:
                return (yield from self._replay(prior))
            course.note(executions=prior.executions)
        self._may_execute(prior)
        step = yield from admission(course)
        course.note(admission=step)
        yield from course.told(Stage.ADMISSION, step, arguments_changed=course.receipt.arguments_changed)
        if step.status is Status.ADMITTED and course.tool is not None:
            yield from self._reserved(course.tool)
        else:
            yield from self._keeping.save_refusal(step)
        receipt = course.receipt.own_copy()
        return Outcome(
            receipt, receipt.answer(), persisted=self._keeping.persisted, raw=self._raw, cause=course.cause
        )

    def _replay(self, prior: Receipt) -> Steps[Outcome]:
        """Give what was given: no execution, no hook, no admission again."""
        course = self._course
        if course.owner.may_replay is not None:
            step = yield from course.gate(course.owner.may_replay, prior.own_copy(), "may_replay_failed")
            if step.status is not Status.ADMITTED:
                raise Unusable(Stage.REPLAY, step)
        yield from self._keeping.replayed(prior)
        course.telling.stage(
            Stage.REPLAY,
            Step(Status.REPLAYED),
            execution=prior.executions or None,
            result_version=prior.executions if prior.has_held else None,
        )
        return Outcome(prior, prior.answer(), replayed=True, persisted=self._keeping.persisted)

    def _may_execute(self, prior: Receipt | None) -> None:
        if self._anew:
            return
        course, tool = self._course, self._course.tool
        lost = course.fittings.unsaved.is_lost(course.key)
        started = prior is not None and not prior.finished and not prior.never_started
        if lost or (started and (tool is None or not tool.repeatable)):
            # It was started, and nobody knows any more how it ended: that is neither a success nor a failure.
            raise Unusable(Stage.REPLAY, refused("outcome_unknown"))

    def _reserved(self, tool: Tool) -> Steps[None]:
        """Take the action from its reservation to its receipt; the reservation is closed whatever happens."""
        execution = self._course.receipt.executions + 1
        try:
            step = yield from self._budget.reserve(execution)
            if step.status is not Status.RESERVED:
                yield from self._keeping.save_refusal(step)
                return
            yield from unless_cancelled()
            yield from self._keeping.mark(execution)
            try:
                yield from self._execute(tool, execution)
                yield from self._project(tool, execution)
            except BaseException:
                yield from self._broken_off(execution)
                raise
            finally:
                yield from self._keeping.save()
        finally:
            yield from self._budget.settle()

    def _execute(self, tool: Tool, execution: int) -> Steps[None]:
        course = self._course
        started = course.fittings.clock()
        course.telling.stage(Stage.EXECUTION, Step(Status.STARTED), execution=execution)
        call = course.call(execution, copied(course.receipt.effective_arguments))
        try:
            self._raw = yield from ask(tool.execute, call, timeout_s=tool.timeout_s)
            step = Step(Status.SUCCEEDED)
        except ToolFailed as error:
            course.cause = error
            step = Step(Status.FAILED, code_word(error.code), said(error.message), retryable=error.retryable)
        except TimeoutError as error:
            course.cause = error
            step = Step(Status.TIMED_OUT, "timed_out", retryable=True)
        except Exception as error:  # noqa: BLE001 - a tool's failure is a fact, and its text is its own
            step = course.failed(error, "tool_raised")
        step = msgspec.structs.replace(step, duration_ms=course.since(started))
        course.note(execution=step)
        yield from course.told(Stage.EXECUTION, step, execution=execution)

    def _project(self, tool: Tool, execution: int) -> Steps[None]:
        course = self._course
        if course.receipt.execution is None or course.receipt.execution.status is not Status.SUCCEEDED:
            return
        started = course.fittings.clock()
        step = yield from self._projected(tool)
        step = msgspec.structs.replace(step, duration_ms=course.since(started))
        course.note(projection=step)
        version = execution if course.receipt.has_held else None
        yield from course.told(
            Stage.PROJECTION, step, execution=execution, result_version=version, view=course.receipt.form
        )

    def _projected(self, tool: Tool) -> Steps[Step]:
        """Make of the raw output the held result, and of that the view; what cannot be is a failed projection."""
        course, code = self._course, "hold_failed"
        try:
            held = self._raw if tool.hold is None else (yield from course.hook(tool.hold, self._raw))
            held = held if isinstance(held, Held) else Held(held)
            course.note(has_held=True, held=copied(held.value), source_whole=held.source_whole)
            views = Views(frozen(held.value), rows=tool.rows, source_whole=held.source_whole)
            code = "project_failed"
            if tool.project is not None:
                views.take((yield from course.hook(tool.project, views.held)))
            code = "hook_failed"
            for hook in course.fittings.after:
                views.take((yield from course.hook(hook, self._seen(tool, views))))
        except Altered as error:
            return course.failed(error, "view_altered")
        except NotJson as error:
            return course.failed(error, "not_json")
        except Exception as error:  # noqa: BLE001 - the execution has succeeded all the same
            return course.failed(error, code)
        course.note(view=copied(views.view), form=views.form, remarks=tuple(views.remarks))
        return Step(Status.PROJECTED)

    def _seen(self, tool: Tool, views: Views) -> Projected:
        return Projected(
            turn=self._course.turn,
            action=self._course.action.id,
            tool=tool.name,
            call_id=self._course.action.call_id,
            held=views.held,
            view=views.view,
            form=views.form.form,
        )

    def _broken_off(self, execution: int) -> Steps[None]:
        """Note which stage an interrupt or a cancellation broke off; those before it stay as they were."""
        course = self._course
        done = course.receipt.execution
        if done is not None and done.status is Status.STARTED:
            step = Step(Status.CANCELLED, "cancelled", retryable=True)
            course.note(execution=step)
            yield from course.told(Stage.EXECUTION, step, to_the_end=True, execution=execution)
        elif done is not None and done.status is Status.SUCCEEDED and course.receipt.projection is None:
            step = failed("cancelled", retryable=True)
            course.note(projection=step)
            yield from course.told(Stage.PROJECTION, step, to_the_end=True, execution=execution)

    def _ended(self, unusable: Unusable) -> Steps[Outcome]:
        course, step = self._course, unusable.step
        yield from course.told(unusable.stage, step)
        code = step.code or "not_given"
        refusal = Refusal(unusable.stage, code, step.message, retryable=bool(step.retryable))
        answer = Answer(action=course.action.id, call_id=course.action.call_id, refusal=refusal)
        return Outcome(self._keeping.prior or course.receipt, answer, cause=course.cause)
