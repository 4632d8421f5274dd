"""Signing in with a key's text; or by the word of a proxy that signs people in, where one shares a secret with us."""

import math
from collections.abc import Hashable
from typing import Any, Final

from litestar import Response, Router, get, post

from console.cookies import form_token, is_token, new_token
from console.guards import AnyRequest, before_signing_in, cookies, services, vouched_for
from console.rendering import form_field, page, redirect
from console.throttle import OF_ADDRESS, OF_KEY, Bound, Throttle
from policies.reasons import Reason
from store.clock import monotonic
from store.errors import Unauthenticated
from store.logging import logger
from store.services.keys import KEY_TEXT

_REFUSED: Final = "That is not a key that can sign in here: it is unknown, ended, or a runtime's."
_NOT_VOUCHED: Final = "The proxy before this console names a key that cannot sign in here."
_UNAUTHENTICATED: Final = 401
_TOO_MANY: Final = 429
_LONGEST: Final = 256


@get("/sign-in", guards=[before_signing_in])
async def sign_in_page(request: AnyRequest) -> Response[Any]:
    """The form; or straight on, where a trusted proxy has already said who this is."""
    wanted = local(request.query_params.get("next"))
    named = vouched_for(request)
    # Who has just signed out is not signed in again at once.
    if named is None or "out" in request.query_params:
        return _form(request, wanted)
    try:
        token = await services(request).console_sessions.vouched(named)
    except Unauthenticated:
        logger().warning("sign_in_refused", reason=Reason.UNAUTHENTICATED.value)
        return _form(request, wanted, status=_UNAUTHENTICATED, fault=_NOT_VOUCHED)
    return _entered(request, token, wanted)


@post("/sign-in", guards=[before_signing_in], status_code=200)
async def sign_in(request: AnyRequest) -> Response[Any]:
    """Begin a session, or say that it cannot be; the same words for every text that is no good."""
    form = await request.form()
    text, wanted = str(form.get("key") or "").strip()[:_LONGEST], local(str(form.get("next") or ""))
    wait_s = _wait_s(request, text)
    if wait_s > 0:
        return _waits(request, wanted, wait_s)
    try:
        token = await services(request).console_sessions.sign_in(text)
    except Unauthenticated:
        _failed(request, text)
        return _form(request, wanted, status=_UNAUTHENTICATED, fault=_REFUSED)
    _succeeded(request, text)
    return _entered(request, token, wanted)


router = Router("/", route_handlers=[sign_in_page, sign_in])


def local(path: str | None) -> str:
    """Return where to go afterwards: a path of ours, or the beginning where it could be anything else."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")) or not path.isprintable():
        return "/runs"
    return path


def _entered(request: AnyRequest, token: str, wanted: str) -> Response[Any]:
    named = cookies(request)
    lead = redirect(wanted)
    lead.headers["Set-Cookie"] = named.put(named.session, token)
    return lead


def _form(
    request: AnyRequest, wanted: str, *, status: int = 200, fault: str = "", wait_s: float = 0.0
) -> Response[Any]:
    named = cookies(request)
    held = request.cookies.get(named.before, "")
    token = held if is_token(held) else new_token()
    shown = page(
        request,
        "sign_in.html",
        status=status,
        next=wanted,
        fault=fault,
        out="out" in request.query_params,
        csrf_field=form_field(form_token(token)),
    )
    if token != held:
        shown.headers["Set-Cookie"] = named.put(named.before, token)
    if wait_s:
        shown.headers["Retry-After"] = str(math.ceil(wait_s))
    return shown


def _waits(request: AnyRequest, wanted: str, wait_s: float) -> Response[Any]:
    minutes = math.ceil(wait_s / 60)
    said = f"Too many failed attempts. Try again in {minutes} minute{'s' if minutes > 1 else ''}."
    return _form(request, wanted, status=_TOO_MANY, fault=said, wait_s=wait_s)


def _counted(request: AnyRequest, text: str) -> list[tuple[Hashable, Bound]]:
    said = KEY_TEXT.fullmatch(text)
    key = [] if said is None else [(("key", said["id"]), OF_KEY)]
    return [*key, (("address", _address(request)), OF_ADDRESS)]


def _wait_s(request: AnyRequest, text: str) -> float:
    throttle: Throttle = request.app.state.throttle
    return max(throttle.wait_s(name, bound, monotonic()) for name, bound in _counted(request, text))


def _failed(request: AnyRequest, text: str) -> None:
    throttle: Throttle = request.app.state.throttle
    for name, bound in _counted(request, text):
        throttle.failed(name, bound, monotonic())
    request.scope["state"]["reason"] = Reason.UNAUTHENTICATED.value
    # Without the id that was named: it may be a slip of something secret.
    logger().warning("sign_in_refused", reason=Reason.UNAUTHENTICATED.value)


def _succeeded(request: AnyRequest, text: str) -> None:
    # Of the key alone: whoever has one good key may still be trying others.
    throttle: Throttle = request.app.state.throttle
    throttle.succeeded(_counted(request, text)[0][0])


def _address(request: AnyRequest) -> str:
    """Return who calls: the other end, or whom the proxy there names last."""
    direct = request.client.host if request.client else ""
    if not services(request).settings.console_forwarded:
        return direct
    named = ",".join(request.headers.getall("x-forwarded-for", [])).rpartition(",")[2].strip()
    return named[:_LONGEST] or direct
