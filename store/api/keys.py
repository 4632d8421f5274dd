"""API keys, for operators. A secret is in exactly one answer: the one that made it."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from litestar import Request, Router, get, post
from litestar.params import FromPath, JSONBody

from policies.kinds import Role
from policies.quantities import duration
from store.api.documents import MOST_BYTES, unambiguous
from store.api.identity import caller, named_scope, requires, services
from store.errors import Malformed, NotFound
from store.services.keys import KEY_ID, Made, Wanted
from store.tables.api_keys import KeyRow

AnyRequest = Request[Any, Any, Any]

_USUAL_LIFETIME: Final = "90d"


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to be made, for the scope of the call; `clearances` are for keys that read content."""

    role: Role
    lifetime: str = _USUAL_LIFETIME
    clearances: list[str] = []
    note: str = ""


class KeyView(msgspec.Struct, frozen=True):
    """A key without its secret. `confirmed_at` null: it waits for a second operator and is good for nothing yet."""

    key_id: str
    role: Role
    scope_id: str | None
    clearances: list[str]
    note: str
    secrets: int
    created_by: str
    created_at: datetime
    confirmed_at: datetime | None
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class MadeKey(msgspec.Struct, frozen=True):
    """A key with its text, which is shown only now."""

    key: KeyView
    text: str


class KeyList(msgspec.Struct, frozen=True):
    """Keys, newest first."""

    items: list[KeyView]


@post("/", operation_id="createKey", summary="Make a key")
async def create_key(request: AnyRequest, data: JSONBody[NewKey]) -> MadeKey:
    """Make a key. Reviewers', custodians' and operators' wait until another operator confirms them."""
    scope = await named_scope(request)
    wanted = Wanted(
        role=data.role,
        scope_id=None if scope is None else scope.scope_id,
        lifetime=_lifetime(data.lifetime),
        clearances=frozenset(data.clearances),
        note=data.note,
    )
    return _made(await services(request).keys.create(wanted, caller(request).key_id))


@get("/", operation_id="listKeys", summary="The newest keys of a scope, or of the whole store")
async def list_keys(request: AnyRequest) -> KeyList:
    """Return keys without secrets."""
    scope = await named_scope(request)
    rows = await services(request).keys.listed(None if scope is None else scope.scope_id)
    return KeyList([_view(row) for row in rows])


@post(
    "/{key_id:str}/confirm",
    operation_id="confirmKey",
    summary="Confirm a key that another operator made",
    status_code=200,
)
async def confirm_key(request: AnyRequest, key_id: FromPath[str]) -> KeyView:
    """Let a key be used; who made it cannot also confirm it."""
    return _view(await services(request).keys.confirm(_key_id(key_id), caller(request)))


@post("/{key_id:str}/rotate", operation_id="rotateKey", summary="Give a key a second secret", status_code=200)
async def rotate_key(request: AnyRequest, key_id: FromPath[str]) -> MadeKey:
    """Make a new secret; the one before it stays good until it is retired or the next rotation."""
    return _made(await services(request).keys.rotate(_key_id(key_id), caller(request)))


@post(
    "/{key_id:str}/retire",
    operation_id="retireSecret",
    summary="End the older of two secrets",
    status_code=200,
)
async def retire_secret(request: AnyRequest, key_id: FromPath[str]) -> KeyView:
    """End a rotation; with one secret this changes nothing."""
    return _view(await services(request).keys.retire(_key_id(key_id), caller(request)))


@post("/{key_id:str}/revoke", operation_id="revokeKey", summary="End a key", status_code=200)
async def revoke_key(request: AnyRequest, key_id: FromPath[str]) -> KeyView:
    """End a key; every process notices within seconds."""
    return _view(await services(request).keys.revoke(_key_id(key_id), caller(request)))


router = Router(
    "/v1/keys",
    route_handlers=[create_key, list_keys, confirm_key, rotate_key, retire_secret, revoke_key],
    guards=[requires(Role.OPERATOR)],
    before_request=unambiguous,
    request_max_body_size=MOST_BYTES,
    tags=["operators"],
)


def _key_id(text: str) -> str:
    """Return the id of a key; what is none is not found, like one that never was."""
    if KEY_ID.fullmatch(text) is None:
        raise NotFound
    return text


def _lifetime(text: str) -> timedelta:
    try:
        return timedelta(seconds=duration(text))
    except ValueError as fault:
        raise Malformed(detail=f"lifetime {fault}") from None


def _made(made: Made) -> MadeKey:
    return MadeKey(_view(made.row), made.text)


def _view(row: KeyRow) -> KeyView:
    return KeyView(
        key_id=row.key_id,
        role=row.role,
        scope_id=None if row.scope_id is None else str(row.scope_id),
        clearances=sorted(row.clearances),
        note=row.note,
        secrets=len(row.digests),
        created_by=row.created_by,
        created_at=row.created_at,
        confirmed_at=row.confirmed_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )
