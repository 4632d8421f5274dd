"""One action's chain as its picture is drawn from: boxes for executions, views and requests, and what joins them."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from markupsafe import Markup

from console import lens_words
from console.lens_words import RowWords
from console.pictures import chain
from console.pictures.chain import Column, Edge, Node
from policies.chain import Row
from policies.facts import Form, Stage, Status
from store.services.lens_views import ActionView, OccurrenceItem, RequestItem, StageItem, ViewItem

# Of each, as many as a picture shows; the last ones count.
_MOST: Final = 4
_UNTOLD: Final = "is-untold"
_LOOKS: Final = {"good": "is-good", "warn": "is-warn", "bad": "is-bad"}
_LINES: Final = {
    Form.FULL: "is-held",
    Form.PARTIAL: "is-held",
    Form.REFERENCE: "is-reference",
    Form.OMITTED: "is-left-out",
}


class Drawn(Protocol):
    """A request as its page has it."""

    @property
    def request(self) -> RequestItem:
        """Return what was told of it."""

    @property
    def said(self) -> RowWords:
        """Return the words of its row."""

    @property
    def carried(self) -> str:
        """Return what it held, in words."""

    @property
    def link(self) -> str:
        """Return where it can be looked at."""


def picture_of(action: ActionView, requests: Sequence[Drawn], *, more: int) -> Markup:
    """Draw an action with these of its requests; `more` of them are on other pages."""
    executions, projections = _executions(action), _projections(action)
    columns = (
        Column("Executions", executions[-_MOST:] or [_not_executed(action)], _rest(len(executions))),
        Column("Views", projections[-_MOST:] or [_no_view(action)], _rest(len(projections))),
        Column(
            "Requests",
            [_request(each) for each in requests] or [_no_request()],
            f"{more:,} more on other pages" if more else "",
        ),
    )
    edges = [*_made(action), *_given(action, requests)]
    return chain.drawn(columns, edges, lens_words.answer(action))


def _rest(count: int) -> str:
    return f"{count - _MOST:,} earlier ones are told below" if count > _MOST else ""


def _executions(action: ActionView) -> list[Node]:
    """Return a box for each execution, with the last that was told of it; a replay is none, and has its own."""
    last: dict[int, StageItem] = {}
    replays = 0
    for each in action.steps:
        if each.stage is Stage.EXECUTION:
            last[each.execution or 1] = each
        replays += each.status is Status.REPLAYED
    nodes = [_execution(number, each) for number, each in sorted(last.items())]
    if replays:
        line = "from its receipt, not executed again"
        nodes.append(Node("replay", f"Replayed{f' {replays:,} times' if replays > 1 else ''}", line))
    return nodes


def _execution(number: int, step: StageItem) -> Node:
    started = step.status is Status.STARTED
    line = "started, end not recorded" if started else lens_words.STATUSES[step.status]
    if step.code is not None:
        line = f"{line}: {step.code}"
    if step.duration_ms is not None:
        line = f"{line}, {step.duration_ms:,} ms"
    look = _UNTOLD if started else _LOOKS.get(lens_words.STATUS_LEVELS.get(step.status, ""), "")
    return Node(f"execution-{number}", f"Execution {number}", line, look)


def _not_executed(action: ActionView) -> Node:
    outcome, _ = lens_words.outcome_of(action.stages)
    if action.executions == 0:
        return Node("none", "Not executed", outcome, "is-warn")
    return Node("none", "Not recorded", "which is not that it did not happen", _UNTOLD)


def _projections(action: ActionView) -> list[Node]:
    """Return a box for each view, as often as it was made alike once, and one for a projection that failed."""
    nodes: dict[str, Node] = {}
    for each in action.steps:
        if each.view is not None:
            key = _view_key(each.result_version, each.view)
            nodes[key] = _view(key, each.result_version, each.view, action.row)
        elif each.stage is Stage.PROJECTION and each.status is Status.FAILED:
            nodes["failed"] = Node("failed", "Projection failed", each.code or "no code recorded", "is-bad")
    return list(nodes.values())


def _view(key: str, version: int | None, view: ViewItem, row: Row) -> Node:
    part = lens_words.held_of(view, row)
    line = f"source {lens_words.source_of(view)}"
    if version is not None:
        line = f"version {version}, {line}"
    return Node(key, f"{part[:1].upper()}{part[1:]}", line, held=lens_words.share_of(view))


def _no_view(action: ActionView) -> Node:
    if action.executions == 0:
        return Node("no-view", "No view", "there was no result", _UNTOLD)
    return Node("no-view", "Not recorded", "nobody told of a view", _UNTOLD)


def _request(each: Drawn) -> Node:
    best = lens_words.best_of(each.request.occurrences)
    where = each.request.exchange_id + (f" / {each.request.attempt_id}" if each.request.attempt_id else "")
    line = f"{each.carried[:1].upper()}{each.carried[1:]}"
    return Node(
        _request_key(each.request),
        f"Request {each.request.request}: {where}",
        line,
        _UNTOLD if best is None else _LOOKS.get(each.said.level, ""),
        each.link,
        f"Request {each.request.request}, {where}: {each.carried}. {each.said.name}.",
        None if best is None else lens_words.share_of(best.view),
    )


def _no_request() -> Node:
    return Node("no-request", "Not recorded", "nobody told of a request that held it", _UNTOLD)


def _made(action: ActionView) -> Iterable[Edge]:
    """Join views with their execution; without its number, with the one that gave a result where only one did."""
    gave = {
        each.execution or 1
        for each in action.steps
        if each.stage is Stage.EXECUTION and each.status is Status.SUCCEEDED
    }
    found = {}
    for each in action.steps:
        failed = each.stage is Stage.PROJECTION and each.status is Status.FAILED
        if each.view is None and not failed:
            continue
        of = each.execution or (next(iter(gave)) if len(gave) == 1 else None)
        if of is not None:
            key = "failed" if each.view is None else _view_key(each.result_version, each.view)
            found[f"execution-{of}", key] = Edge(f"execution-{of}", key, "is-held")
    return found.values()


def _given(action: ActionView, requests: Sequence[Drawn]) -> Iterable[Edge]:
    """Join requests with the view that they were given, or that what they were given is of."""
    for each in requests:
        best = lens_words.best_of(each.request.occurrences)
        key = None if best is None else _origin(action, best)
        if best is not None and key is not None:
            yield Edge(key, _request_key(each.request), _LINES[best.view.form])


def _origin(action: ActionView, held: OccurrenceItem) -> str | None:
    """Return the view that is the one held; else the last of the same version; None where nobody told of such a one."""
    of_version = [
        each
        for each in action.views
        if held.result_version is None or each.result_version in {None, held.result_version}
    ]
    same = [each for each in of_version if each.view == held.view]
    found = next(reversed(same or of_version), None)
    return None if found is None else _view_key(found.result_version, found.view)


def _view_key(version: int | None, view: ViewItem) -> str:
    return f"view-{version}-{view.form}-{view.unit}-{view.start}-{view.stop}-{view.total}-{view.source_whole}"


def _request_key(request: RequestItem) -> str:
    return f"request-{request.request}/{request.exchange_id}/{request.attempt_id}"
