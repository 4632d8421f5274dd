"""One entry for read-like tools: `ToolHost.run` and `ToolHost.arun`."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from custody_toolchain.driving import adrive, drive
from custody_toolchain.observing import Report
from custody_toolchain.tools.course import Counts, Course, Fittings, Hook
from custody_toolchain.tools.lanes import Key
from custody_toolchain.tools.owners import Owner
from custody_toolchain.tools.passage import Passage
from custody_toolchain.tools.records import Action, Answer, Outcome, Receipt, Tool, Turn
from custody_toolchain.tools.telling import Telling
from custody_toolchain.tools.values import NotJson, copied

_HOOK_TIMEOUT_S: Final = 10.0
_within: ContextVar[frozenset[tuple[int, Key]]] = ContextVar("custody_actions_under_way")


class WithinItself(RuntimeError):
    """A tool, gate or hook ran the very action that it is part of: that would wait for itself for ever."""


class ToolHost:
    """Takes actions through admission, hooks, validation, reservation, execution, projection and receipt.

    Promised: what is not admitted is not executed; an error never becomes a success; in one process an action is
    executed at most once, however often and concurrently it is run, and never again once its receipt is saved; every
    reservation is settled or released exactly once, also when something raises, times out or is cancelled; ordinary
    errors of the owner's pieces, of tools and of hooks come back in the outcome and raise nothing, and so do arguments
    that are no JSON, whatever a model wrote.

    Not promised: exactly-once towards the outside. A process that is killed while a tool is at work leaves a receipt
    that says `started`; whether the call arrived nobody knows. A tool that is `repeatable` is executed again then, and
    its executions are two; any other is refused with `outcome_unknown`. Nor can a synchronous function be interrupted.
    Nor that a result outlives a store that takes no receipts: of those that could not be saved the last 1,024 are kept
    here, and an action whose receipt was let go is refused with `outcome_unknown`, not executed again.
    """

    def __init__(
        self,
        owner: Owner,
        tools: Mapping[str, Tool],
        *,
        before: Sequence[Hook] = (),
        after: Sequence[Hook] = (),
        on_failure: Sequence[Hook] = (),
        report: Report | None = None,
        hook_timeout_s: float | None = _HOOK_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tools` stays the runtime's, and is looked at for each action; `hook_timeout_s` limits awaited hooks."""
        self._tools = tools
        self._report = report
        self._fittings = Fittings(
            owner, tuple(before), tuple(after), tuple(on_failure), hook_timeout_s, clock
        )

    @property
    def counts(self) -> Counts:
        """How many reports and failure hooks raised; neither changed an action."""
        return self._fittings.counts

    def run(self, turn: Turn, action: Action, *, anew: bool = False) -> Outcome:
        """Take one action through all stages, or replay its receipt; what must be awaited fails where it is met.

        `anew`: execute again although there is a receipt; the result is a new version, and executions count on.
        WouldWaitForEver where this action is under way on the event loop of this very thread: await `arun` there.
        """
        before = _within.get(frozenset())
        passage, telling, entered = self._passage(turn, action, anew=anew)
        _within.set(entered)
        try:
            return drive(passage.go())
        finally:
            _within.set(before)
            self.counts.reports_failed += telling.failed

    async def arun(self, turn: Turn, action: Action, *, anew: bool = False) -> Outcome:
        """Do the same as `run`, and await what gives an awaitable; what does not is called on the loop (asyncio)."""
        before = _within.get(frozenset())
        passage, telling, entered = self._passage(turn, action, anew=anew)
        _within.set(entered)
        try:
            return await adrive(passage.go())
        finally:
            _within.set(before)
            self.counts.reports_failed += telling.failed

    def _passage(
        self, turn: Turn, action: Action, *, anew: bool
    ) -> tuple[Passage, Telling, frozenset[tuple[int, Key]]]:
        """Copy the action, before anybody can change it."""
        action, are_json = _own(action)
        key = (turn.run, action.id)
        within = _within.get(frozenset())
        if (id(self), key) in within and self._fittings.lanes.is_busy(key):
            raise WithinItself("an action was run from within itself")
        tool = self._tools.get(action.tool)
        telling = Telling(turn.report or self._report, action, tool)
        course = Course(self._fittings, turn, action, tool, telling, arguments_are_json=are_json)
        passage = Passage(course, anew=anew)
        return passage, telling, within | {(id(self), key)}


def _own(action: Action) -> tuple[Action, bool]:
    """Copy an action, and say whether its arguments are JSON; if not it has none, since no receipt can hold them."""
    try:
        return msgspec.structs.replace(action, arguments=copied(action.arguments)), True
    except NotJson:
        return msgspec.structs.replace(action, arguments=None), False


def by_call_id(outcomes: Iterable[Outcome], call_ids: Sequence[str]) -> list[Answer]:
    """Return the answers in the order of the model's calls, paired by call id alone.

    ValueError where a call has no answer, or two, or an answer has no call: a position is never a reason to pair.
    """
    found: dict[str | None, Answer] = {}
    for outcome in outcomes:
        if outcome.answer.call_id in found:
            raise ValueError("two answers have the same call id, or none")
        found[outcome.answer.call_id] = outcome.answer
    if len(set(call_ids)) != len(call_ids) or found.keys() != set(call_ids):
        raise ValueError("calls and answers do not pair")
    return [found[call_id] for call_id in call_ids]


def audit(receipt: Receipt) -> dict[str, Any]:
    """Return what a receipt of any version of its tool's schema says, as plain JSON; nothing is run or replayed."""
    told: dict[str, Any] = msgspec.to_builtins(receipt.own_copy())
    return told
