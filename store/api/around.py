"""What goes around every request: its one log line, and the headers that no answer may lack."""

from typing import Any, Final, cast

from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from store.clock import monotonic
from store.logging import logger

# Evidence, and that there is or is not any, rests in no cache and is never taken for something to run.
_ALWAYS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_REFUSED: Final = 400
_HTTP_1: Final = "1"
_BODY_READ: Final = "body_read"


class RequestLine(ASGIMiddleware):
    """Writes one line per request when it is over: ids and closed words, the route's template, never its values."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Serve the request, and remember on the way whether its body was read and what was answered."""
        started = monotonic()
        request = cast("HTTPScope", scope)
        state: dict[str, Any] = scope["state"]
        status: int | None = None

        async def noting_receive() -> Any:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                state[_BODY_READ] = True
            return message

        async def noting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await next_app(scope, noting_receive, noting_send)
        finally:
            duration_s = monotonic() - started
            _write_line(request, status, duration_s)
            if status is not None:
                scope["litestar_app"].state.services.metrics.answered(
                    str(request["method"]), status, duration_s
                )


async def complete_headers(message: Message, scope: Scope) -> None:
    """Give an answer the headers that none may lack; close where a refused body is still on its way."""
    if message["type"] != "http.response.start":
        return
    headers = list(message.get("headers", ()))
    present = {name.lower() for name, _ in headers}
    headers += [(name, value) for name, value in _ALWAYS if name not in present]
    if message["status"] >= _REFUSED and _unread_body(scope):
        # A client that reuses the connection would have its body taken for the next request.
        headers.append((b"connection", b"close"))
    message["headers"] = headers
    if _route(scope) is None:
        _write_line(cast("HTTPScope", scope), message["status"], None)


def _unread_body(scope: Scope) -> bool:
    if not str(scope.get("http_version", _HTTP_1)).startswith(_HTTP_1):
        return False
    if scope.get("state", {}).get(_BODY_READ, False):
        return False
    return any(
        name in (b"content-length", b"transfer-encoding") and value != b"0"
        for name, value in scope["headers"]
    )


def _write_line(scope: HTTPScope, status: int | None, duration_s: float | None) -> None:
    state = scope.get("state", {})
    caller = state.get("caller")
    logger().info(
        "request",
        method=str(scope["method"]),
        route=_route(scope),
        status=status,
        outcome="answered" if status is not None else "no_answer",
        duration_ms=None if duration_s is None else round(duration_s * 1000, 1),
        key_id=None if caller is None else caller.key_id,
        role=None if caller is None else caller.role.value,
        scope_id=state.get("scope_id") or (None if caller is None else caller.scope_id),
        reason=state.get("reason"),
    )


def _route(scope: Scope | HTTPScope) -> str | None:
    """Return the template of the route, None where no route was found (the framework then leaves it out)."""
    template: str | None = scope.get("path_template")
    return template
