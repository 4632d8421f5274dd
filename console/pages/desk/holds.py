"""Holds: place one on a part, a run or the scope, look at them, release them, and see which ought to have ended."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import MOST_ROWS, Filled, filled, paged
from console.rendering import page, redirect
from policies.holds import Placing
from policies.quantities import duration_text
from store.clock import utc_now
from store.errors import CustodyError, Malformed, NotFound
from store.ids import caller_id
from store.services.holds import MOST_REASON, On, OnPart, OnRun, OnScope
from store.services.questions import evidence_of

_SEE_OTHER: Final = 303
_BAD: Final = 400
_MISSING: Final = 404
_FIELDS: Final = ("on", "name", "reason")
# The duty that ends holds looks each minute: what it has not ended some minutes after the grace waits for it in vain.
_OVERDUE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a hold stands; `ends_at` is when its grace is over, once it was released."""

    word: str
    level: str
    ends_at: datetime | None


@get("/holds", guards=[operates()])
async def list_holds(request: AnyRequest) -> Response[Any]:
    """The scope's holds, newest first, released ones included."""
    return await _list(request, Filled(), done=request.query_params.get("done", ""))


async def _list(request: AnyRequest, form: Filled, *, status: int = 200, done: str = "") -> Response[Any]:
    opened, listing = services(request), paged(request, services(request), "holds")
    found = await opened.holds.page(
        listing.scope, listing.before_id(request.query_params.get("cursor")), MOST_ROWS
    )
    grace, now = opened.settings.hold_grace, utc_now()
    rows = [(row, standing(row, grace, now)) for row in found.rows]
    return page(
        request,
        "desk_holds.html",
        status=status,
        holds=rows,
        overdue=sum(each.word == "overdue" for _, each in rows),
        following=listing.following(found.next_id),
        grace=duration_text(int(grace.total_seconds())),
        most=MOST_REASON,
        form=form,
        done=done,
    )


@post("/holds", guards=[operates()], status_code=_SEE_OTHER)
async def place_hold(request: AnyRequest) -> Response[Any]:
    """Keep from now on what is still there; the answer says whether anything was."""
    who, form = signed(request), filled(request, *_FIELDS)
    on, reason = _on(form), form.get("reason")
    faults = on if isinstance(on, dict) else {}
    if not (1 <= len(reason) <= MOST_REASON and reason.isprintable()):
        faults["reason"] = f"say in 1 to {MOST_REASON} printable characters what it is for"
    if faults or isinstance(on, dict):
        return await _list(request, form.wrong(faults), status=_BAD)
    try:
        placed = await services(request).holds.place(who.in_scope.scope_id, on, reason, who.caller.key_id)
    except NotFound:
        missing = {"name": f"there is no such {form.get('on')} in this scope"}
        return await _list(request, form.wrong(missing), status=_MISSING)
    return redirect("/desk/holds", done=placed.answer.value)


@get("/holds/{hold:str}/release", guards=[operates()])
async def ask_release(request: AnyRequest, hold: FromPath[str]) -> Response[Any]:
    """Ask before a hold is let go."""
    row = await services(request).holds.one(signed(request).in_scope.scope_id, evidence_of(hold))
    return page(
        request,
        "desk_hold_release.html",
        hold=row,
        grace=duration_text(int(services(request).settings.hold_grace.total_seconds())),
    )


@post("/holds/{hold:str}/release", guards=[operates()], status_code=_SEE_OTHER)
async def release_hold(request: AnyRequest, hold: FromPath[str]) -> Response[Any]:
    """Keep no longer than the grace."""
    who = signed(request)
    await services(request).holds.release(who.in_scope.scope_id, evidence_of(hold), who.caller.key_id)
    return redirect("/desk/holds", done="released")


HANDLERS: Final = (list_holds, place_hold, ask_release, release_hold)


def standing(row: Any, grace: timedelta, now: datetime) -> Standing:
    """Say how a hold stands."""
    if row.answer is Placing.TOO_LATE:
        return Standing("too late", "off", None)
    if row.ended_at is not None:
        return Standing("ended", "off", row.ended_at)
    if row.released_at is None:
        return Standing("keeps", "good", None)
    ends_at = row.released_at + grace
    if now > ends_at + _OVERDUE:
        return Standing("overdue", "bad", ends_at)
    return Standing("released", "warn", ends_at)


def _on(form: Filled) -> On | dict[str, str]:
    """Return what is to be held, or what is wrong with which field."""
    reach, name = form.get("on"), form.get("name")
    if reach == "scope":
        # Whoever names one thing and ticks everything meant one of both.
        return (
            {"name": "the whole scope has no name here: leave it empty, or choose a run or a part"}
            if name
            else OnScope()
        )
    try:
        if reach == "run":
            return OnRun(caller_id(name))
        if reach == "part":
            return OnPart(evidence_of(name))
    except Malformed as fault:
        return {"name": fault.detail}
    except CustodyError:
        return {"name": "an evidence reference is a UUID, as on the page of a part"}
    return {"on": "a hold is on a part, a run or the scope"}
