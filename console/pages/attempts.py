"""One attempt: its request and its output side by side, each a guarded read; and what was told of the call."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from litestar import Response, Router, get
from litestar.params import FromPath

from console.guards import AnyRequest, Signed, reads, services, signed
from console.pages.sides import PURPOSE, Reading, Side, needs_purpose, reading_of, said_by, side_of
from console.rendering import page
from console.showing.measures import exact
from console.showing.views import Showing, View, show
from policies.availability import content_role
from policies.kinds import Kind
from store.errors import Malformed, NotFound
from store.ids import caller_id
from store.services.readback import PartIdentity

_TITLES: Final = {Kind.LOGICAL_REQUEST: "Request", Kind.OBSERVABLE_OUTPUT: "Output"}


@dataclass(frozen=True, slots=True)
class Pane:
    """One side as the page has it."""

    title: str
    side: Side
    shown: Showing | None


@get("/runs/{run:str}/exchanges/{exchange:str}/attempts/{attempt:str}", guards=[reads()])
async def show_attempt(
    request: AnyRequest, run: FromPath[str], exchange: FromPath[str], attempt: FromPath[str]
) -> Response[Any]:
    """Show one attempt; every side that may be read is read now, and recorded."""
    who, view = signed(request), _view(request)
    names = (caller_id(run), caller_id(exchange), caller_id(attempt))
    told = await services(request).run_reads.attempt_among(who.reader, *names)
    sides = [await side_of(services(request), who, PartIdentity(*names, kind)) for kind in _TITLES]
    if told is None and not any(side.told for side in sides):
        raise NotFound
    panes = [Pane(_TITLES[side.kind], side, await _shown(side, view)) for side in sides]
    return page(
        request, "attempt.html", run=names[0], exchange=names[1], attempt=names[2], panes=panes, view=view,
        views=list(View), told=told, **(reading(who, sides) | _asking(sides, who)),
    )  # fmt: skip


def reading(who: Signed, sides: Iterable[Side] | None = None) -> dict[str, Any]:
    """Return what every page that reads content says of that; of no sides where it has not read yet."""
    return {
        "reads_content": content_role(who.role),
        "wanting": needs_purpose(who),
        "came_of_it": Reading.SHOWN if sides is None else reading_of(sides),
        "exact": exact,
        "said_by": said_by,
    }


def _asking(sides: list[Side], who: Signed) -> dict[str, bool]:
    """Have the purpose asked for at the top where a side waits for it, and not only where the scope demands one."""
    waits = any(side.state is not None and side.state.word == PURPOSE for side in sides)
    return {"wanting": waits or needs_purpose(who)}


async def _shown(side: Side, view: View) -> Showing | None:
    if side.content is None:
        return None
    # Its own thread: laying out takes a moment, and others wait for theirs.
    return await asyncio.to_thread(show, side.content.content, view)


def _view(request: AnyRequest) -> View:
    said = request.query_params.get("view", View.PRETTY.value)
    if said not in set(View):
        raise Malformed(detail="view is pretty, raw or stream")
    return View(said)


router = Router("/", route_handlers=[show_attempt])
