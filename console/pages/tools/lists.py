"""Lists of what was told of a run's tools: actions, checks of tools, what was read of files, what is there."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from litestar import Response, get
from litestar.params import FromPath
from markupsafe import Markup

from console import lens_words
from console.guards import AnyRequest, reads, services, signed
from console.lens_words import RowWords, Said
from console.pages.tools.around import closed, known, onward, pages_of
from console.pages.two_ways import Turned, turned
from console.pictures import ranges
from console.rendering import page
from policies.chain import Row
from store.errors import Refused
from store.ids import caller_id
from store.services.lens import Lens
from store.services.lens_views import ActionItem, CoverageItem, DeliveryItem, SurfaceItem, Told
from store.services.paging import Asked, Reader

# So that a page of the longest names stays small.
ACTIONS: Final = 40
SURFACE: Final = 20
COVERAGE: Final = 30
DELIVERY: Final = 40

Item = TypeVar("Item")
Ask = Callable[[Lens, Reader, Asked], Awaitable[Told[Item]]]
Rows = Callable[[Sequence[Item]], Awaitable[list[Any]]]


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One action in the list."""

    item: ActionItem
    executed: str
    outcome: str
    level: str
    said: RowWords


@dataclass(frozen=True, slots=True)
class SurfaceRow:
    """One check of tools; `link` leads to its request, empty where the store knows none."""

    item: SurfaceItem
    check: str
    said: Said
    changes: Sequence[str]
    link: str


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """What was read of a file by then, drawn and in words."""

    item: CoverageItem
    picture: Markup
    deviations: Sequence[str]


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One thing that was promised."""

    item: DeliveryItem
    kind: str
    said: Said


@get("/runs/{run:str}/actions", guards=[reads()])
async def list_actions(request: AnyRequest, run: FromPath[str]) -> Response[Any]:
    """Show a page of a run's actions, in the order in which they were first told of."""
    asked, run = turned(request, ACTIONS), caller_id(run)

    async def ask(lens: Lens, reader: Reader, how: Asked) -> Told[ActionItem]:
        return await lens.actions(reader, run, how)

    async def rows(items: Sequence[ActionItem]) -> list[ActionRow]:
        return [_action_row(item) for item in items]

    return await _listed(request, "run_actions.html", run, asked, ask, rows)


@get("/runs/{run:str}/surface", guards=[reads()])
async def list_surface(request: AnyRequest, run: FromPath[str]) -> Response[Any]:
    """Show a page of checks whether what requests offered is what was admitted."""
    asked, run = turned(request, SURFACE, "exchange"), caller_id(run)
    exchange = _named(asked, "exchange")

    async def ask(lens: Lens, reader: Reader, how: Asked) -> Told[SurfaceItem]:
        return await lens.surface(reader, run, how, exchange=exchange)

    async def rows(items: Sequence[SurfaceItem]) -> list[SurfaceRow]:
        links = await pages_of(request, run, ((each.exchange_id, each.attempt_id) for each in items))
        return [_surface_row(each, links.get((each.exchange_id, each.attempt_id), "")) for each in items]

    return await _listed(request, "run_surface.html", run, asked, ask, rows)


@get("/runs/{run:str}/coverage", guards=[reads()])
async def list_coverage(request: AnyRequest, run: FromPath[str]) -> Response[Any]:
    """Show a page of how much was read of files."""
    asked, run = turned(request, COVERAGE, "action"), caller_id(run)
    action = _named(asked, "action")

    async def ask(lens: Lens, reader: Reader, how: Asked) -> Told[CoverageItem]:
        return await lens.coverage(reader, run, how, action=action)

    async def rows(items: Sequence[CoverageItem]) -> list[CoverageRow]:
        return [_coverage_row(item) for item in items]

    return await _listed(request, "run_coverage.html", run, asked, ask, rows)


@get("/runs/{run:str}/delivery", guards=[reads()])
async def list_delivery(request: AnyRequest, run: FromPath[str]) -> Response[Any]:
    """Show a page of what was promised, and whether it is there."""
    asked, run = turned(request, DELIVERY, "action"), caller_id(run)
    action = _named(asked, "action")

    async def ask(lens: Lens, reader: Reader, how: Asked) -> Told[DeliveryItem]:
        return await lens.delivery(reader, run, how, action=action)

    async def rows(items: Sequence[DeliveryItem]) -> list[DeliveryRow]:
        return [_delivery_row(item) for item in items]

    return await _listed(request, "run_delivery.html", run, asked, ask, rows)


HANDLERS: Final = (list_actions, list_surface, list_coverage, list_delivery)


async def _listed(
    request: AnyRequest, template: str, run: str, asked: Turned, ask: Ask[Item], rows_of: Rows[Item]
) -> Response[Any]:
    lens, reader = services(request).lens, signed(request).reader
    try:
        told = await ask(lens, reader, Asked("oldest", asked.asked.limit, asked.asked.cursor))
        counts = await lens.counts(reader, run)
        rows = await rows_of(told.page.items)
    except Refused as refused:
        return closed(request, run, refused)
    return page(
        request,
        template,
        run=run,
        narrowed=next(iter(asked.said.values()), ""),
        links=onward(asked, told.page.page),
        legend=_legend(each for each in told.page.items if isinstance(each, ActionItem)),
        observed_at=told.page.page.observed_at,
        **known(rows, counts),
    )


def _legend(items: Iterable[ActionItem]) -> list[tuple[Row, RowWords]]:
    """Return the rows that stand on a page, each once, in the order of the table, with their words."""
    here = {each.row for each in items}
    return [(row, lens_words.ROWS[row]) for row in Row if row in here]


def _named(asked: Turned, name: str) -> str | None:
    text = asked.get(name)
    return caller_id(text) if text else None


def _action_row(item: ActionItem) -> ActionRow:
    outcome, level = lens_words.outcome_of(item.stages)
    return ActionRow(item, lens_words.executed(item.executions), outcome, level, lens_words.ROWS[item.row])


def _surface_row(item: SurfaceItem, link: str) -> SurfaceRow:
    changes = [lens_words.change_of(each) for each in item.differences]
    return SurfaceRow(item, lens_words.CHECKS[item.check], lens_words.VERDICTS[item.verdict], changes, link)


def _coverage_row(item: CoverageItem) -> CoverageRow:
    odd = [lens_words.DEVIATIONS[each] for each in item.deviations]
    return CoverageRow(item, ranges.strip(item.ranges, item.size), odd)


def _delivery_row(item: DeliveryItem) -> DeliveryRow:
    return DeliveryRow(item, lens_words.ITEM_KINDS[item.kind], lens_words.ITEM_STATES[item.state])
