"""What goes around every request: headers that no answer may lack, and one log line."""

from collections.abc import Iterable
from typing import Any, Final

from litestar.types import Message, Scope, Send

from store import logging
from store.clock import monotonic
from store.services.metrics import Metrics

# Nothing but files of ours, no script or style in a page, nobody's frame. A raw part says otherwise of itself.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"x-frame-options", b"DENY"),
)
# Where the answer does not say it itself: a file under the name of its bytes may be kept, a raw part is in a sandbox.
_USUALLY: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", POLICY.encode("ascii")),
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST"})


class Call:
    """One request under way."""

    __slots__ = ("_scope", "_send", "_started", "_status")

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope: Any = scope
        self._send = send
        self._started = monotonic()
        self._status: int | None = None

    def send(self, message: Message) -> Any:
        """Pass on what goes out, with the headers that it must have."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = list(message["headers"])
            message["headers"] = [*headers, *_ALWAYS, *_missing(headers)]
        return self._send(message)

    def over(self, metrics: Metrics) -> None:
        """Write its line, ids and closed words, the route's template and never its values; and count the answer."""
        seconds = monotonic() - self._started
        scope, state = self._scope, self._scope["state"]
        caller = state.get("caller")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        logging.request(
            logging.Request(
                method=method,
                route=scope.get("path_template"),
                status=self._status,
                outcome="answered" if self._status is not None else "no_answer",
                duration_ms=round(seconds * 1000, 1),
                key_id=None if caller is None else caller.key_id,
                role=None if caller is None else caller.role.value,
                scope_id=state.get("scope_id") or (None if caller is None else caller.scope_id),
                reason=state.get("reason"),
            )
        )
        if self._status is not None:
            metrics.answered(method, self._status, seconds)


def _missing(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    said = {name.lower() for name, _ in headers}
    return [(name, value) for name, value in _USUALLY if name not in said]
