"""Scopes and their policies: a form and the document as text, read by the same code that puts it in force.

A change is looked at before it is saved, and compared with what it was made from: where somebody else has saved another
policy since, nothing is put in force, and what was filled in is kept.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console import policy_words
from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import MOST_ROWS, Filled, chosen, field_of, filled
from console.rendering import page, redirect
from policies.documents import PolicyFault
from policies.kinds import Content, Kind
from policies.reasons import Reason
from policies.scope_policy import ScopePolicy
from store.errors import Conflict, CustodyError, Malformed, NotFound
from store.ids import caller_id
from store.services import documents
from store.services.scopes import Scope

_SEE_OTHER: Final = 303
_BAD: Final = 400
_CONFLICT: Final = 409
# Numbers in the document; what is none stays text, which the policy's reader refuses by name.
_NUMBERS: Final = frozenset(
    {
        "sampling", "share", "limits.run_parts", "waiting.run_parts", "waiting.run_notes", "waiting.parts",
    }
)  # fmt: skip
_CONTENT: Final = {
    Content.ALLOW: "allow: it is taken",
    Content.OPT_OUT: "opt_out: it is not looked at",
}
_VERSION: Final = re.compile(r"[1-9][0-9]{0,9}")
_NO_JSON: Final = "is not a JSON document, or names something twice"


@dataclass(frozen=True, slots=True)
class Draft:
    """A policy as somebody wrote it, right or not; `version` is what it was made from, `text` None: with the form."""

    document: dict[str, Any]
    version: int
    text: str | None = None


@get("/scopes", guards=[operates()])
async def list_scopes(request: AnyRequest) -> Response[Any]:
    """Every scope for an operator of the whole store, else the key's own."""
    return await _list(request, Filled())


@post("/scopes", guards=[operates()], status_code=_SEE_OTHER)
async def create_scope(request: AnyRequest) -> Response[Any]:
    """Make a scope with the usual policy, which can then be changed."""
    who, form = signed(request), filled(request, "name")
    _require_whole_store(request)
    try:
        made = await services(request).scopes.create(caller_id(form.get("name")), None, who.caller.key_id)
    except Malformed as fault:
        return await _list(request, form.wrong({"name": fault.detail}), status=_BAD)
    except Conflict as fault:
        return await _list(request, form.wrong({"name": fault.detail}), status=_CONFLICT)
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
    return _editor(request, found, Draft(found.policy.to_document(), found.version))


@post("/scopes/{name:str}/review", guards=[operates()], status_code=200)
async def review_policy(request: AnyRequest, name: FromPath[str]) -> Response[Any]:
    """Say what a policy would change, and for whom; or everything that is wrong with it, by field."""
    found = await _reached(request, name)
    version, text = _version(request), field_of(request, "document") or None
    try:
        document = _document(request) if text is None else _parsed(text)
        policy = services(request).scopes.read(document)
    except PolicyFault as fault:
        # The form beside a wrong text goes on showing what is in force.
        shown = _document(request) if text is None else found.policy.to_document()
        return _editor(request, found, Draft(shown, version, text), faults=fault.faults)
    draft = Draft(policy.to_document(), version, text)
    if draft.version != found.version:
        return _stale(request, found, draft, policy)
    return page(
        request,
        "desk_policy.html",
        found=found,
        changes=policy_words.changes(found.policy, policy),
        document=_written(policy.to_document()),
    )


@post("/scopes/{name:str}/policy", guards=[operates()], status_code=_SEE_OTHER)
async def put_policy(request: AnyRequest, name: FromPath[str]) -> Response[Any]:
    """Put a policy in force that was looked at, in the place of the version that it was compared with."""
    found = await _reached(request, name)
    document = _read(field_of(request, "document"))
    version = _version(request)
    policy = services(request).scopes.read(document)
    try:
        await services(request).scopes.put_policy(
            found.scope_id, document, signed(request).caller.key_id, version
        )
    except Conflict:
        draft = Draft(policy.to_document(), version)
        return _stale(request, await _reached(request, name), draft, policy)
    return redirect(f"/desk/scopes/{found.name}", done="1")


HANDLERS: Final = (list_scopes, create_scope, leave_scope, edit_policy, review_policy, put_policy)


async def _list(request: AnyRequest, form: Filled, *, status: int = 200) -> Response[Any]:
    who, book = signed(request), services(request).scopes
    after = request.query_params.get("after")
    if who.of_store:
        found, following = await book.page("" if after is None else caller_id(after), MOST_ROWS)
    else:
        found, following = [await book.get(who.in_scope.scope_id)], None
    return page(
        request,
        "desk_scopes.html",
        status=status,
        scopes=found,
        after=after,
        following=following,
        form=form,
        choose="choose" in request.query_params,
    )


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
    request: AnyRequest,
    found: Scope,
    draft: Draft,
    *,
    faults: Sequence[str] = (),
    stale: Sequence[policy_words.Change] | None = None,
) -> Response[Any]:
    """Show the editor with what is in force, or with what was written and what is wrong with it, by field.

    `stale`: what differs between the draft and a policy that somebody else has put in force since it was begun.
    """
    told = [_apart(fault) for fault in faults]
    of_form = {name: said for name, said in told if name in policy_words.NAMES and draft.text is None}
    return page(
        request,
        "desk_scope.html",
        status=_CONFLICT if stale is not None else _BAD if faults else 200,
        found=found,
        form=Filled(policy_words.flat(draft.document), of_form),
        ticked=draft.document.get("kinds", []),
        kinds=list(Kind),
        content=[(each.value, said) for each, said in _CONTENT.items()],
        limits=[name for name in policy_words.NAMES if name.startswith(("limits.", "waiting.", "share"))],
        names=policy_words.NAMES,
        draft=draft,
        # What was refused as wrong stays made from its own version: a change of somebody else's is still met in review.
        form_version=found.version if stale is not None or draft.text is not None else draft.version,
        text_version=found.version if stale is not None else draft.version,
        text=_written(draft.document) if draft.text is None else draft.text,
        faults=told,
        stale=stale,
        done="done" in request.query_params,
        made="made" in request.query_params,
    )


def _stale(request: AnyRequest, found: Scope, draft: Draft, policy: ScopePolicy) -> Response[Any]:
    """Refuse what was made from another version, keep what was filled in, and say how it differs from what is."""
    return _editor(request, found, draft, stale=policy_words.changes(found.policy, policy))


def _parsed(text: str) -> object:
    try:
        return _read(text)
    except Malformed:
        raise PolicyFault([f"document: {_NO_JSON}"]) from None


def _version(request: AnyRequest) -> int:
    version = field_of(request, "version")
    if _VERSION.fullmatch(version) is None:
        raise Malformed(detail="say which version it replaces")
    return int(version)


def _apart(fault: str) -> tuple[str, str]:
    """Return the field that a fault names, and what it says of it."""
    name, _, said = fault.partition(": ")
    return name, said


def _document(request: AnyRequest) -> dict[str, Any]:
    """Put together the document that a form says, every field as it was filled in."""
    document: dict[str, Any] = {
        "kinds": chosen(request, "kinds"),
        "purpose_required": field_of(request, "purpose_required") == "yes",
    }
    for path in policy_words.NAMES:
        if path in document:
            continue
        outer, _, inner = path.rpartition(".")
        place = document.setdefault(outer, {}) if outer else document
        place[inner] = _value(path, field_of(request, path))
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


def _written(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)
