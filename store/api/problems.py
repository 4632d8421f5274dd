"""Every refusal and fault as problem+json (RFC 9457), with the status of its reason, and nothing of the cause.

Fails closed: what is not in the table is `internal`, and the answer says nothing else.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from litestar import Request
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap
from litestar.utils.path import normalize_path

from policies.documents import PolicyFault
from policies.reasons import RETRYABLE, Reason, retryable
from store.api.answers import Ready
from store.errors import CustodyError, Gone, RowRefused, Unavailable
from store.logging import logger
from store.services.receipt_view import ReceiptView
from store.services.refusals import REASON_OF_STATUS, status_of, title

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:custody:reason:"

# A handler with this in its `opt` captures: whoever calls it must not try again (README, promise 1).
CAPTURES: Final = "captures"
_RETRY_AFTER_S: Final = "1"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A refused or failed request; `detail` holds our own words only. `receipt` is there where a part was posted."""

    type: str
    title: str
    status: int
    detail: str
    reason: Reason
    retryable: bool
    receipt: ReceiptView | msgspec.UnsetType = msgspec.UNSET
    recorded: bool | msgspec.UnsetType = msgspec.UNSET


class NotCaptured(CustodyError):
    """What was posted is refused. One part has a receipt that says so; a flush or note only whether it is recorded."""

    def __init__(self, reason: Reason, receipt: ReceiptView | None, *, recorded: bool = False) -> None:
        super().__init__(reason)
        self.receipt = receipt
        self.recorded = recorded if receipt is None else receipt.recorded


_METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_NOT_ALLOWED: Final = 405
_CLIENT_FAULTS: Final = range(400, 500)
_SERVER_FAULT: Final = 500


def problem_response(
    reason: Reason,
    status: int,
    detail: str = "",
    *,
    waits: bool = True,
    refused: NotCaptured | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Ready[bytes]:
    """Answer a problem; `waits` says whether the caller waits for the outcome, so that trying again makes sense."""
    again = retryable(reason, waits=waits)
    problem = Problem(
        type=TYPE_PREFIX + reason.value,
        title=title(reason),
        status=status,
        detail=detail or title(reason),
        reason=reason,
        retryable=again,
        receipt=refused.receipt if refused is not None and refused.receipt is not None else msgspec.UNSET,
        recorded=msgspec.UNSET if refused is None else refused.recorded,
    )
    said = dict(headers)
    if again:
        said["Retry-After"] = _RETRY_AFTER_S
    if reason is Reason.UNAUTHENTICATED:
        said["WWW-Authenticate"] = "Bearer"
    return Ready(msgspec.json.encode(problem), status, said, MEDIA_TYPE)


def _on_custody_error(request: Request[Any, Any, Any], error: CustodyError) -> Ready[bytes]:
    if isinstance(error, RowRefused):
        # Outside a writer this is a bug of ours: no caller can send a row.
        return _on_exception(request, error)
    reason = error.reason
    status = _status(reason, str(request.method), destroyed=isinstance(error, Gone))
    if status is None:
        return _on_exception(request, error)
    if status >= _SERVER_FAULT:
        cause = error.cause if isinstance(error, Unavailable) else None
        logger().warning(
            "unavailable" if reason in RETRYABLE else "corrupt", reason=reason.value, cause=cause
        )
    _note(request, reason)
    return problem_response(
        reason,
        status,
        "" if isinstance(error, Unavailable) else error.detail,
        waits=not _captures(request),
        refused=error if isinstance(error, NotCaptured) else None,
    )


def _on_policy_fault(request: Request[Any, Any, Any], fault: PolicyFault) -> Ready[bytes]:
    # The faults name fields, never values (policies.documents).
    _note(request, Reason.MALFORMED_REQUEST)
    return problem_response(Reason.MALFORMED_REQUEST, 400, str(fault))


def _on_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Ready[bytes]:
    if error.status_code not in _CLIENT_FAULTS:
        return _on_exception(request, error)
    reason = REASON_OF_STATUS.get(error.status_code, Reason.MALFORMED_REQUEST)
    _note(request, reason)
    headers = {"Allow": ", ".join(_allowed(request))} if error.status_code == _NOT_ALLOWED else {}
    return problem_response(reason, error.status_code, _framework_detail(error), headers=headers)


def _on_exception(request: Request[Any, Any, Any], error: Exception) -> Ready[bytes]:
    _note(request, Reason.INTERNAL)
    # The pipe keeps the class and our own frames of it; its message may quote what it met.
    logger().error(
        "internal", exc_info=error, method=str(request.method), route=request.scope.get("path_template")
    )
    return problem_response(Reason.INTERNAL, _SERVER_FAULT)


HANDLERS: Final[ExceptionHandlersMap] = {
    CustodyError: _on_custody_error,
    PolicyFault: _on_policy_fault,
    HTTPException: _on_http_exception,
    Exception: _on_exception,
}


def answer_of(request: Request[Any, Any, Any], error: Exception) -> Ready[bytes]:
    """Return the answer that an error becomes; the framework looks it up in the same way."""
    found = next(HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS)
    return cast("Ready[bytes]", found(request, error))


def _captures(request: Request[Any, Any, Any]) -> bool:
    # Where no route was found, there is no handler; the framework's types do not know that.
    handler = cast("dict[str, Any]", request.scope).get("route_handler")
    return handler is not None and bool(handler.opt.get(CAPTURES, False))


def _note(request: Request[Any, Any, Any], reason: Reason) -> None:
    """Leave the reason for the request's log line."""
    request.scope["state"]["reason"] = reason.value


def _status(reason: Reason, method: str, *, destroyed: bool) -> int | None:
    try:
        return status_of(reason, method, destroyed=destroyed)
    except KeyError:
        return None


def _framework_detail(error: HTTPException) -> str:
    """Name the parameters that were wrong, which are ours; the framework's messages echo values and URLs."""
    if not isinstance(error, ValidationException) or not isinstance(error.extra, list):
        return ""
    named = sorted({_parameter(fault) for fault in error.extra} - {""})
    return f"not as /schema says: {', '.join(named)}" if named else "not as /schema says"


def _allowed(request: Request[Any, Any, Any]) -> list[str]:
    """Ask the framework which methods the path has, which it knows and does not say."""
    routing = request.app.asgi_router.handle_routing
    found = []
    for method in _METHODS:
        try:
            routing(path=normalize_path(request.scope["path"]), method=method)
        except HTTPException:
            continue
        found.append(method)
    return found


def _parameter(fault: object) -> str:
    if not isinstance(fault, dict):
        return ""
    if fault.get("source") == "body":
        return "body"
    # Parameters are named by handlers; unknown ones from the query never get here.
    return str(fault.get("key", ""))
