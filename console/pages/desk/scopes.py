"""Scopes and their policies: a form and the document as text, read by the same code that puts it in force."""

import json
from collections.abc import Sequence
from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console import policy_words
from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import chosen, field
from console.rendering import page, redirect
from policies.documents import PolicyFault
from policies.kinds import Kind
from policies.reasons import Reason
from policies.scope_policy import ScopePolicy
from store.errors import CustodyError, Malformed, NotFound
from store.ids import caller_id
from store.services import documents
from store.services.scopes import Scope

_SEE_OTHER: Final = 303
_BAD: Final = 400
# Numbers in the document; what is none stays text, which the policy's reader refuses by name.
_NUMBERS: Final = frozenset(
    {
        "sampling", "share", "limits.run_parts", "waiting.run_parts", "waiting.run_notes", "waiting.parts",
    }
)  # fmt: skip


@get("/scopes", guards=[operates()])
async def list_scopes(request: AnyRequest) -> Response[Any]:
    """Every scope for an operator of the whole store, else the key's own."""
    who, book = signed(request), services(request).scopes
    found = await book.all_scopes() if who.of_store else [await book.get(who.in_scope.scope_id)]
    return page(request, "desk_scopes.html", scopes=found, choose="choose" in request.query_params)


@post("/scopes", guards=[operates()], status_code=_SEE_OTHER)
async def create_scope(request: AnyRequest) -> Response[Any]:
    """Make a scope with the usual policy, which can then be changed."""
    who = signed(request)
    _require_whole_store(request)
    made = await services(request).scopes.create(caller_id(field(request, "name")), None, who.caller.key_id)
    return redirect(f"/desk/scopes/{made.name}", made="1")


@post("/leave", guards=[operates()], status_code=_SEE_OTHER)
async def leave_scope(request: AnyRequest) -> Response[Any]:
    """Look at the whole store again."""
    _require_whole_store(request)
    await services(request).console_sessions.choose(signed(request).session, None)
    return redirect("/desk/scopes")


@get("/scopes/{name:str}", guards=[operates()])
async def edit_policy(request: AnyRequest, name: FromPath[str]) -> Response[Any]:
    """The policy in force, as a form and as text."""
    found = await _reached(request, name)
    return _editor(request, found, found.policy.to_document())


@post("/scopes/{name:str}/review", guards=[operates()], status_code=200)
async def review_policy(request: AnyRequest, name: FromPath[str]) -> Response[Any]:
    """Say what a policy would change, and for whom; or everything that is wrong with it."""
    found = await _reached(request, name)
    text = field(request, "document")
    try:
        document = _read(text) if text else _document(request)
        policy = services(request).scopes.read(document)
    except PolicyFault as fault:
        return _editor(request, found, {} if text else _document(request), faults=fault.faults, text=text)
    except Malformed:
        return _editor(
            request,
            found,
            {},
            faults=["the text is not a JSON document, or names something twice"],
            text=text,
        )
    return page(
        request,
        "desk_policy.html",
        found=found,
        changes=policy_words.changes(found.policy, policy),
        document=_written(policy),
    )


@post("/scopes/{name:str}/policy", guards=[operates()], status_code=_SEE_OTHER)
async def put_policy(request: AnyRequest, name: FromPath[str]) -> Response[Any]:
    """Put a policy in force that was looked at, in the place of the version that it was compared with."""
    found = await _reached(request, name)
    version = field(request, "version")
    if not version.isascii() or not version.isdigit():
        raise Malformed(detail="say which version it replaces")
    await services(request).scopes.put_policy(
        found.scope_id, _read(field(request, "document")), signed(request).caller.key_id, int(version)
    )
    return redirect(f"/desk/scopes/{found.name}", done="1")


HANDLERS: Final = (list_scopes, create_scope, leave_scope, edit_policy, review_policy, put_policy)


def _require_whole_store(request: AnyRequest) -> None:
    if not signed(request).of_store:
        raise CustodyError(Reason.PERMISSION_DENIED, "that is for operators of the whole store")


async def _reached(request: AnyRequest, name: str) -> Scope:
    """Return the scope of that name within the key's reach; another is not even looked up: no time tells of it."""
    who, book = signed(request), services(request).scopes
    if who.of_store:
        return await book.by_name(caller_id(name))
    scope = await book.get(who.in_scope.scope_id)
    if scope.name != caller_id(name):
        raise NotFound
    return scope


def _editor(
    request: AnyRequest, found: Scope, document: dict[str, Any], *, faults: Sequence[str] = (), text: str = ""
) -> Response[Any]:
    """Show the editor; where a text was wrong, the text, and the form with what is in force."""
    shown = document or found.policy.to_document()
    return page(
        request,
        "desk_scope.html",
        status=_BAD if faults else 200,
        found=found,
        shown=shown,
        kinds=list(Kind),
        text=text or json.dumps(shown, indent=2, ensure_ascii=False),
        faults=faults,
        of_text=bool(text),
        done="done" in request.query_params,
        made="made" in request.query_params,
    )


def _document(request: AnyRequest) -> dict[str, Any]:
    """Put together the document that a form says, every field as it was filled in."""
    document: dict[str, Any] = {
        "kinds": chosen(request, "kinds"),
        "purpose_required": field(request, "purpose_required") == "yes",
    }
    for path in policy_words.flat(ScopePolicy().to_document()):
        if path in document:
            continue
        outer, _, inner = path.rpartition(".")
        place = document.setdefault(outer, {}) if outer else document
        place[inner] = _value(path, field(request, path))
    return document


def _value(path: str, said: str) -> object:
    if path not in _NUMBERS:
        return said
    try:
        return int(said) if said.isascii() and said.isdigit() else float(said)
    except ValueError:
        return said


def _read(text: str) -> object:
    return documents.read(text.encode("utf-8", "surrogatepass"))


def _written(policy: ScopePolicy) -> str:
    return json.dumps(policy.to_document(), indent=2)
