"""Scopes and their policies, for operators."""

from datetime import datetime
from typing import Any

import msgspec
from litestar import Request, Router, get, post, put
from litestar.params import FromPath, JSONBody

from policies.kinds import Role
from policies.reasons import Reason
from store.api.documents import MOST_BYTES, unambiguous
from store.api.identity import caller, requires, services
from store.errors import CustodyError, NotFound
from store.ids import caller_id
from store.services.scopes import Scope

AnyRequest = Request[Any, Any, Any]


class NewScope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scope to be made; without a policy it gets the one of the settings."""

    name: str
    policy: dict[str, Any] | None = None


class PolicyDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole policy; what it leaves out has its default, not its present value."""

    policy: dict[str, Any]


class ScopeView(msgspec.Struct, frozen=True):
    """A scope and the policy in force."""

    scope_id: str
    name: str
    policy_version: int
    policy: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class ScopeList(msgspec.Struct, frozen=True):
    """The scopes that the key reaches."""

    items: list[ScopeView]


@post("/", operation_id="createScope", summary="Make a scope")
async def create_scope(request: AnyRequest, data: JSONBody[NewScope]) -> ScopeView:
    """Make a scope; its buckets and their keys follow within a second. For an operator of the whole store."""
    who = caller(request)
    if who.scope_id is not None:
        raise CustodyError(Reason.PERMISSION_DENIED, "only an operator of the whole store makes scopes")
    return _view(await services(request).scopes.create(caller_id(data.name), data.policy, who.key_id))


@get("/", operation_id="listScopes", summary="The scopes that the key reaches")
async def list_scopes(request: AnyRequest) -> ScopeList:
    """Return every scope for an operator of the whole store, else the key's own."""
    who, book = caller(request), services(request).scopes
    found = await book.all_scopes() if who.scope_id is None else [await book.get(who.scope_id)]
    return ScopeList([_view(scope) for scope in found])


@get("/{name:str}", operation_id="getScope", summary="One scope and its policy")
async def get_scope(request: AnyRequest, name: FromPath[str]) -> ScopeView:
    """Return one scope by its name."""
    return _view(await _reached(request, name))


@put("/{name:str}/policy", operation_id="putPolicy", summary="Put another policy in force")
async def put_policy(request: AnyRequest, name: FromPath[str], data: JSONBody[PolicyDocument]) -> ScopeView:
    """Replace the policy; every fault is named at once. Tickets of the version before are then too old."""
    found = await _reached(request, name)
    return _view(
        await services(request).scopes.put_policy(found.scope_id, data.policy, caller(request).key_id)
    )


router = Router(
    "/v1/scopes",
    route_handlers=[create_scope, list_scopes, get_scope, put_policy],
    guards=[requires(Role.OPERATOR)],
    before_request=unambiguous,
    request_max_body_size=MOST_BYTES,
    tags=["operators"],
)


async def _reached(request: AnyRequest, name: str) -> Scope:
    """Return the scope of that name within the key's reach; another is not even looked up: no time tells of it."""
    who, book = caller(request), services(request).scopes
    if who.scope_id is None:
        return await book.by_name(caller_id(name))
    scope = await book.get(who.scope_id)
    if scope.name != caller_id(name):
        raise NotFound
    return scope


def _view(scope: Scope) -> ScopeView:
    return ScopeView(
        scope_id=str(scope.scope_id),
        name=scope.name,
        policy_version=scope.version,
        policy=scope.policy.to_document(),
        created_at=scope.created_at,
        updated_at=scope.updated_at,
    )
