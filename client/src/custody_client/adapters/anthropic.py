"""Middleware for Anthropic's SDK, 2 or later: `Anthropic(middleware=[adapters.anthropic.middleware()])`.

It runs once for each HTTP try, inside the SDK's retry loop, for sync and async clients, also of Bedrock and Vertex.
Sees: the fields of the request as the SDK was given them, every try with its status, the very bytes of the answer, how
far it came, and whether its reader stopped. Misses: what the SDK or a transport does to a request afterwards, and to
which host it goes; batches, token counts. Never copied: headers, query, fields that the provider does not document.
"""

from typing import Any, Final

import msgspec

from custody_client.adapters import logical_request
from custody_client.adapters.answers import Answer
from custody_client.adapters.calls import Call, Mark, Try, begin, may_come_again, running
from custody_client.adapters.faults import harmless
from custody_client.adapters.receiving import broken, received
from custody_client.adapters.routes import Route, route_of
from custody_client.runs import Run

LAYER: Final = "middleware"
_FAILED_FROM: Final = 400


def middleware(run: Run | None = None) -> Any:
    """Make the middleware, for `run`, else for whichever run is current; without one, calls pass unseen."""
    from anthropic import Middleware  # noqa: PLC0415 -- only who uses it has it

    class CustodyMiddleware(Middleware):  # type: ignore[misc] # where the SDK is not installed, its class is Any
        def handle(self, request: Any, call_next: Any) -> Any:
            passing = _begun(run, request)
            if passing is None:
                return call_next(request)
            try:
                with passing.call.entered():
                    response = call_next(request)
            except BaseException as error:
                passing.broke(error)
                raise
            passing.came(response)
            return response

        async def handle_async(self, request: Any, call_next: Any) -> Any:
            passing = _begun(run, request)
            if passing is None:
                return await call_next(request)
            try:
                with passing.call.entered():
                    response = await call_next(request)
            except BaseException as error:
                passing.broke(error)
                raise
            passing.came(response)
            return response

    return CustodyMiddleware()


def _begun(named: Run | None, request: Any) -> "_Passing | None":
    run = running(named)
    with harmless("anthropic middleware", run):
        if run is not None and request.method.upper() == "POST" and (route := route_of("", request.url)):
            return _Passing(run, msgspec.structs.replace(route, provider="anthropic"), request)
    return None


class _Passing:
    """One try on its way."""

    def __init__(self, run: Run, route: Route, request: Any) -> None:
        self._route = route
        # The SDK keeps the key over its retries; those of another call have another.
        self._mark = Mark(request.options.idempotency_key or request.url, request.retries_taken)
        self.call: Call = begin(run, self._mark)
        self.call.request(lambda: logical_request.of_options(route, _body(request)))
        self._try: Try = self.call.attempt(LAYER)

    def came(self, response: Any) -> None:
        """Look at what comes back: the SDK's wrapper of a response, or what another middleware put in its place."""
        with harmless("anthropic middleware", self.call.run):
            http = getattr(response, "http_response", None)
            if http is None:
                self._replaced(response)
                return
            self._try.attempt.dispatched()
            if http.status_code >= _FAILED_FROM:
                may_come_again(self.call, self._mark)
            answering = route_of(http.request.url.host, http.request.url.path)
            received(self.call, self._try, answering or self._route, http)

    def broke(self, error: BaseException) -> None:
        """Say that nothing came back."""
        with harmless("anthropic middleware", self.call.run):
            broken(self.call, self._try, self._route, error)
            may_come_again(self.call, self._mark)

    def _replaced(self, value: Any) -> None:
        self._try.attempt.not_dispatched()
        if self._try.claim():
            Answer(self.call, self._try, self._route, vantage="sdk", streamed=False).whole(value)


def _body(request: Any) -> dict[str, Any]:
    return {**(request.json or {}), **(request.options.extra_json or {})}
