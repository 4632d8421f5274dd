"""What goes wrong, as a page: with the status and the words that the api's problems have, and nothing of the cause."""

from typing import Any, Final
from urllib.parse import quote

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from console.cookies import Cookies
from console.guards import AnyRequest, NoScope, NotSignedIn, cookies
from console.rendering import fragment, page, redirect, wants_fragment
from policies.documents import PolicyFault
from policies.reasons import RETRYABLE, Reason
from store.errors import CustodyError, Gone, RowRefused, Unavailable
from store.logging import logger
from store.services.refusals import REASON_OF_STATUS, status_of

_SERVER_FAULT: Final = 500
_CLIENT_FAULTS: Final = range(400, 500)
_UNAUTHENTICATED: Final = 401
_READS: Final = frozenset({"GET", "HEAD"})


def answer(request: AnyRequest, reason: Reason, status: int, detail: str = "") -> Response[str]:
    """Answer a refusal or fault as a page, or as a piece of one."""
    request.scope["state"]["reason"] = reason.value
    facts = {"reason": reason, "code": status, "detail": detail}
    if wants_fragment(request):
        return fragment(request, "fault_piece.html", status=status, whole=False, **facts)
    # The same address again, where asking again changes nothing by itself.
    again = str(request.method) in _READS
    return page(request, "fault.html", status=status, whole=True, again=again, **facts)


def _on_not_signed_in(request: AnyRequest, _: NotSignedIn) -> Response[Any]:
    """Lead to the sign-in, and from there back to where somebody wanted to go; a form that was sent is lost."""
    request.scope["state"]["reason"] = Reason.UNAUTHENTICATED.value
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    asked = str(request.method) in _READS
    if wants_fragment(request):
        lead: Response[Any] = Response(
            b"", status_code=_UNAUTHENTICATED, media_type="text/plain", headers={"HX-Redirect": "/sign-in"}
        )
    elif not asked:
        lead = answer(request, Reason.UNAUTHENTICATED, _UNAUTHENTICATED)
    else:
        lead = redirect("/sign-in" + ("" if path == "/" else f"?next={quote(path, safe='')}"))
    named: Cookies = cookies(request)
    if named.session in request.cookies:
        lead.headers["Set-Cookie"] = named.drop(named.session)
    return lead


def _on_custody_error(request: AnyRequest, error: CustodyError) -> Response[str]:
    if isinstance(error, RowRefused):
        return _on_exception(request, error)
    try:
        status = status_of(error.reason, str(request.method), destroyed=isinstance(error, Gone))
    except KeyError:
        return _on_exception(request, error)
    if status >= _SERVER_FAULT:
        cause = error.cause if isinstance(error, Unavailable) else None
        event = "unavailable" if error.reason in RETRYABLE else "corrupt"
        logger().warning(event, reason=error.reason.value, cause=cause)
    return answer(request, error.reason, status, "" if isinstance(error, Unavailable) else error.detail)


def _on_no_scope(request: AnyRequest, error: NoScope) -> Response[Any]:
    """Lead to the list of scopes, where one can be chosen."""
    request.scope["state"]["reason"] = error.reason.value
    return redirect("/desk/scopes", choose="1")


def _on_policy_fault(request: AnyRequest, fault: PolicyFault) -> Response[str]:
    return answer(request, Reason.MALFORMED_REQUEST, 400, str(fault))


def _on_http_exception(request: AnyRequest, error: HTTPException) -> Response[str]:
    if error.status_code not in _CLIENT_FAULTS:
        return _on_exception(request, error)
    reason = REASON_OF_STATUS.get(error.status_code, Reason.MALFORMED_REQUEST)
    # Without the framework's words, which repeat what was sent.
    return answer(request, reason, error.status_code)


def _on_exception(request: AnyRequest, error: Exception) -> Response[str]:
    logger().error(
        "internal", exc_info=error, method=str(request.method), route=request.scope.get("path_template")
    )
    return answer(request, Reason.INTERNAL, _SERVER_FAULT)


HANDLERS: Final[ExceptionHandlersMap] = {
    NotSignedIn: _on_not_signed_in,
    NoScope: _on_no_scope,
    CustodyError: _on_custody_error,
    PolicyFault: _on_policy_fault,
    HTTPException: _on_http_exception,
    Exception: _on_exception,
}
