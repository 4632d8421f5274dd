"""One action's whole answer: how it was executed, and which requests carried what of its result."""

from collections.abc import Iterable
from typing import Final

import msgspec

from custody_toolchain.facts import Fact, Form, Stage, StageFact, Status, Unit, View
from custody_toolchain.lineage.memory import Occurrence

_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Answer(msgspec.Struct, frozen=True):
    """What was observed of one action; None, and no execution at all, mean that nobody told."""

    action: str
    executions: int
    outcome: Status | None
    view: View | None
    occurrences: tuple[Occurrence, ...]

    def __str__(self) -> str:
        """Say it in one sentence."""
        said = [self._execution()]
        if self.view is not None:
            said.append(f"the view is {_part(self.view)}")
        by_request: dict[int, list[str]] = {}
        for each in self.occurrences:
            by_request.setdefault(each.request, []).append(_carries(each.view))
        if by_request:
            said.append(", ".join(f"request {at} carries {' and '.join(e)}" for at, e in by_request.items()))
        if (whole := self._source_whole()) is not None:
            said.append(f"the source was {'' if whole else 'not '}read whole")
        counts = _count(len(self.occurrences), "occurrence"), _count(self.executions, "execution")
        return "; ".join([*said, ", ".join(counts)])

    def _execution(self) -> str:
        if not self.executions:
            return "no external dispatch recorded"
        outcome = "outcome not recorded" if self.outcome is None else self.outcome.value.replace("_", " ")
        return f"{_number(self.executions)} external dispatch{'es' if self.executions > 1 else ''}, {outcome}"

    def _source_whole(self) -> bool | None:
        views = [self.view, *(each.view for each in self.occurrences)]
        said = [view.source_whole for view in views if view is not None and view.source_whole is not None]
        return said[0] if said else None


def answer(action: str, stages: Iterable[Fact], occurrences: tuple[Occurrence, ...]) -> Answer:
    """Join an action's stages, of whatever facts are given, and its occurrences. A replay is no execution."""
    executed: set[int] = set()
    outcome: Status | None = None
    view: View | None = None
    for fact in stages:
        if not isinstance(fact, StageFact) or fact.action != action:
            continue
        if fact.stage is Stage.EXECUTION:
            executed.add(fact.execution or 1)
            outcome = outcome if fact.status is Status.STARTED else fact.status
        elif fact.stage is Stage.PROJECTION and fact.view is not None:
            view = fact.view
    return Answer(action, len(executed), outcome, view, occurrences)


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _count(count: int, what: str) -> str:
    return f"{_number(count)} {what}{'' if count == 1 else 's'}"


def _carries(view: View) -> str:
    if view.form is Form.REFERENCE:
        return "only the reference"
    return "nothing of it" if view.form is Form.OMITTED else _part(view)


def _part(view: View) -> str:
    if view.form is not Form.PARTIAL:
        return {Form.FULL: "the whole result", Form.REFERENCE: "a reference"}.get(view.form, "left out")
    if view.unit is None or view.start is None or view.stop is None:
        return "a part of it"
    one = view.stop - view.start == 1
    unit = {Unit.ROWS: "row", Unit.BYTES: "byte"}[view.unit] + ("" if one else "s")
    if view.start == 0:
        return f"the first {unit}" if one else f"the first {_number(view.stop)} {unit}"
    return f"{unit} {view.start} to {view.stop}"
