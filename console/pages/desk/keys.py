"""Keys: a secret is on exactly one page, the one that answers its making."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from litestar import Response, get, post
from litestar.params import FromPath

from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import Filled, field_of, filled, scope_id, words
from console.rendering import page, redirect
from policies.kinds import Role
from policies.quantities import duration
from store.clock import utc_now
from store.errors import Conflict, Malformed, NotFound
from store.ids import secret
from store.services.keys import (
    KEY_ID,
    MAX_LIFETIME,
    NEED_CONFIRMATION,
    READ_CONTENT,
    Caller,
    Made,
    Wanted,
    faults_of,
    secrets_of,
)

_SEE_OTHER: Final = 303
_BAD: Final = 400
_CONFLICT: Final = 409
_SOON: Final = timedelta(days=14)
_FIELDS: Final = ("role", "lifetime", "clearances", "note", "once")
_ONCE_BYTES: Final = 16
_ID_CHARACTERS: Final = 16
_MOST_KEYS: Final = 40
_MOST_WAITING: Final = 15

MAY: Final[Mapping[Role, str]] = MappingProxyType(
    {
        Role.RUNTIME: "declares runs and captures into them; it reads nothing and cannot sign in",
        Role.REVIEWER: "reads content, as far as its clearances reach",
        Role.CUSTODIAN: "reads content, also what only a hold still keeps",
        Role.AUDITOR: "sees runs, accesses and what operators did, and no content",
        Role.OPERATOR: "works at this desk; it reads no content",
    }
)


@dataclass(frozen=True, slots=True)
class Offered:
    """How a key stands, and what may be done with it by whom looks."""

    word: str
    level: str
    waits: bool
    over: bool
    own: bool
    confirm: bool
    rotate: bool
    revoke: bool


@get("/keys", guards=[operates()])
async def list_keys(request: AnyRequest) -> Response[Any]:
    """The newest keys of the scope that is looked at, or of the whole store."""
    return await _list(request, Filled(), done=request.query_params.get("done", ""))


@post("/keys", guards=[operates()], status_code=200)
async def create_key(request: AnyRequest) -> Response[Any]:
    """Make a key for the scope that is looked at, and show its text this once; the same form again makes none."""
    form, wanted = filled(request, *_FIELDS), _wanted(request)
    if isinstance(wanted, dict):
        return await _list(request, form.wrong(wanted), status=_BAD)
    try:
        made = await services(request).keys.create(wanted, signed(request).caller.key_id)
    except Conflict:
        return await _list(request, Filled(), status=_CONFLICT, again=wanted.key_id)
    return _shown(request, made)


@get("/keys/{key_id:str}/confirm", guards=[operates()])
async def ask_confirm_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Show a second operator what would be confirmed, and who made it."""
    return await _one(request, key_id, "desk_key_confirm.html")


@post("/keys/{key_id:str}/confirm", guards=[operates()], status_code=_SEE_OTHER)
async def confirm_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Let a key be used that another operator made."""
    await services(request).keys.confirm(_key_id(key_id), signed(request).caller)
    return redirect("/desk/keys", done="confirmed")


@get("/keys/{key_id:str}/rotate", guards=[operates()])
async def ask_rotate_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Ask before a key gets another secret: of two, the older one ends by that."""
    return await _one(request, key_id, "desk_key_rotate.html", changed=False)


@post("/keys/{key_id:str}/rotate", guards=[operates()], status_code=200)
async def rotate_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Give a key a second secret, and show it this once; the same form again gives none."""
    seen = field_of(request, "secrets")
    try:
        made = await services(request).keys.rotate(_key_id(key_id), signed(request).caller, seen)
    except Conflict:
        return await _one(request, key_id, "desk_key_rotate.html", status=_CONFLICT, changed=True)
    return _shown(request, made)


@get("/keys/{key_id:str}/retire", guards=[operates()])
async def ask_retire_secret(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Ask before the older of two secrets ends."""
    return await _one(request, key_id, "desk_key_retire.html", changed=False)


@post("/keys/{key_id:str}/retire", guards=[operates()], status_code=_SEE_OTHER)
async def retire_secret(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """End the older of two secrets."""
    seen = field_of(request, "secrets")
    try:
        await services(request).keys.retire(_key_id(key_id), signed(request).caller, seen)
    except Conflict:
        return await _one(request, key_id, "desk_key_retire.html", status=_CONFLICT, changed=True)
    return redirect("/desk/keys", done="retired")


@get("/keys/{key_id:str}/revoke", guards=[operates()])
async def ask_revoke_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Ask before a key is ended."""
    return await _one(request, key_id, "desk_key_revoke.html")


@post("/keys/{key_id:str}/revoke", guards=[operates()], status_code=_SEE_OTHER)
async def revoke_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """End a key, and every session that was begun with it."""
    await services(request).keys.revoke(_key_id(key_id), signed(request).caller)
    return redirect("/desk/keys", done="revoked")


HANDLERS: Final = (
    list_keys, create_key, ask_confirm_key, confirm_key, ask_rotate_key, rotate_key, ask_retire_secret, retire_secret,
    ask_revoke_key, revoke_key,
)  # fmt: skip


async def _list(
    request: AnyRequest, form: Filled, *, status: int = 200, done: str = "", again: str | None = None
) -> Response[Any]:
    """Show the keys and the form; `again` is the key that a form made when it was sent before."""
    who, now = signed(request), utc_now()
    book, scope, before = services(request).keys, scope_id(request), request.query_params.get("before")
    waiting = await book.waiting(scope, _MOST_WAITING + 1) if before is None else []
    found, following = await book.page(scope, None if before is None else _key_id(before), _MOST_KEYS)
    rows = [(row, _offered(row, who.caller, now)) for row in found]
    names: Mapping[UUID, str] = {}
    if who.scope is None:
        belong = {row.scope_id for row in (*waiting, *found) if row.scope_id is not None}
        names = await services(request).scopes.names(belong)
    return page(
        request,
        "desk_keys.html",
        status=status,
        waiting=[(row, _offered(row, who.caller, now)) for row in waiting[:_MOST_WAITING]],
        more_wait=len(waiting) > _MOST_WAITING,
        live=[each for each in rows if not each[1].over],
        over=[each for each in rows if each[1].over],
        following=following,
        before=before,
        names=names,
        roles=[(role, MAY[role]) for role in Role if who.scope is not None or role is Role.OPERATOR],
        need=sorted(role.value for role in NEED_CONFIRMATION),
        clears=sorted(role.value for role in READ_CONTENT),
        most=f"{MAX_LIFETIME.days}d",
        form=form,
        once=secret(_ONCE_BYTES).hex(),
        done=done,
        again=again,
    )


async def _one(
    request: AnyRequest, key_id: str, template: str, *, status: int = 200, **facts: Any
) -> Response[Any]:
    """Show one key on the page that asks before something is done with it."""
    who = signed(request)
    row = await services(request).keys.one(_key_id(key_id), who.caller)
    # What that page shows stays what it was asked of.
    return page(
        request,
        template,
        status=status,
        key=row,
        may=_offered(row, who.caller, utc_now()),
        does=MAY[row.role],
        secrets=secrets_of(row),
        **facts,
    )


def _wanted(request: AnyRequest) -> Wanted | dict[str, str]:
    """Return the key that a form asks for, or what is wrong with which field."""
    faults, lifetime = {}, timedelta(seconds=1)
    try:
        lifetime = timedelta(seconds=duration(field_of(request, "lifetime")))
    except ValueError as fault:
        faults["lifetime"] = f"a lifetime {fault}"
    role = next((each for each in Role if each == field_of(request, "role")), None)
    once = field_of(request, "once")
    if role is None:
        return {**faults, "role": "a key has one of these roles"}
    if not once:
        raise Malformed(detail="the form is not whole: open the page of keys again")
    wanted = Wanted(
        role=role,
        scope_id=scope_id(request),
        lifetime=lifetime,
        clearances=frozenset(words(field_of(request, "clearances"))),
        note=field_of(request, "note"),
        key_id=_id_of(signed(request).csrf, once),
    )
    faults |= faults_of(wanted)
    return faults or wanted


def _id_of(session: str, once: str) -> str:
    """Return the id of the key that this very form makes: nobody else's form can name the same."""
    return hashlib.sha256(f"{session} {once}".encode()).hexdigest()[:_ID_CHARACTERS]


def _key_id(text: str) -> str:
    """Return the id of a key; what is none is not found, like one that never was."""
    if KEY_ID.fullmatch(text) is None:
        raise NotFound
    return text


def _shown(request: AnyRequest, made: Made) -> Response[Any]:
    return page(request, "desk_key_made.html", key=made.row, text=made.text, does=MAY[made.row.role])


def _offered(row: Any, who: Caller, now: datetime) -> Offered:
    own = row.key_id == who.key_id
    live = row.revoked_at is None and now < row.expires_at
    word, level = "live", "good"
    if row.revoked_at is not None:
        word, level = "revoked", "off"
    elif now >= row.expires_at:
        word, level = "expired", "off"
    elif row.confirmed_at is None:
        word, level = "waits for a second operator", "warn"
    elif row.expires_at - now < _SOON:
        word, level = "ends soon", "warn"
    return Offered(
        word,
        level,
        waits=live and row.confirmed_at is None,
        over=not live,
        own=own,
        confirm=live and row.confirmed_at is None and who.key_id not in (row.created_by, row.key_id),
        rotate=live and (own or row.role not in NEED_CONFIRMATION),
        revoke=row.revoked_at is None,
    )
