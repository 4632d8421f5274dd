"""Who calls, and within which scope: one bearer key in one header, never in a URL."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from policies.kinds import Role
from policies.reasons import Reason
from store.errors import CustodyError, Malformed, Unauthenticated
from store.ids import caller_id
from store.services.keys import KEY_TEXT, Caller
from store.services.purposes import for_purpose
from store.services.scopes import Scope
from store.wiring import Services

Connection = ASGIConnection[Any, Any, Any, Any]

SCOPE_HEADER: Final = "custody-scope"
PURPOSE_HEADER: Final = "custody-purpose"

# Under these names people put credentials into URLs, from where they reach logs and proxies.
_CREDENTIAL_NAMES: Final = frozenset(
    {
        "token",
        "key",
        "access_token",
        "authorization",
        "api_key",
        "apikey",
        "auth",
        "bearer",
        "secret",
        "password",
    }
)
# What RFC 3986 lets a host be; with an "@" in it, a name and perhaps a password would stand before the host.
_HOST: Final = re.compile(rb"[0-9A-Za-z!$&'()*+,;=._~:\[\]%-]*")
_BEARER: Final = re.compile(r"[Bb]earer +(\S+)")
# More than anybody's query; what is longer is not looked through but refused.
_MOST_PARAMETERS: Final = 64


def services(connection: Connection) -> Services:
    """Return what the application was started with."""
    opened: Services = connection.scope["litestar_app"].state.services
    return opened


async def no_credentials_in_url(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request whose address carries a credential, before anything else looks at it."""
    scope = connection.scope
    query = scope["query_string"]
    if (query and _carries_credential(query.decode("latin-1"))) or KEY_TEXT.search(scope["path"]):
        raise Malformed(detail="credentials belong into the Authorization header, never into a URL")
    for name, value in scope["headers"]:
        if name == b"host" and _HOST.fullmatch(value) is None:
            raise Malformed(detail="Host is no host; credentials belong into the Authorization header")


def requires(*roles: Role) -> Guard:
    """Make a guard that lets only keys of these roles pass; it runs before any body is read."""
    allowed = frozenset(roles)

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        who = await authenticated(connection)
        if who.role not in allowed:
            raise CustodyError(Reason.PERMISSION_DENIED, "the key's role does not reach this call")
        if who.role is Role.OPERATOR:
            for_purpose(purpose_of(connection))

    return guard


def purpose_of(connection: Connection) -> str | None:
    """Return what the caller says that this is for."""
    said = said_in(connection, PURPOSE_HEADER)
    if len(said) > 1:
        raise Malformed(detail="Custody-Purpose is repeated")
    return said[0] if said else None


async def authenticated(connection: Connection) -> Caller:
    """Return who calls, remembered for this request."""
    state = connection.scope["state"]
    known: Caller | None = state.get("caller")
    if known is None:
        known = await services(connection).keys.authenticate(_bearer(connection))
        state["caller"] = known
    return known


def still_good(connection: Connection) -> Callable[[], Awaitable[Caller]]:
    """Return what asks again, while an answer is sent, who calls: Unauthenticated once the key is no good any more."""
    return partial(services(connection).keys.authenticate, _bearer(connection))


def caller(connection: Connection) -> Caller:
    """Return who calls, after a guard has asked."""
    who: Caller = connection.scope["state"]["caller"]
    return who


async def scope_of(connection: Connection) -> Scope:
    """Return the scope of the call: the key's own, or the one that a store-wide operator names."""
    scope = await named_scope(connection)
    if scope is None:
        raise Malformed(detail="a key of the whole store names a scope with Custody-Scope")
    return scope


async def named_scope(connection: Connection) -> Scope | None:
    """Return the scope of the call, or None where a store-wide operator means the whole store."""
    named = said_in(connection, SCOPE_HEADER)
    if len(named) > 1:
        raise Malformed(detail="Custody-Scope is repeated")
    who, book = caller(connection), services(connection).scopes
    if who.scope_id is not None:
        scope = await book.get(who.scope_id)
        if named and named[0] != scope.name:
            raise Malformed(detail="Custody-Scope contradicts the key")
    elif named:
        scope = await book.by_name(caller_id(named[0]))
    else:
        return None
    connection.scope["state"]["scope_id"] = scope.scope_id
    return scope


def said_in(connection: Connection, header: str) -> list[str]:
    """Return every value of a header, named in lower case; the framework's own way makes objects of all headers."""
    name = header.encode("ascii")
    return [value.decode("latin-1") for each, value in connection.scope["headers"] if each == name]


def _bearer(connection: Connection) -> str:
    given = [value for name, value in connection.scope["headers"] if name == b"authorization"]
    if len(given) > 1:
        raise Malformed(detail="Authorization is repeated")
    found = _BEARER.fullmatch(given[0].decode("latin-1")) if given else None
    if found is None:
        raise Unauthenticated
    return found[1]


def _carries_credential(query: str) -> bool:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise Malformed(detail="too many query parameters") from None
    return any(
        name.lower() in _CREDENTIAL_NAMES or KEY_TEXT.search(name + "=" + value) for name, value in pairs
    )
