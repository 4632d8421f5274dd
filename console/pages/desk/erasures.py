"""Erasures: asked for on two pages, and followed until nothing is left."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import MOST_ROWS, field, paged
from console.rendering import page, redirect
from policies.kinds import Kind
from store.errors import Malformed
from store.ids import caller_id
from store.services.documents import printable
from store.services.erasures import Asked, Named, StoredPart, WholeRun, WholeSource, WholeSubject
from store.services.questions import evidence_of

_SEE_OTHER: Final = 303


@get("/erasures", guards=[operates()])
async def list_erasures(request: AnyRequest) -> Response[Any]:
    """The scope's erasures, newest first."""
    opened, listing = services(request), paged(request, services(request), "erasures")
    found = await opened.erasures.page(
        listing.scope, listing.before_id(request.query_params.get("cursor")), MOST_ROWS
    )
    return page(
        request,
        "desk_erasures.html",
        erasures=found.rows,
        following=listing.following(found.next_id),
        kinds=list(Kind),
    )


@post("/erasures/review", guards=[operates()], status_code=200)
async def review_erasure(request: AnyRequest) -> Response[Any]:
    """Say what would be erased, and that it does not come back; a form, so that no address names a subject."""
    _ = signed(request).in_scope, _asked(request)
    names = {each: field(request, each) for each in ("target", "name", "exchange", "attempt", "kind")}
    return page(request, "desk_erasure_review.html", asked=names)


@post("/erasures", guards=[operates()], status_code=_SEE_OTHER)
async def ask_erasure(request: AnyRequest) -> Response[Any]:
    """Refuse readers from now on, and destroy soon."""
    who = signed(request)
    row = await services(request).erasures.ask(who.in_scope.scope_id, _asked(request), who.caller.key_id)
    return redirect(f"/desk/erasures/{row.erasure_id}")


@get("/erasures/{erasure:str}", guards=[operates()])
async def show_erasure(request: AnyRequest, erasure: FromPath[str]) -> Response[Any]:
    """How far one erasure is."""
    row = await services(request).erasures.one(signed(request).in_scope.scope_id, evidence_of(erasure))
    return page(request, "desk_erasure.html", erasure=row)


HANDLERS: Final = (list_erasures, review_erasure, ask_erasure, show_erasure)


def _asked(request: AnyRequest) -> Asked:
    target, name = field(request, "target"), field(request, "name")
    if target == "part":
        return StoredPart(evidence_of(name))
    if target == "run":
        return WholeRun(caller_id(name))
    if target == "source":
        return WholeSource(caller_id(name))
    if target == "subject":
        return WholeSubject(printable(name, "subject"))
    if target == "waiting":
        exchange, attempt = caller_id(field(request, "exchange")), caller_id(field(request, "attempt"))
        return Named(caller_id(name), exchange, attempt, _kind(field(request, "kind")))
    raise Malformed(detail="an erasure is of a part, a run, a source or a subject")


def _kind(text: str) -> str:
    if text not in tuple(Kind):
        raise Malformed(detail="a part's kind is one of " + ", ".join(Kind))
    return text
