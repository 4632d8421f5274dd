"""Erasures: asked for on two pages, and followed until nothing is left."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import MOST_ROWS, Filled, filled, paged
from console.rendering import fragment, page, redirect, wants_fragment
from policies.kinds import Kind
from store.errors import CustodyError, Malformed, NotFound
from store.ids import caller_id
from store.services.documents import printable
from store.services.erasures import Asked, Named, StoredPart, WholeRun, WholeSource, WholeSubject
from store.services.questions import evidence_of

_SEE_OTHER: Final = 303
_BAD: Final = 400
_MISSING: Final = 404
_FIELDS: Final = ("target", "name", "exchange", "attempt", "kind")
_NONE_OF: Final = {
    "part": "there is no such part in this scope",
    "run": "there is no such run in this scope",
    "source": "there is no such source in this scope",
    "subject": "no run of this scope was declared about this subject",
    "waiting": "nothing of that name is stored or waits in this scope",
}
_NO_EVIDENCE: Final = "an evidence reference is a UUID, as on the page of a part"
_ASKS_FOR: Final = "say of what it is"
_NEEDED: Final = "a part by its name needs it"


class _NoErasure(Exception):
    """The form asks for nothing that could be erased; `faults` says why, by field."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__()
        self.faults = faults


@get("/erasures", guards=[operates()])
async def list_erasures(request: AnyRequest) -> Response[Any]:
    """The scope's erasures, newest first."""
    return await _list(request, Filled())


@post("/erasures/review", guards=[operates()], status_code=200)
async def review_erasure(request: AnyRequest) -> Response[Any]:
    """Say what would be erased, and that it does not come back; a form, so that no address names a subject."""
    form = filled(request, *_FIELDS)
    try:
        asked = _asked(form)
        stored = await _stored(request, asked)
    except _NoErasure as fault:
        return await _list(request, form.wrong(fault.faults), status=_BAD)
    except NotFound:
        return await _list(request, form.wrong(_none_of(form)), status=_MISSING)
    return page(request, "desk_erasure_review.html", asked=dict(form.said), stored=stored)


@post("/erasures", guards=[operates()], status_code=_SEE_OTHER)
async def ask_erasure(request: AnyRequest) -> Response[Any]:
    """Refuse readers from now on, and destroy soon."""
    who, form = signed(request), filled(request, *_FIELDS)
    try:
        row = await services(request).erasures.ask(who.in_scope.scope_id, _asked(form), who.caller.key_id)
    except _NoErasure as fault:
        return await _list(request, form.wrong(fault.faults), status=_BAD)
    except NotFound:
        return await _list(request, form.wrong(_none_of(form)), status=_MISSING)
    return redirect(f"/desk/erasures/{row.erasure_id}")


@get("/erasures/{erasure:str}", guards=[operates()])
async def show_erasure(request: AnyRequest, erasure: FromPath[str]) -> Response[Any]:
    """How far one erasure is; a piece of it for a page that looks again by itself."""
    row = await services(request).erasures.one(signed(request).in_scope.scope_id, evidence_of(erasure))
    if wants_fragment(request):
        return fragment(request, "desk_erasure_state.html", erasure=row)
    return page(request, "desk_erasure.html", erasure=row)


HANDLERS: Final = (list_erasures, review_erasure, ask_erasure, show_erasure)


async def _list(request: AnyRequest, form: Filled, *, status: int = 200) -> Response[Any]:
    opened, listing = services(request), paged(request, services(request), "erasures")
    found = await opened.erasures.page(
        listing.scope, listing.before_id(request.query_params.get("cursor")), MOST_ROWS
    )
    return page(
        request,
        "desk_erasures.html",
        status=status,
        erasures=found.rows,
        following=listing.following(found.next_id),
        kinds=[(kind.value, kind.value) for kind in Kind],
        form=form,
    )


async def _stored(request: AnyRequest, asked: Asked) -> int | None:
    """Return how many parts are stored of what is asked for; None where only asking for it tells.

    NotFound where there is nothing of that name.
    """
    opened, reader = services(request), signed(request).reader
    if isinstance(asked, WholeRun):
        return (await opened.run_reads.run(reader, asked.run)).counts.stored
    if isinstance(asked, StoredPart):
        _ = await opened.readback.part(reader, asked.evidence)
        return 1
    if isinstance(asked, WholeSource):
        _ = await opened.sources.one(signed(request).in_scope.scope_id, asked.source, 1)
    return None


def _none_of(form: Filled) -> dict[str, str]:
    return {"name": _NONE_OF[form.get("target")]}


def _asked(form: Filled) -> Asked:
    target, name = form.get("target"), form.get("name")
    if target not in _NONE_OF:
        raise _NoErasure({"target": "an erasure is of a part, a run, a source or a subject"})
    if not name:
        raise _NoErasure({"name": _ASKS_FOR})
    faults: dict[str, str] = {}
    if target == "subject":
        asked: Asked = WholeSubject(_told(faults, "name", name, lambda text: printable(text, "a subject")))
    elif target == "part":
        asked = _part(name)
    elif target == "waiting":
        asked = _named(form, faults)
    else:
        said = _told(faults, "name", name, caller_id)
        asked = WholeRun(said) if target == "run" else WholeSource(said)
    if faults:
        raise _NoErasure(faults)
    return asked


def _part(name: str) -> StoredPart:
    try:
        return StoredPart(evidence_of(name))
    except CustodyError:
        # What is no reference is not found, by that name; here somebody typed it.
        raise _NoErasure({"name": _NO_EVIDENCE}) from None


def _named(form: Filled, faults: dict[str, str]) -> Named:
    said = {name: _told(faults, name, form.get(name), caller_id) for name in ("name", "exchange", "attempt")}
    if form.get("kind") not in tuple(Kind):
        faults["kind"] = "a part's kind is one of " + ", ".join(Kind)
    return Named(said["name"], said["exchange"], said["attempt"], form.get("kind"))


def _told(faults: dict[str, str], name: str, text: str, read: Any) -> str:
    """Read one field; what is wrong with it is noted, so that all of them are told at once."""
    if not text:
        faults[name] = _NEEDED
        return text
    try:
        return str(read(text))
    except Malformed as fault:
        faults[name] = fault.detail
        return text
