"""Keys: a secret is on exactly one page, the one that answers its making."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromPath

from console.guards import AnyRequest, operates, services, signed
from console.pages.desk.forms import field, scope_id, words
from console.rendering import page, redirect
from policies.kinds import Role
from policies.quantities import duration
from store.clock import utc_now
from store.errors import Malformed, NotFound
from store.services.keys import KEY_ID, MAX_LIFETIME, NEED_CONFIRMATION, READ_CONTENT, Caller, Made, Wanted

_SEE_OTHER: Final = 303
_SOON: Final = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Offered:
    """How a key stands, and what may be done with it by whom looks."""

    word: str
    level: str
    confirm: bool
    rotate: bool
    revoke: bool


@get("/keys", guards=[operates()])
async def list_keys(request: AnyRequest) -> Response[Any]:
    """The newest keys of the scope that is looked at, or of the whole store."""
    who, now = signed(request), utc_now()
    rows = await services(request).keys.listed(scope_id(request))
    names = {}
    if who.scope is None:
        names = {scope.scope_id: scope.name for scope in await services(request).scopes.all_scopes()}
    return page(
        request,
        "desk_keys.html",
        keys=[(row, _offered(row, who.caller, now)) for row in rows],
        names=names,
        roles=list(Role) if who.scope is not None else [Role.OPERATOR],
        waits=sorted(role.value for role in NEED_CONFIRMATION),
        clears=sorted(role.value for role in READ_CONTENT),
        most=f"{MAX_LIFETIME.days}d",
        done=request.query_params.get("done", ""),
    )


@post("/keys", guards=[operates()], status_code=200)
async def create_key(request: AnyRequest) -> Response[Any]:
    """Make a key for the scope that is looked at, and show its text this once."""
    try:
        lifetime, role = timedelta(seconds=duration(field(request, "lifetime"))), Role(field(request, "role"))
    except ValueError:
        raise Malformed(detail="a key has a role and a lifetime, as in 90d") from None
    wanted = Wanted(
        role=role,
        scope_id=scope_id(request),
        lifetime=lifetime,
        clearances=frozenset(words(field(request, "clearances"))),
        note=field(request, "note"),
    )
    return _shown(request, await services(request).keys.create(wanted, signed(request).caller.key_id))


@post("/keys/{key_id:str}/confirm", guards=[operates()], status_code=_SEE_OTHER)
async def confirm_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Let a key be used that another operator made."""
    await services(request).keys.confirm(_key_id(key_id), signed(request).caller)
    return redirect("/desk/keys", done="confirmed")


@post("/keys/{key_id:str}/rotate", guards=[operates()], status_code=200)
async def rotate_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Give a key a second secret, and show it this once."""
    return _shown(request, await services(request).keys.rotate(_key_id(key_id), signed(request).caller))


@post("/keys/{key_id:str}/retire", guards=[operates()], status_code=_SEE_OTHER)
async def retire_secret(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """End the older of two secrets."""
    await services(request).keys.retire(_key_id(key_id), signed(request).caller)
    return redirect("/desk/keys", done="retired")


@get("/keys/{key_id:str}/revoke", guards=[operates()])
async def ask_revoke_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """Ask before a key is ended."""
    row = await services(request).keys.one(_key_id(key_id), signed(request).caller)
    return page(request, "desk_key_revoke.html", key=row)


@post("/keys/{key_id:str}/revoke", guards=[operates()], status_code=_SEE_OTHER)
async def revoke_key(request: AnyRequest, key_id: FromPath[str]) -> Response[Any]:
    """End a key, and every session that was begun with it."""
    await services(request).keys.revoke(_key_id(key_id), signed(request).caller)
    return redirect("/desk/keys", done="revoked")


HANDLERS: Final = (
    list_keys, create_key, confirm_key, rotate_key, retire_secret, ask_revoke_key, revoke_key,
)  # fmt: skip


def _key_id(text: str) -> str:
    """Return the id of a key; what is none is not found, like one that never was."""
    if KEY_ID.fullmatch(text) is None:
        raise NotFound
    return text


def _shown(request: AnyRequest, made: Made) -> Response[Any]:
    return page(request, "desk_key_made.html", key=made.row, text=made.text)


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
        confirm=live and row.confirmed_at is None and who.key_id not in (row.created_by, row.key_id),
        rotate=live and (own or row.role not in NEED_CONFIRMATION),
        revoke=row.revoked_at is None,
    )
