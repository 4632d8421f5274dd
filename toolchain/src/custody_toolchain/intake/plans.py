"""Plans as plain JSON: the whole text is one, a list of actions, an object with a list of them, or one action.

A state machine over the outermost level, so that each action has its place and what was closed before a cut is known;
each action is read by a JSON decoder.
"""

from typing import Any, Final

from msgspec import structs

from custody_toolchain.intake.bounds import Limits
from custody_toolchain.intake.call_objects import stated
from custody_toolchain.intake.exact_json import (
    check_depth,
    check_values,
    may_hold_halves,
    space_end,
    value_at,
    value_of,
)
from custody_toolchain.intake.results import Action, Refused
from custody_toolchain.intake.words import Boundary, Source, Truncated, Why

ACTIONS: Final = "actions"
_MOST_KEYS: Final = 64  # beside the actions


class Plan:
    """The actions of a plan, what else stood in its outermost object, and whether actions behind these are missing."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text, self.limits = text, limits
        self.actions: list[Action] = []
        self.beside: dict[str, Any] = {}
        self.salvaged = False
        self._halves = may_hold_halves(text)
        self._ids: set[str] = set()

    def value(self, at: int) -> tuple[Any, int]:
        """Return the value at a place, and where it ends."""
        value, end = value_at(self.text, at)
        if self._halves:
            check_values(value, self.limits)
        return value, end

    def add(self, value: object, begin: int, end: int) -> None:
        """Add the action that a decoded object states."""
        ordinal = len(self.actions)
        if ordinal >= self.limits.actions:
            raise Refused(Why.TOO_MANY_ACTIONS, Boundary.PLAN, at=begin, length=ordinal + 1)
        call = stated(value, end - begin, self.limits)
        if call.call_id is not None:
            if call.call_id in self._ids:
                raise Refused(Why.ID_REPEATED, Boundary.CALL, at=begin)
            self._ids.add(call.call_id)
        self.actions.append(
            Action(
                ordinal=ordinal,
                name=call.name,
                arguments=call.arguments,
                source=Source.PLAN,
                call_id=call.call_id,
                span=(begin, end),
                opaque=call.opaque,
            )
        )


def actions_of(text: str, limits: Limits, truncated: Truncated, *, complete: bool = True) -> Plan:
    """Return the plan that a checked text is; Refused if it is none, or cut and not to be salvaged."""
    plan = Plan(text, limits)
    try:
        check_depth(text, limits.depth)
        _read(plan, space_end(text, 0), complete=complete)
    except Refused as refused:
        if refused.why is Why.CUT and truncated is Truncated.SALVAGE and plan.actions:
            plan.salvaged = True
            plan.actions = [structs.replace(action, salvaged=True) for action in plan.actions]
            return plan
        raise refused.within(Boundary.PLAN, call=len(plan.actions)) from None
    return plan


def _read(plan: Plan, at: int, *, complete: bool) -> None:
    text = plan.text
    if text.startswith("[", at):
        end = _list(plan, at)
    elif text.startswith("{", at):
        end = _object(plan, at)
    elif at >= len(text):
        raise Refused(Why.EMPTY, Boundary.TEXT)
    else:
        value_of(text, plan.limits)  # it says what is wrong, if it is no JSON
        raise Refused(Why.NOT_AN_OBJECT, Boundary.PLAN, at=at)
    at = space_end(text, end)
    if at < len(text):
        raise Refused(Why.UNEXPECTED_TEXT, Boundary.TEXT, at=at)
    if not complete:
        raise Refused(Why.CUT, Boundary.PLAN, at=at)


def _list(plan: Plan, at: int) -> int:
    """Read a list of actions, and return where it ends."""
    text, at = plan.text, space_end(plan.text, at + 1)
    if text.startswith("]", at):
        return at + 1
    while True:
        value, end = plan.value(at)
        plan.add(value, at, end)
        at, closed = _after(plan, end, "]")
        if closed:
            return at


def _object(plan: Plan, begin: int) -> int:
    """Read the outermost object: its list of actions, or itself as the only one."""
    text, at, found = plan.text, space_end(plan.text, begin + 1), False
    closed = text.startswith("}", at)
    at += closed
    while not closed:
        key, at = _key(plan, at)
        if key == ACTIONS and text.startswith("[", at):
            found, end = True, _list(plan, at)
            plan.beside[ACTIONS] = None
        else:
            plan.beside[key], end = plan.value(at)
        at, closed = _after(plan, end, "}")
    if found:
        del plan.beside[ACTIONS]
        return at
    action, plan.beside = plan.beside, {}
    plan.add(action, begin, at)
    return at


def _key(plan: Plan, at: int) -> tuple[str, int]:
    """Return a key, and where its value begins."""
    text = plan.text
    if not text.startswith('"', at):
        raise Refused(_why_not(text, at), Boundary.PLAN, at=at)
    key, end = plan.value(at)
    if key in plan.beside:
        raise Refused(Why.DUPLICATE_KEY, Boundary.PLAN, at=at)
    if len(plan.beside) >= _MOST_KEYS:
        raise Refused(Why.TOO_MANY_ACTIONS, Boundary.PLAN, at=at)
    end = space_end(text, end)
    if not text.startswith(":", end):
        raise Refused(_why_not(text, end), Boundary.PLAN, at=end)
    return key, space_end(text, end + 1)


def _after(plan: Plan, at: int, closing: str) -> tuple[int, bool]:
    """Return where the next element begins, or where all of them end."""
    text, at = plan.text, space_end(plan.text, at)
    if text.startswith(closing, at):
        return at + 1, True
    if not text.startswith(",", at):
        raise Refused(_why_not(text, at), Boundary.PLAN, at=at)
    return space_end(text, at + 1), False


def _why_not(text: str, at: int) -> Why:
    return Why.CUT if at >= len(text) else Why.NOT_JSON
