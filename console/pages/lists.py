"""Lists as files: metadata of runs, parts and accesses with the filters of their pages, sent while they are read."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from litestar import Response, Router, get
from litestar.params import FromPath

from console.filters import Filters, filters
from console.guards import OF_A_PAGE, AnyRequest, reads, services, signed
from console.pages import accesses
from console.showing.cells import Row, csv_lines, json_line
from console.streamed import MOST_ROWS, Streamed
from store.errors import Malformed, NotFound
from store.ids import caller_id
from store.services.access import AccessItem
from store.services.paging import MOST
from store.services.part_views import PartItem
from store.services.questions import label_named
from store.services.readback import PartFilters, Readable, read_reason
from store.services.run_lists import ListedRun, RunFilters
from store.services.said import known_kind

# A page may be short or empty and have a next one, where filters find little: so many are turned at most.
MOST_PAGES: Final = 200

_OPT: Final = {OF_A_PAGE: True}
_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}
_RUNS: Final = ("mode", "state", "label", "outcome", "reason")
_PARTS: Final = ("run", "exchange", "attempt", "kind", "label", "availability", "reason")
_READABLE: Final[dict[str, Readable]] = {"readable": "readable", "unavailable": "unavailable"}

# Some rows and the cursor of those that follow.
Some = tuple[list[Row], str | None]
Turn = Callable[[str | None], Awaitable[Some]]


@dataclass(frozen=True, slots=True)
class _File:
    """One list as a file: its name, its form, its columns."""

    name: str
    form: str
    columns: tuple[str, ...]

    def lines(self, rows: Iterable[Row]) -> bytes:
        if self.form == "jsonl":
            return b"".join(json_line(row) for row in rows)
        return csv_lines([[row[column] for column in self.columns] for row in rows])

    def head(self) -> bytes:
        return csv_lines([self.columns]) if self.form == "csv" else b""

    def cut(self, rows: int) -> bytes:
        """Say in the file itself that it is not the whole list."""
        said = f"cut after {rows} rows: more follow, narrow the list"
        return json_line({"cut": said}) if self.form == "jsonl" else csv_lines([[said]])


@get("/lists/runs/{form:str}", guards=[reads()], opt=_OPT)
async def runs_file(request: AnyRequest, form: FromPath[str]) -> Response[bytes]:
    """Runs, newest first, each with counts of its observations."""
    asked, who, opened = filters(request, *_RUNS), signed(request).reader, services(request)
    wanted = RunFilters(**{name: asked.get(name) or None for name in _RUNS})

    async def turn(cursor: str | None) -> Some:
        found = await opened.run_lists.page(who, wanted, replace(asked.asked, limit=MOST, cursor=cursor))
        return _rows(found.items), found.ways.next

    return await _sent(turn, _file("runs", form, ListedRun))


@get("/lists/parts/{form:str}", guards=[reads()], opt=_OPT)
async def parts_file(request: AnyRequest, form: FromPath[str]) -> Response[bytes]:
    """Metadata of parts, with what stands against reading each now."""
    asked, who, opened = filters(request, *_PARTS), signed(request).reader, services(request)
    wanted = _part_filters(asked)

    async def turn(cursor: str | None) -> Some:
        found = await opened.readback.parts(who, wanted, replace(asked.asked, limit=MOST, cursor=cursor))
        return _rows(found.items), found.page.next

    return await _sent(turn, _file("parts", form, PartItem))


@get("/lists/accesses/{form:str}", guards=[reads(*accesses.READS_THEM)], opt=_OPT)
async def accesses_file(request: AnyRequest, form: FromPath[str]) -> Response[bytes]:
    """Access records."""
    asked = filters(request, *accesses.NAMES)

    async def turn(cursor: str | None) -> Some:
        how = replace(asked, asked=replace(asked.asked, limit=MOST, cursor=cursor))
        found = await accesses.page_of(request, how)
        return _rows(found.items), found.page.next

    return await _sent(turn, _file("accesses", form, AccessItem))


router = Router("/", route_handlers=[runs_file, parts_file, accesses_file])


def _file(name: str, form: str, of: type[msgspec.Struct]) -> _File:
    if form not in _TYPES:
        raise NotFound
    return _File(name, form, of.__struct_fields__)


async def _sent(turn: Turn, file: _File) -> Response[bytes]:
    # What stands against the list is an answer, and no file that breaks off.
    first, following = await turn(None)
    beginning = file.head() + file.lines(first)
    return Streamed(
        beginning,
        _rest(turn, file, len(first), following),
        f"custody-{file.name}.{file.form}",
        _TYPES[file.form],
    )


async def _rest(turn: Turn, file: _File, sent: int, following: str | None) -> AsyncGenerator[bytes, None]:
    pages = 1
    while following is not None and sent < MOST_ROWS and pages < MOST_PAGES:
        rows, following = await turn(following)
        sent, pages = sent + len(rows), pages + 1
        yield file.lines(rows)
    if following is not None:
        yield file.cut(sent)


def _rows(items: Iterable[Any]) -> list[Row]:
    """Return what the api shows of each item, as JSON has it."""
    return [msgspec.to_builtins(item) for item in items]


def _part_filters(asked: Filters) -> PartFilters:
    named = {name: asked.get(name) or None for name in _PARTS}
    ids = {
        name: None if named[name] is None else caller_id(str(named[name]))
        for name in ("run", "exchange", "attempt")
    }
    readable = named["availability"]
    if readable is not None and readable not in _READABLE:
        raise Malformed(detail="availability is readable or unavailable")
    return PartFilters(
        **ids,
        kind=None if named["kind"] is None else known_kind(named["kind"]),
        label=label_named(named["label"]),
        availability=None if readable is None else _READABLE[readable],
        reason=None if named["reason"] is None else read_reason(named["reason"]),
    )
