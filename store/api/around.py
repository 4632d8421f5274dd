"""What goes around every request, whichever way it is served: one log line, and headers that no answer may lack."""

from collections.abc import Iterable
from typing import Any, Final

from litestar.types import Message, Receive, Scope, Send

from store import logging
from store.clock import monotonic
from store.services.metrics import Metrics

# Evidence, and that there is or is not any, rests in no cache and is never taken for something to run. Said here only.
_ALWAYS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_CLOSE: Final = (b"connection", b"close")
_REFUSED: Final = 400
_HTTP_1: Final = "1"
# Whoever calls may make methods up; they are no words of ours.
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_OTHER: Final = "other"


class Call:
    """One request under way; it remembers whether the body was read to its end, and what was answered."""

    __slots__ = ("_body_read", "_receive", "_scope", "_send", "_started", "_status")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope: Any = scope
        self._receive = receive
        self._send = send
        self._started = monotonic()
        self._status: int | None = None
        self._body_read = False

    async def receive(self) -> Any:
        """Pass on what comes."""
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self._body_read = True
        return message

    def send(self, message: Message) -> Any:
        """Pass on what goes out, with the headers that it must have."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message["headers"], *self._added(message["status"])]
        return self._send(message)

    def over(self, metrics: Metrics) -> None:
        """Write its line, ids and closed words, the route's template and never its values; and count the answer."""
        seconds = monotonic() - self._started
        scope, status = self._scope, self._status
        state = scope["state"]
        caller = state.get("caller")
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        logging.request(
            logging.Request(
                method=method,
                # None where no route was found.
                route=scope.get("path_template"),
                status=status,
                outcome="answered" if status is not None else "no_answer",
                duration_ms=round(seconds * 1000, 1),
                key_id=None if caller is None else caller.key_id,
                role=None if caller is None else caller.role.value,
                scope_id=state.get("scope_id") or (None if caller is None else caller.scope_id),
                reason=state.get("reason"),
            )
        )
        if status is not None:
            metrics.answered(method, status, seconds)

    def _added(self, status: int) -> Iterable[tuple[bytes, bytes]]:
        if status >= _REFUSED and self._unread_body():
            # A client that reuses the connection would have its body taken for the next request.
            return (*_ALWAYS, _CLOSE)
        return _ALWAYS

    def _unread_body(self) -> bool:
        if self._body_read or not str(self._scope.get("http_version", _HTTP_1)).startswith(_HTTP_1):
            return False
        return any(
            name in (b"content-length", b"transfer-encoding") and value != b"0"
            for name, value in self._scope["headers"]
        )
