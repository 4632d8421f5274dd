"""Runs: where everybody begins; the list, narrowed by its address, and the field that leads to one by any id."""

from typing import Any, Final

from litestar import Response, Router, get

from console import words
from console.guards import SCOPE_PARAMETER, AnyRequest, reads, services, signed
from console.pages.two_ways import turned
from console.pictures.bars import bar, shares
from console.rendering import fragment, page, redirect
from console.streamed import MOST_ROWS
from policies.kinds import Mode, RunState
from policies.reasons import OUTCOMES, Reason
from store.errors import Malformed, NotFound
from store.ids import caller_id
from store.services import questions
from store.services.paging import Asked, Reader
from store.services.run_lists import OUTCOME_WORDS, ListedRun, RunFilters
from store.wiring import Services

_LIMIT: Final = 50
# The most frequent ones of each run in the list; its own page has all of them.
_REASONS: Final = 3
_REF_BYTES: Final = 200
_FIELDS: Final = ("mode", "state", "label", "outcome", "reason")
_OUTCOMES: Final = dict(
    zip(
        OUTCOME_WORDS,
        ("something stored", "something missing", "erased", "expired", "nothing told"),
        strict=True,
    )
)


@get("/", guards=[reads()])
async def home() -> Response[bytes]:
    """Lead to the runs."""
    return redirect("/runs")


@get("/runs", guards=[reads()])
async def list_runs(request: AnyRequest) -> Response[Any]:
    """One page by the time of declaration, newest first."""
    asked = turned(request, _LIMIT, "from", "to", *_FIELDS)
    filters = RunFilters(**{name: asked.said.get(name) for name in _FIELDS})
    found = await services(request).run_lists.page(
        signed(request).reader, filters, asked.asked, back=asked.back
    )
    return page(
        request,
        "runs.html",
        rows=[_row(run) for run in found.items],
        links=asked.links(found.ways),
        examined=found.examined,
        asked=asked,
        most_rows=MOST_ROWS,
        choices={
            "mode": {mode.value: mode.value for mode in Mode},
            "state": {state.value: state.value for state in RunState},
            "outcome": _OUTCOMES,
            "reason": {reason.value: words.of(reason).name for reason in sorted(OUTCOMES)},
        },
    )


@get("/runs/find", guards=[reads()])
async def find(request: AnyRequest) -> Response[Any]:
    """Lead to what an id names: a run, the attempts that carry a reference, or a part."""
    questions.only(request.url.query, {"q", "cursor", SCOPE_PARAMETER})
    text = request.query_params.get("q", "").strip()
    if not text:
        return redirect("/runs")
    who, opened = signed(request).reader, services(request)
    if await _is_run(opened, who, text):
        return redirect(f"/runs/{text}")
    if len(text.encode()) <= _REF_BYTES:
        cursor = request.query_params.get("cursor") or None
        found = await opened.run_reads.attempts(who, text, Asked("oldest", _LIMIT, cursor))
        if len(found.items) == 1 and found.page.next is None and cursor is None:
            one = found.items[0]
            return redirect(f"/runs/{one.run_id}/exchanges/{one.exchange_id}/attempts/{one.attempt_id}")
        if found.items:
            return page(request, "found.html", text=text, attempts=found.items, info=found.page, near=[])
    if await _is_part(opened, who, text):
        return redirect(f"/parts/{text.lower()}")
    near = await _beginning_with(opened, who, text)
    return page(request, "found.html", status=404, text=text, attempts=[], info=None, near=near)


@get("/runs/suggest", guards=[reads()])
async def suggest(request: AnyRequest) -> Response[Any]:
    """A few runs that begin with what was typed so far, for the search field."""
    questions.only(request.url.query, {"q", SCOPE_PARAMETER})
    near = await _beginning_with(services(request), signed(request).reader, request.query_params.get("q", ""))
    return fragment(request, "suggestions.html", near=near)


router = Router("/", route_handlers=[home, list_runs, find, suggest])


def _row(run: ListedRun) -> dict[str, Any]:
    most = sorted(run.by_reason.items(), key=lambda each: (-each[1], each[0]))
    made_of = shares(run.stored, run.missing, erased=run.erased, expired=run.expired)
    return {
        "run": run,
        "bar": bar(made_of),
        "shares": made_of,
        "reasons": [(words.of(Reason(reason)).name, count) for reason, count in most[:_REASONS]],
        "more_reasons": len(most[_REASONS:]),
    }


async def _is_run(opened: Services, who: Reader, text: str) -> bool:
    try:
        return text in await opened.run_lists.beginning_with(who, caller_id(text))
    except Malformed:
        return False


async def _is_part(opened: Services, who: Reader, text: str) -> bool:
    try:
        await opened.readback.part(who, questions.evidence_of(text))
    except NotFound:
        return False
    return True


async def _beginning_with(opened: Services, who: Reader, text: str) -> list[str]:
    try:
        return await opened.run_lists.beginning_with(who, caller_id(text.strip()))
    except Malformed:
        return []
