"""What operators look at: duties, completeness, the queue, and what operators did."""

from typing import Any, Final

from litestar import Response, get

from console.duty_words import DUTIES
from console.guards import AnyRequest, operates, reads, services, signed
from console.pages.desk.forms import scope_id
from console.pages.desk.waiting import now_waiting, outcomes_of
from console.pictures import completeness as completeness_picture
from console.rendering import page
from policies.kinds import Role
from store.errors import Malformed
from store.services.actions import STORE_WIDE
from store.services.paging import Asked, Reader

_DAYS: Final = (7, 14, 31)


@get("/duties", guards=[operates()])
async def list_duties(request: AnyRequest) -> Response[Any]:
    """How every duty stands."""
    duties = await services(request).overview.duties()
    return page(request, "desk_duties.html", duties=[(each, DUTIES[each.duty]) for each in duties])


@get("/completeness", guards=[operates()])
async def show_completeness(request: AnyRequest) -> Response[Any]:
    """How much of what was observed is there, by day and scope."""
    span = _one_of(request, "days", _DAYS)
    days, at = await services(request).overview.completeness(scope_id(request), span)
    return page(
        request,
        "desk_completeness.html",
        days=days,
        counted_at=at,
        span=span,
        spans=_DAYS,
        picture=completeness_picture.drawn(days),
    )


@get("/queue", guards=[operates()])
async def show_queue(request: AnyRequest) -> Response[Any]:
    """What waits now, and what became of everything since the queue began."""
    opened, who = services(request), signed(request)
    waiting = await now_waiting(opened, who)
    return page(
        request,
        "desk_queue.html",
        waiting=waiting,
        outcomes=await outcomes_of(opened) if who.of_store and waiting.answered else [],
    )


@get("/actions", guards=[reads(Role.AUDITOR, Role.OPERATOR)])
async def list_actions(request: AnyRequest) -> Response[Any]:
    """What operators did in the scope; where none is chosen, what belongs to none."""
    who = signed(request)
    scope = STORE_WIDE if who.scope is None else who.scope.scope_id
    reader = Reader(scope, who.caller.key_id, who.role, who.caller.clearances)
    asked = Asked(cursor=request.query_params.get("cursor"))
    found = await services(request).actions.page(reader, asked)
    return page(request, "desk_actions.html", actions=found.items, info=found.page)


HANDLERS: Final = (list_duties, show_completeness, show_queue, list_actions)


def _one_of(request: AnyRequest, name: str, offered: tuple[int, ...]) -> int:
    said = request.query_params.get(name, str(offered[0]))
    if said not in {str(each) for each in offered}:
        raise Malformed(detail=f"{name} is one of {', '.join(map(str, offered))}")
    return int(said)
