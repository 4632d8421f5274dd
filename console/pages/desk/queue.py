"""The queue: what waits now, what waited and was refused before, and what became of everything."""

from typing import Any, Final

from litestar import Response, get

from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.waiting import now_waiting, outcomes_of
from console.pictures import over_time
from console.rendering import page
from store.errors import Malformed
from store.services.queue_depths import Window
from store.wiring import Services

_WINDOWS: Final = {Window.HOUR: "1 hour", Window.DAY: "24 hours", Window.WEEK: "7 days"}


@get("/queue", guards=[operates()])
async def show_queue(request: AnyRequest) -> Response[Any]:
    """What waits, and for operators of the whole store what waited and was refused in a window of time."""
    opened, who, window = services(request), signed(request), _window(request)
    waiting = await now_waiting(opened, who)
    return page(
        request,
        "desk_queue.html",
        waiting=waiting,
        windows=_WINDOWS,
        window=window,
        over_time=await _over_time(opened, window) if who.of_store else None,
        outcomes=await outcomes_of(opened) if who.of_store and waiting.answered else [],
    )


async def _over_time(opened: Services, window: Window) -> dict[str, Any]:
    """Return what was noted, drawn, and what was refused; `meanwhile` is of gaps, so that no time is known of it."""
    history = await opened.queue_history.of(window)
    drawn = over_time.drawn_of(history)
    return {
        "history": history,
        "pictures": (over_time.waiting(history), over_time.oldest(history)),
        "refusals": over_time.refusals(history),
        "refused": over_time.totals_of(history.points),
        "meanwhile": over_time.totals_of([each for each in history.points if each not in drawn]),
        "unknown": sum(each.refused is None for each in history.points),
        "gaps": over_time.gaps_of(history),
    }


def _window(request: AnyRequest) -> Window:
    try:
        return Window(request.query_params.get("window", Window.DAY))
    except ValueError:
        raise Malformed(detail=f"window is one of {', '.join(Window)}") from None
