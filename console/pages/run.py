"""One run: how it stands, its picture, its attempts and what is missing; one exchange; its gaps. No content."""

from datetime import timedelta
from typing import Any, Final

from litestar import Response, Router, get
from litestar.params import FromPath

from console import words
from console.guards import AnyRequest, reads, services, signed
from console.pages import run_facts
from console.pages.sides import said_by
from console.pages.tools.around import tools_of
from console.pages.two_ways import turned
from console.pictures import numbers
from console.rendering import page
from policies.availability import content_role
from policies.reasons import Mark, Reason
from store.errors import Unavailable
from store.ids import ScopeId, caller_id
from store.queue import RunKey
from store.services.paging import Asked
from store.services.run_reads import overdue_of
from store.services.run_views import GapItem, Overdue

# As many attempts as a picture shows one by one.
PAGE: Final = 40
_GAPS: Final = 50
# Of what waits, as much is named; the rest is counted.
_MOST_QUEUED: Final = 20


@get("/runs/{run:str}", guards=[reads()])
async def show_run(request: AnyRequest, run: FromPath[str]) -> Response[Any]:
    """Show one run, and a page of its attempts."""
    who, asked = signed(request), turned(request, PAGE)
    run = caller_id(run)
    found = await services(request).run_maps.of_run(who.reader, run, asked.asked, back=asked.back)
    queued, known = await _waiting(request, who.reader.scope, run, timedelta())
    waiting = run_facts.waiting_by_identity(queued)
    here = {(each.exchange, each.attempt) for each in found.attempts}
    rows = run_facts.rows_of(found.attempts, waiting)
    tools = await tools_of(services(request), who.reader, run)
    return page(
        request,
        "run.html",
        found=found,
        run=found.run,
        said=run_facts.completeness(found),
        picture=run_facts.picture_of(found, waiting),
        legend=run_facts.legend_of(found, rows),
        rows=rows,
        queued=[each for each in queued if (each.exchange, each.attempt) not in here],
        queue_known=known,
        most_queued=_MOST_QUEUED,
        kinds=run_facts.KIND_WORDS,
        reasons=run_facts.reasons_of(found),
        sessions=run_facts.sessions_of(found.accounts, closed=found.run.state == "closed"),
        most_strips=run_facts.MOST_STRIPS,
        strip_legend=numbers.LEGEND,
        links=asked.links(found.ways),
        tools=tools,
        reads_content=content_role(who.role),
    )


@get("/runs/{run:str}/exchanges/{exchange:str}", guards=[reads()])
async def show_exchange(request: AnyRequest, run: FromPath[str], exchange: FromPath[str]) -> Response[Any]:
    """Show the attempts of one exchange."""
    who, asked = signed(request), turned(request, PAGE)
    run, exchange = caller_id(run), caller_id(exchange)
    found = await services(request).run_maps.of_exchange(
        who.reader, run, exchange, asked.asked, back=asked.back
    )
    queued, known = await _waiting(request, who.reader.scope, run, timedelta())
    waiting = run_facts.waiting_by_identity(queued)
    here = {each.attempt for each in found.attempts}
    rows = run_facts.rows_of(found.attempts, waiting)
    return page(
        request,
        "run_exchange.html",
        run=found.run,
        exchange=exchange,
        picture=run_facts.picture_of_exchange(found, waiting),
        legend=run_facts.legend_of_rows(rows),
        rows=rows,
        queued=[each for each in queued if each.exchange == exchange and each.attempt not in here],
        queue_known=known,
        most_queued=_MOST_QUEUED,
        kinds=run_facts.KIND_WORDS,
        reasons=run_facts.reasons_of_rows(rows),
        links=asked.links(found.ways),
    )


@get("/runs/{run:str}/gaps", guards=[reads()])
async def show_gaps(request: AnyRequest, run: FromPath[str]) -> Response[Any]:
    """Show what is missing of a run as it was recorded, and what waits longer than it should."""
    who, asked = signed(request), turned(request, _GAPS)
    run, opened = caller_id(run), services(request)
    late: list[Overdue] = []
    known = True
    if asked.asked.cursor is None:
        late, known = await _waiting(request, who.reader.scope, run, opened.settings.overdue_after)
    how = Asked("oldest", _GAPS, asked.asked.cursor)
    found = await opened.run_reads.gaps(who.reader, run, how, late[:_MOST_QUEUED])
    return page(
        request,
        "run_gaps.html",
        run_id=run,
        more_late=len(late[_MOST_QUEUED:]),
        gaps=[(gap, _words(gap), _numbers(gap), _teller(gap)) for gap in found.items],
        queue_known=known,
        most_queued=_MOST_QUEUED,
        kinds=run_facts.KIND_WORDS,
        links={
            "previous": asked.link() if asked.asked.cursor else None,
            "next": None if found.page.next is None else asked.link(cursor=found.page.next),
        },
    )


router = Router("/", route_handlers=[show_run, show_exchange, show_gaps])


async def _waiting(
    request: AnyRequest, scope: ScopeId, run: str, after: timedelta
) -> tuple[list[Overdue], bool]:
    """Return what waits to be written, and whether that is known: the queue may not answer."""
    try:
        return await overdue_of(services(request).queue, RunKey(scope, run), after), True
    except Unavailable:
        return [], False


def _words(gap: GapItem) -> words.Words:
    return words.of_mark(Mark(gap.reason)) if gap.provisional else words.of(Reason(gap.reason))


def _teller(gap: GapItem) -> str:
    """Say who told of a gap; of one that only waits, the queue does."""
    return "the queue" if gap.said_by is None else said_by(gap)


def _numbers(gap: GapItem) -> str:
    """Write the numbers of a gap, and how many more had no room."""
    if gap.sequence is not None:
        return str(gap.sequence)
    ranges = [(first, last + 1) for first, last in gap.ranges or []]
    return numbers.said(ranges) if ranges else ""
