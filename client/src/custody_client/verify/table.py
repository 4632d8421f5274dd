"""The report for people: a table of counts, a line for each thing that is not simply right, and what it comes to."""

from collections.abc import Iterator
from typing import Final

from custody_client.verify.report import Exit, Item, Report, State

_VERDICTS: Final = {
    Exit.OK: "OK: everything in the bundle was checked, and is right.",
    Exit.FAILED: "FAILED: something in the bundle is not what it must be.",
    Exit.NOT_CHECKED: "NOT ALL CHECKED: nothing failed, but not everything could be checked.",
}


def lines(report: Report) -> Iterator[str]:
    """Yield the report's lines."""
    if report.export:
        yield f"bundle {report.export}, scope {report.scope}"
    if report.origin:
        yield f"under a checkpoint of {report.origin} at {report.tree_size} leaves"
    yield f"{'':12}" + "".join(f"{_word(state):>13}" for state in State)
    for kind, counts in report.counts().items():
        yield f"{kind:12}" + "".join(f"{counts[state] or '-':>13}" for state in State)
    yield from (_line(item) for item in report.items if item.state is not State.OK)
    yield _VERDICTS[report.exit]


def _line(item: Item) -> str:
    told = f"{_word(item.state)}: {item.kind} {item.name}"
    if item.problem:
        told += f": {item.file}: {item.problem}"
    if item.reason:
        told += f": {item.reason}"
    if item.not_checked:
        told += f" (not checked: {', '.join(item.not_checked)})"
    return told


def _word(state: State) -> str:
    return state.value.replace("_", " ")
