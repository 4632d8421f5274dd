"""Admission: everything before the first side effect."""

import msgspec

from custody_toolchain.driving import Steps
from custody_toolchain.facts import Status
from custody_toolchain.tools.course import ADMITTED, Course, code_word, failed, refused
from custody_toolchain.tools.owners import said
from custody_toolchain.tools.records import Block, Normalise, Proposed, Step, Tool
from custody_toolchain.tools.schema import NO_JSON, Fault
from custody_toolchain.tools.values import Json, NotJson, copied, frozen


def admission(course: Course) -> Steps[Step]:
    """Admit, ask the before-hooks, validate and authorise the effective arguments; the first no ends it."""
    tool, action = course.tool, course.action
    if tool is None:
        return refused("unknown_tool")
    if action.schema_version not in {None, tool.version}:
        return refused("schema_version")
    if not isinstance(action.arguments, dict):
        course.note(faults=(Fault("", "type" if course.arguments_are_json else NO_JSON),))
        return refused("invalid_arguments")
    own = msgspec.structs.replace(action, arguments=frozen(action.arguments))
    step = yield from course.gate(course.owner.admit, own, "admission_failed")
    if step.status is Status.ADMITTED:
        step = yield from _before_hooks(course, tool)
    if step.status is Status.ADMITTED:
        step = _validated(course, tool)
    if step.status is Status.ADMITTED:
        call = course.call(course.receipt.executions + 1, frozen(course.receipt.effective_arguments))
        step = yield from course.gate(course.owner.authorise, call, "authorisation_failed")
    return step


def _before_hooks(course: Course, tool: Tool) -> Steps[Step]:
    effective = copied(course.action.arguments)
    for hook in course.fittings.before:
        proposed = Proposed(
            turn=course.turn,
            action=course.action.id,
            tool=tool.name,
            call_id=course.action.call_id,
            original_arguments=frozen(course.action.arguments),
            arguments=frozen(effective),
        )
        try:
            wish = yield from course.hook(hook, proposed)
            if isinstance(wish, Block):
                word, message = code_word(wish.code), said(wish.message)
                return Step(Status.REFUSED, word, message, retryable=wish.retryable)
            if isinstance(wish, Normalise):
                effective = _normalised(tool, wish.rule, effective)
            elif wish is not None:
                return failed("hook_failed")
        except Exception as error:  # noqa: BLE001 - a hook may be what keeps something from happening
            return course.failed(error, "hook_failed")
    course.note(effective_arguments=effective)
    return ADMITTED


def _normalised(tool: Tool, rule: str, arguments: Json) -> Json:
    """Apply a rule that the tool declared; KeyError for another, NotJson if what it gives are no arguments."""
    changed = copied(tool.rules[rule](copied(arguments)))
    if not isinstance(changed, dict):
        raise NotJson("arguments are an object")
    return changed


def _validated(course: Course, tool: Tool) -> Step:
    faults = tool.checked.faults(course.receipt.effective_arguments)
    course.note(faults=faults)
    return refused("invalid_arguments") if faults else ADMITTED
