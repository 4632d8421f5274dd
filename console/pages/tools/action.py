"""One action: its chain as a picture and in a sentence, its stages, the views of its result, and who was given them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from litestar import Response, get
from litestar.params import FromPath

from console import lens_words
from console.guards import SCOPE_PARAMETER, AnyRequest, reads, services, signed
from console.lens_words import RowWords
from console.pages.tools.around import closed, never_told, pages_of
from console.pages.tools.drawing import picture_of
from console.rendering import page
from store.errors import Malformed, Refused
from store.ids import caller_id
from store.services import questions
from store.services.lens_views import ActionView, RequestItem, StageItem

# As many as a picture shows, and so that a page of the longest names stays small.
REQUESTS: Final = 12
STAGES: Final = 24
_MOST_OBJECTS: Final = 5
# A request as an address names it: its number, its exchange, and its attempt where one was told.
_PLACE: Final = re.compile(r"([0-9]{1,16})/([^/]{1,128})/([^/]{0,128})")
_FIRST: Final = (0, "", "")

_Place = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """One object that stood in a request."""

    position: int
    link: str
    form: str
    version: int | None


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request: which row applies to it, what it held (the first few objects), and where to look at it."""

    request: RequestItem
    said: RowWords
    carried: str
    objects: Sequence[ObjectRow]
    more: int
    link: str


@dataclass(frozen=True, slots=True)
class ViewRow:
    """One view of the result."""

    version: int | None
    part: str
    source: str


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage, as it was told."""

    item: StageItem
    name: str
    status: str
    level: str
    part: str


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where its requests and its stages begin on this page."""

    path: str
    after: _Place
    stage: str

    def link(self, part: str, *, after: _Place, stage: str) -> str:
        """Return the address of another page of requests or stages, at that part of the page."""
        place = "" if after == _FIRST else f"{after[0]}/{after[1]}/{after[2]}"
        named = {name: text for name, text in (("after", place), ("stages", stage)) if text}
        return f"{self.path}?{urlencode(named)}#{part}" if named else f"{self.path}#{part}"


@get("/runs/{run:str}/actions/{action:str}", guards=[reads()])
async def show_action(request: AnyRequest, run: FromPath[str], action: FromPath[str]) -> Response[Any]:
    """Show one action; of one of which nothing was recorded, that this does not say that it never was."""
    asked, run, action = _asked(request), caller_id(run), caller_id(action)
    lens, reader = services(request).lens, signed(request).reader
    try:
        found = await lens.action(reader, run, action)
        if found is None:
            return never_told(request, run, action)
        counts = await lens.counts(reader, run, action=action)
        requests = [each for each in found.requests if _place(each) > asked.after][: REQUESTS + 1]
        links = await pages_of(
            request, run, ((each.exchange_id, each.attempt_id) for each in requests[:REQUESTS])
        )
    except Refused as refused:
        return closed(request, run, refused)
    rows = [_request_row(each, links.get((each.exchange_id, each.attempt_id), "")) for each in requests]
    outcome, level = lens_words.outcome_of(found.stages)
    stages, stage_links = _stages(found, asked)
    return page(
        request,
        "run_action.html",
        run=run,
        action=found,
        said=lens_words.ROWS[found.row],
        answer=lens_words.answer(found),
        executed=lens_words.executed(found.executions),
        outcome=(outcome, level),
        picture=picture_of(found, rows[:REQUESTS], more=len(found.requests) - len(rows[:REQUESTS])),
        views=_views(found),
        requests=rows[:REQUESTS],
        request_links=_request_links(requests, asked),
        stages=stages,
        stage_links=stage_links,
        coverage=counts.coverage,
        delivery=counts.delivery,
        full=counts.full,
    )


def _asked(request: AnyRequest) -> _Asked:
    questions.only(request.url.query, {"after", "stages", SCOPE_PARAMETER})
    after, stage = (request.query_params.get(name, "") for name in ("after", "stages"))
    place = _PLACE.fullmatch(after) if after else None
    if after and place is None:
        raise Malformed(detail="after names a request: its number, its exchange and its attempt")
    at = _FIRST if place is None else (int(place[1]), place[2], place[3])
    return _Asked(request.url.path, at, caller_id(stage) if stage else "")


def _place(request: RequestItem) -> _Place:
    """Return where a request stands among those of an action, as they are ordered."""
    return request.request, request.exchange_id, request.attempt_id or ""


def _request_row(request: RequestItem, link: str) -> RequestRow:
    objects = [
        ObjectRow(
            each.position,
            lens_words.LINKS[each.link],
            lens_words.held_of(each.view, request.row),
            each.result_version,
        )
        for each in request.occurrences[:_MOST_OBJECTS]
    ]
    return RequestRow(
        request,
        lens_words.ROWS[request.row],
        lens_words.carried_by(request),
        objects,
        len(request.occurrences) - len(objects),
        link,
    )


def _request_links(found: Sequence[RequestItem], asked: _Asked) -> dict[str, str | None]:
    more = len(found) > REQUESTS
    return {
        "first": None if asked.after == _FIRST else asked.link("requests", after=_FIRST, stage=asked.stage),
        "next": asked.link("requests", after=_place(found[REQUESTS - 1]), stage=asked.stage)
        if more
        else None,
    }


def _views(found: ActionView) -> list[ViewRow]:
    return [
        ViewRow(
            each.result_version,
            lens_words.held_of(each.view, found.row),
            lens_words.source_of(each.view),
        )
        for each in found.views[:STAGES]
    ]


def _stages(found: ActionView, asked: _Asked) -> tuple[list[StageRow], dict[str, str | None]]:
    """Return a page of the stages in the order told: those from the one that the address names."""
    at = next((place for place, each in enumerate(found.steps) if each.fact_id == asked.stage), 0)
    following = found.steps[at + STAGES : at + STAGES + 1]
    links = {
        "first": asked.link("stages", after=asked.after, stage="") if at else None,
        "next": asked.link("stages", after=asked.after, stage=following[0].fact_id) if following else None,
    }
    return [_stage_row(each) for each in found.steps[at : at + STAGES]], links


def _stage_row(item: StageItem) -> StageRow:
    return StageRow(
        item,
        lens_words.STAGES[item.stage],
        lens_words.STATUSES[item.status],
        lens_words.STATUS_LEVELS.get(item.status, ""),
        "" if item.view is None else lens_words.part_of(item.view),
    )
