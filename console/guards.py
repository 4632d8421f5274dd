"""Who may have a page: a session, a role, and for every POST the token of a form of ours. Every route has one of these.

reads(), reads(Role.REVIEWER, …)    a session, of any role that signs in, or of one of these
operates()                          a session of an operator; what is done is recorded with the purpose that was said
before_signing_in                   nobody yet; a POST still needs the token of the form that we gave out
everybody                           files that say nothing
"""

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import FormMultiDict
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from console.cookies import Cookies, form_token, is_form_token
from policies.kinds import Role
from policies.reasons import Reason
from store.errors import CustodyError, Malformed, Unauthenticated
from store.ids import caller_id
from store.services.alarms import Raised
from store.services.console_sessions import SIGN_IN, Session
from store.services.keys import Caller
from store.services.paging import Reader
from store.services.purposes import for_purpose
from store.services.scopes import Scope
from store.wiring import Services

AnyRequest = Request[Any, Any, Any]
Connection = ASGIConnection[Any, Any, Any, Any]

FORM_FIELD: Final = "csrf"
FORM_HEADER: Final = "x-csrf-token"
SCOPE_PARAMETER: Final = "scope"
# What a route's `opt` says where its answer is a file that a page offers.
OF_A_PAGE: Final = "of_a_page"
# Which scope a page was of; empty: of none.
SHOWN_FIELD: Final = "shown_scope"
SHOWN_HEADER: Final = "x-shown-scope"

_PROXY_SECRET: Final = "custody-proxy-secret"  # noqa: S105 - the name of a header
_PROXY_IDENTITY: Final = "custody-identity"
_SIGNED: Final = "signed"
_ALARMS: Final = "alarms"
_ASKING: Final = frozenset({"GET", "HEAD"})
# What a browser says of where a request comes from; one that says nothing is old, or none, and the token decides.
_FROM_HERE: Final = frozenset({"same-origin", "none"})


class NotSignedIn(Exception):
    """There is no session, or none any more."""


class NoScope(CustodyError):
    """A store-wide operator opened a page of one scope and has chosen none."""

    def __init__(self) -> None:
        super().__init__(Reason.MALFORMED_REQUEST, "choose a scope first: your key is for the whole store")


@dataclass(frozen=True, slots=True)
class Signed:
    """Who is signed in, and within which scope (None: a store-wide operator who has chosen none)."""

    session: Session
    scope: Scope | None
    csrf: str
    form: FormMultiDict

    @property
    def caller(self) -> Caller:
        """Return whose key it is."""
        return self.session.caller

    @property
    def role(self) -> Role:
        """Return what the key may do."""
        return self.session.caller.role

    @property
    def purpose(self) -> str | None:
        """Return what was said that reads and actions of this session are for."""
        return self.session.purpose

    @property
    def of_store(self) -> bool:
        """Say whether the key is for the whole store."""
        return self.session.caller.scope_id is None

    @property
    def in_scope(self) -> Scope:
        """Return the scope; NoScope where none is chosen."""
        if self.scope is None:
            raise NoScope
        return self.scope

    @property
    def reader(self) -> Reader:
        """Return who reads, as the services want to know it; NoScope where no scope is chosen."""
        who = self.session.caller
        return Reader(self.in_scope.scope_id, who.key_id, who.role, who.clearances)


def services(connection: Connection) -> Services:
    """Return what the application was started with."""
    opened: Services = connection.scope["litestar_app"].state.services
    return opened


def cookies(connection: Connection) -> Cookies:
    """Return how our cookies are called here."""
    named: Cookies = connection.scope["litestar_app"].state.cookies
    return named


def signed(connection: Connection) -> Signed:
    """Return who is signed in, after a guard has asked."""
    found: Signed = connection.scope["state"][_SIGNED]
    return found


def still_good(connection: Connection) -> Callable[[], Awaitable[None]]:
    """Return what asks again, while an answer is sent, after its session and its key: Unauthenticated once they end."""
    return partial(services(connection).console_sessions.still, signed(connection).session)


def alarms(connection: Connection) -> Sequence[Raised]:
    """Return what stands at the top of a page; nothing where no guard has asked."""
    found: Sequence[Raised] = connection.scope["state"].get(_ALARMS, ())
    return found


def perhaps_signed(connection: Connection) -> Signed | None:
    """Return who is signed in, None where no guard has asked or nobody is."""
    found: Signed | None = connection.scope["state"].get(_SIGNED)
    return found


def _asks(connection: Connection) -> bool:
    return cast("AnyRequest", connection).method in _ASKING


def _asks_by_itself(connection: Connection) -> bool:
    """Say whether a page that stands open asks for a piece: one that looks again for hours is nobody at work."""
    return _asks(connection) and "hx-request" in connection.headers


def reads(*roles: Role) -> Guard:
    """Make a guard that lets sessions of these roles pass; of every role that signs in where none is named."""
    allowed = frozenset(roles) or SIGN_IN

    async def guard(connection: Connection, _: BaseRouteHandler) -> None:
        await _admit(connection, allowed)

    return guard


def operates() -> Guard:
    """Make a guard that lets operators pass."""
    return reads(Role.OPERATOR)


async def before_signing_in(connection: Connection, _: BaseRouteHandler) -> None:
    """Let anybody ask; a form must be one that we gave to this browser."""
    if not _asks(connection):
        await _require_our_form(connection, connection.cookies.get(cookies(connection).before, ""))


def vouched_for(connection: Connection) -> str | None:
    """Return the id of the key that a proxy vouches for; None unless it shows the secret that we share with it.

    Whoever can set headers here without being that proxy does not know the secret; and the proxy must let through no
    such header of a caller's own (docs/operations.md).
    """
    shared = services(connection).settings.console_proxy_secret
    said, named = (connection.headers.getall(name, []) for name in (_PROXY_SECRET, _PROXY_IDENTITY))
    if shared is None or len(said) != 1 or len(named) != 1:
        return None
    return named[0] if hmac.compare_digest(said[0].encode(), shared.reveal().encode()) else None


async def everybody(connection: Connection, _: BaseRouteHandler) -> None:
    """Let anybody pass: files that are the same for all."""


async def _admit(connection: Connection, allowed: frozenset[Role]) -> None:
    token = connection.cookies.get(cookies(connection).session)
    if token is None:
        raise NotSignedIn
    opened, state = services(connection), connection.scope["state"]
    try:
        session = await opened.console_sessions.find(token, used=not _asks_by_itself(connection))
    except Unauthenticated:
        raise NotSignedIn from None
    if vouched_for(connection) not in (None, session.caller.key_id):
        # Somebody else sits at this browser now, and whoever began the session has not signed out.
        raise NotSignedIn
    state["caller"] = session.caller
    form = FormMultiDict()
    if not _asks(connection):
        form = await _require_our_form(connection, token)
    session, scope = await _scope(connection, session, form)
    state[_SIGNED] = Signed(session, scope, form_token(token), form)
    state[_ALARMS] = await opened.alarms.raised(operates=session.caller.role is Role.OPERATOR)
    # After that, so that the page that refuses says as whom.
    if session.caller.role not in allowed:
        raise CustodyError(Reason.PERMISSION_DENIED, "your key's role does not reach this page")
    if session.caller.role is Role.OPERATOR:
        for_purpose(session.purpose)


async def _require_our_form(connection: Connection, token: str) -> FormMultiDict:
    """Refuse what another site, or a page that is not this session's, sends."""
    if connection.headers.get("sec-fetch-site", "same-origin") not in _FROM_HERE:
        raise CustodyError(Reason.PERMISSION_DENIED, "this form was sent from another site")
    form = await cast("AnyRequest", connection).form()
    # htmx sends a form with the header of its page: then both are there, and both must be right.
    given = [*form.getall(FORM_FIELD, []), *connection.headers.getall(FORM_HEADER, [])]
    if not given or not token or not all(is_form_token(token, str(each)) for each in given):
        raise CustodyError(
            Reason.PERMISSION_DENIED, "this form is not of your session: open the page again and send it anew"
        )
    return form


async def _scope(
    connection: Connection, session: Session, form: FormMultiDict
) -> tuple[Session, Scope | None]:
    """Return the key's scope; of a store-wide one that of the page of a form or a piece, else the one chosen last."""
    shown = [*form.getall(SHOWN_FIELD, []), *connection.headers.getall(SHOWN_HEADER, [])]
    if session.caller.scope_id is None and shown and (not _asks(connection) or _asks_by_itself(connection)):
        # Another page may have chosen another scope since: what is done is done, and then shown, where this one said.
        scope = await _of_page(services(connection), {str(each) for each in shown})
        chosen = None if scope is None else scope.scope_id
        # A page that asks for a piece of itself chooses nothing: nobody went anywhere.
        if chosen != session.scope_id and not _asks(connection):
            session = await services(connection).console_sessions.choose(session, chosen)
    else:
        session, scope = await _chosen(connection, session)
    connection.scope["state"]["scope_id"] = None if scope is None else scope.scope_id
    return session, scope


async def _of_page(opened: Services, shown: set[str]) -> Scope | None:
    if len(shown) > 1:
        raise Malformed(detail="the page names two scopes")
    name = shown.pop()
    return await opened.scopes.by_name(caller_id(name)) if name else None


async def _chosen(connection: Connection, session: Session) -> tuple[Session, Scope | None]:
    opened, named = services(connection), connection.query_params.getall(SCOPE_PARAMETER, [])
    if len(named) > 1:
        raise Malformed(detail="scope is named twice")
    scope = None if session.scope_id is None else await opened.scopes.get(session.scope_id)
    if named and (scope is None or scope.name != named[0]):
        if session.caller.scope_id is not None:
            raise Malformed(detail="the address names another scope than that of your key")
        scope = await opened.scopes.by_name(caller_id(named[0]))
        # Who takes a file of a page stays where they are.
        if connection.route_handler.opt.get(OF_A_PAGE):
            session = replace(session, scope_id=scope.scope_id)
        else:
            session = await opened.console_sessions.choose(session, scope.scope_id)
    return session, scope
