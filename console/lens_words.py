"""What a toolchain told, in words: which row of the lens applies and what to look at first, stages, views and checks.

What nobody told is said to be unknown, never that it did not happen. Parts of a result are counted from 0, and their
second number is the first one that is not held, as facts have it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policies.chain import Row
from policies.facts import (
    Change,
    Check,
    Deviation,
    Form,
    ItemKind,
    ItemState,
    Link,
    Stage,
    Status,
    Unit,
    Verdict,
)
from store.services.lens_views import ActionView, DifferenceItem, OccurrenceItem, RequestItem, ViewItem

NOT_RECORDED: Final = "not recorded"
# Of the requests that the one sentence about an action names.
_MOST_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class RowWords:
    """What a row is called, what it says of an action and of one request, where to look first, and how it looks."""

    name: str
    of_action: str
    of_request: str
    advice: str
    level: str


@dataclass(frozen=True, slots=True)
class Said:
    """What a word of a check is called, what it means, and how it looks."""

    name: str
    sentence: str
    level: str


_OBSERVATION: Final = "Look first at the observation, before the model is blamed: "

ROWS: Final[Mapping[Row, RowWords]] = MappingProxyType(
    {
        Row.REFUSED_BEFORE_CALL: RowWords(
            "Refused before the call",
            "It was refused before the call, and not executed.",
            "What this request was given is the refusal: the action was not executed.",
            "Look first at its arguments, at permissions, and at what admits actions.",
            "warn",
        ),
        Row.EXECUTION_FAILED: RowWords(
            "Execution failed",
            "It was executed, and the last execution failed, timed out or was cancelled.",
            "What this request was given is of an execution that failed.",
            "Look first at the tool, and at what it needs.",
            "bad",
        ),
        Row.PROJECTION_FAILED: RowWords(
            "Projection failed",
            "It was executed, and no view could be made of its result.",
            "No view could be made of the result that this request should have held.",
            "Look first at the after-hooks, and at the structure of the result.",
            "bad",
        ),
        Row.REFERENCE_ONLY: RowWords(
            "Reference only",
            "Requests held a reference to its result, and none of them anything of the result itself.",
            "This request holds a reference to the result only.",
            "Look first at how the context is put together.",
            "warn",
        ),
        Row.LINEAGE_MISSING: RowWords(
            "Lineage missing",
            "Something of its call stood in requests, and nothing of its result: bound to nothing, or left out.",
            "Something of its call stands in this request, and nothing of the result: bound to nothing, or left out.",
            _OBSERVATION + "what is bound to nothing may be anything, and what was left out was never given.",
            "warn",
        ),
        Row.CUT: RowWords(
            "Cut",
            "A request held a part of its result, and none of them the whole.",
            "This request holds a part of the result.",
            _OBSERVATION + "at what the view left out.",
            "warn",
        ),
        Row.CARRIED: RowWords(
            "Carried",
            "A request held its whole result.",
            "This request holds the whole result.",
            "The chain is whole up to here: look at the request, and at what the model answered.",
            "good",
        ),
        Row.NOT_RECORDED: RowWords(
            "Not recorded",
            "Nobody told of a request that held anything of it. That does not say that none did.",
            "Nobody told what this request held of it. That does not say that it held nothing.",
            "Look first at whether the runtime reports what its requests carry.",
            "off",
        ),
    }
)
STAGES: Final[Mapping[Stage, str]] = MappingProxyType({stage: stage.value.capitalize() for stage in Stage})
STATUSES: Final[Mapping[Status, str]] = MappingProxyType(
    {status: status.value.replace("_", " ") for status in Status}
)
# What broke looks broken, whatever else is said of it.
STATUS_LEVELS: Final[Mapping[Status, str]] = MappingProxyType(
    {
        Status.REFUSED: "warn",
        Status.FAILED: "bad",
        Status.TIMED_OUT: "bad",
        Status.CANCELLED: "bad",
        Status.SUCCEEDED: "good",
    }
)
FORMS: Final[Mapping[Form, str]] = MappingProxyType(
    {
        Form.FULL: "the whole result",
        Form.PARTIAL: "a part of it",
        Form.REFERENCE: "only the reference",
        Form.OMITTED: "left out",
    }
)
LINKS: Final[Mapping[Link, str]] = MappingProxyType(
    {
        Link.BOUND: "bound to the result",
        Link.UNKNOWN: "bound to nothing",
        Link.REPLACED: "of a result that was replaced",
        Link.OTHER_RUN: "of another run",
        Link.DUPLICATE: "of an identity that stands there twice",
    }
)
CHECKS: Final[Mapping[Check, str]] = MappingProxyType(
    {Check.EARLY: "after extensions", Check.FINAL: "before the request leaves"}
)
VERDICTS: Final[Mapping[Verdict, Said]] = MappingProxyType(
    {
        Verdict.MATCH: Said("Match", "The tools are those that were admitted.", "good"),
        Verdict.MISMATCH: Said(
            "Mismatch", "The tools are not those that were admitted: the request was refused.", "bad"
        ),
        Verdict.CAPACITY: Said(
            "No room",
            "There was too little room for tools that are required: the request was refused.",
            "warn",
        ),
        Verdict.NOT_CHECKED: Said(
            "Not checked", "This check was not made, or failed itself: the request was refused.", "bad"
        ),
    }
)
ITEM_STATES: Final[Mapping[ItemState, Said]] = MappingProxyType(
    {
        ItemState.MET: Said("Met", "It is there, and of this task.", "good"),
        ItemState.PARTIAL: Said("Partial", "Some of it is there.", "warn"),
        ItemState.MISSING: Said("Missing", "It was not found, or not as one of this task.", "warn"),
        ItemState.FAILED: Said("Failed", "It was looked at, and does not hold.", "bad"),
    }
)
ITEM_KINDS: Final[Mapping[ItemKind, str]] = MappingProxyType(
    {ItemKind.FILE: "a file", ItemKind.PREDICATE: "a condition", ItemKind.COMMAND: "a command"}
)
DEVIATIONS: Final[Mapping[Deviation, str]] = MappingProxyType(
    {
        Deviation.SKIPPED: "an offset was skipped",
        Deviation.REPEATED: "an offset was read again",
        Deviation.SELF_COMPUTED: "an offset was not the one that the tool returned",
        Deviation.CLAMPED: "less was given than was asked for",
        Deviation.STARTED_IN_THE_MIDDLE: "reading began in the middle",
        Deviation.CHANGED: "the file changed meanwhile",
        Deviation.SHRUNK: "the file became shorter meanwhile",
    }
)
CHANGES: Final[Mapping[Change, str]] = MappingProxyType(
    {
        Change.ADDED: "added",
        Change.REMOVED: "removed",
        Change.RENAMED: "renamed",
        Change.REORDERED: "at another place",
        Change.DESCRIPTION: "another description",
        Change.SCHEMA: "another schema",
    }
)
_UNITS: Final[Mapping[Unit, tuple[str, str]]] = MappingProxyType(
    {Unit.ROWS: ("row", "rows"), Unit.BYTES: ("byte", "bytes")}
)
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# What a receipt holds where there is no result.
_INSTEAD: Final[Mapping[Row, str]] = MappingProxyType(
    {Row.REFUSED_BEFORE_CALL: "the refusal", Row.EXECUTION_FAILED: "the failure"}
)
_FIRST: Final = "the first "
# What of a request counts where it held several objects.
_BEST: Final = (Form.FULL, Form.PARTIAL, Form.REFERENCE, Form.OMITTED)


def part_of(view: ViewItem) -> str:
    """Say what a view holds: the whole result, or which part of how much, as far as it was told."""
    if view.form is not Form.PARTIAL:
        return FORMS[view.form]
    if view.unit is None or view.start is None or view.stop is None:
        return "a part, and nobody told which"
    of = "" if view.total is None else f" of {view.total:,}"
    return f"{_UNITS[view.unit][1]} {view.start:,} to {view.stop:,}{of}"


def held_of(view: ViewItem, row: Row) -> str:
    """Say what a view holds of an action of this row: of one that gave no result, it is of what came in its place."""
    instead = _INSTEAD.get(row)
    if instead is None or view.form not in {Form.FULL, Form.PARTIAL}:
        return part_of(view)
    return instead if view.form is Form.FULL else f"{part_of(view)}, of {instead}"


def share_of(view: ViewItem) -> tuple[float, float] | None:
    """Return from where to where a view holds of the whole, from 0 to 1; None where that is not known, or nothing."""
    if view.form is Form.FULL:
        return 0.0, 1.0
    if view.form is not Form.PARTIAL or view.start is None or view.stop is None or not view.total:
        return None
    return min(view.start / view.total, 1.0), min(max(view.stop, view.start) / view.total, 1.0)


def source_of(view: ViewItem) -> str:
    """Say whether the source of a view was read whole."""
    if view.source_whole is None:
        return NOT_RECORDED
    return "read whole" if view.source_whole else "not read whole"


def outcome_of(stages: Mapping[Stage, Status]) -> tuple[str, str]:
    """Say how executing it ended, and how that looks; of no other stage, unless that kept it from being executed."""
    executed = stages.get(Stage.EXECUTION)
    if executed is Status.STARTED:
        return "started, end not recorded", ""
    if executed is not None:
        return STATUSES[executed], STATUS_LEVELS.get(executed, "")
    if stages.get(Stage.REPLAY) is Status.REPLAYED:
        return "replayed, not executed again", ""
    for stage in (Stage.ADMISSION, Stage.RESERVATION, Stage.REPLAY):
        if stages.get(stage) in {Status.REFUSED, Status.FAILED}:
            return f"{stage.value} {STATUSES[stages[stage]]}", "warn"
    return NOT_RECORDED, ""


def executed(times: int | None) -> str:
    """Say how often it was executed."""
    return NOT_RECORDED if times is None else str(times)


def change_of(found: DifferenceItem) -> str:
    """Say how a tool differs; its names are said beside it."""
    return CHANGES[found.change]


def carried_by(request: RequestItem) -> str:
    """Say what one request held of an action's result."""
    best = best_of(request.occurrences)
    return "something that is bound to nothing" if best is None else held_of(best.view, request.row)


def best_of(occurrences: Iterable[OccurrenceItem]) -> OccurrenceItem | None:
    """Return what says most of the result; None where nothing is bound to it."""
    bound = [each for each in occurrences if each.link is Link.BOUND]
    return min(bound, key=lambda each: _BEST.index(each.view.form), default=None)


def answer(action: ActionView) -> str:
    """Say in one sentence how an action was executed, and which requests were given what of its result."""
    view = last_view(action)
    said = [_dispatched(action), _projected(action, view)]
    if action.requests:
        said.append(_given(action.requests, view))
    whole = _source_whole(action, view)
    if whole is not None:
        said.append(f"the source was {'' if whole else 'not '}read whole")
    times = (
        f"executions {NOT_RECORDED}" if action.executions is None else _count(action.executions, "execution")
    )
    said.append(f"{_count(action.occurrences, 'occurrence')}, {times}")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def last_view(action: ActionView) -> ViewItem | None:
    """Return the view that was made last; None where none was told."""
    return next((each.view for each in reversed(action.steps) if each.view is not None), None)


def _dispatched(action: ActionView) -> str:
    outcome, _ = outcome_of(action.stages)
    if not action.executions:
        return f"no external dispatch, {outcome}" if action.executions == 0 else f"execution {outcome}"
    return f"{_count(action.executions, 'external dispatch', 'external dispatches')}, {outcome}"


def _projected(action: ActionView, view: ViewItem | None) -> str:
    if action.stages.get(Stage.PROJECTION) is Status.FAILED:
        return "no view could be made of the result"
    return "no view was recorded" if view is None else f"the view is {_spoken(view, action.row)}"


def _given(requests: Sequence[RequestItem], view: ViewItem | None) -> str:
    named = [f"request {each.request} {_carries(each, view)}" for each in requests[:_MOST_NAMED]]
    rest = len(requests) - len(named)
    named += [f"{_count(rest, 'more request')} below"] if rest else []
    return ", ".join(named)


def _carries(request: RequestItem, view: ViewItem | None) -> str:
    best = best_of(request.occurrences)
    if best is None:
        return "holds something of its call that is bound to nothing"
    spoken = _spoken(best.view, request.row)
    if best.view.form is Form.OMITTED:
        return "leaves it out"
    if best.view == view and spoken.startswith(_FIRST):
        return f"carries {'that' if best.view.stop == 1 else 'those'} {spoken.removeprefix(_FIRST)}"
    return f"carries {spoken}"


def _spoken(view: ViewItem, row: Row) -> str:
    """Say a part as people do where it is a beginning: the first five rows."""
    if (
        view.form is not Form.PARTIAL
        or view.start != 0
        or not view.stop
        or view.unit is None
        or row in _INSTEAD
    ):
        return held_of(view, row)
    one, many = _UNITS[view.unit]
    return f"{_FIRST}{one}" if view.stop == 1 else f"{_FIRST}{_number(view.stop)} {many}"


def _source_whole(action: ActionView, view: ViewItem | None) -> bool | None:
    views = [
        each.view for request in action.requests for each in request.occurrences if each.link is Link.BOUND
    ]
    said = [each.source_whole for each in ([] if view is None else [view]) + views]
    return next((each for each in said if each is not None), None)


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _count(count: int, one: str, many: str = "") -> str:
    return f"{_number(count)} {one if count == 1 else many or one + 's'}"
