"""A tap for httpx and httpx2, sync and async: sees what goes over the wire, and lets it pass as it is.

    client = tap(httpx.Client())                                 # a client that exists, with its proxies
    client = httpx.Client(transport=tap(httpx.HTTPTransport()))  # a transport of one's own
    client = OpenAI(http_client=tap(DefaultHttpx2Client()))      # an SDK's

Sees: each physical try with its status (those that an SDK makes again as attempts of one exchange, where it counts them
in `x-stainless-retry-count`), the very bytes of the request's body and of the answer, how far the answer came, and
whether its reader stopped. Misses: which tries belong together where nobody counts them; bytes that nobody reads;
what does not go over HTTP. Never copied: headers, query and user of the address, fields that no provider documents.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from custody_client.adapters import logical_request
from custody_client.adapters.calls import (
    Call,
    Mark,
    Try,
    begin,
    current_call,
    may_come_again,
    running,
)
from custody_client.adapters.faults import harmless
from custody_client.adapters.receiving import broken, received
from custody_client.adapters.routes import Route, route_of
from custody_client.runs import Run

T = TypeVar("T")

_FAILED_FROM: Final = 400
_REDIRECTS: Final = range(300, 400)


def tap(wire: T, *, run: Run | None = None, within_calls: bool = False) -> T:
    """Tap a transport (returns another) or a client (taps its transports, and returns the client).

    Calls belong to `run`, else to that of the call around them, else to the current run; without one they pass unseen.
    With `within_calls` only those are seen that another adapter has begun.
    """
    if isinstance(wire, Tap):
        wire.widen(run, within_calls=within_calls)
        return wire
    if hasattr(wire, "handle_request") or hasattr(wire, "handle_async_request"):
        return cast("T", Tap(wire, run=run, within_calls=within_calls))
    with harmless("tap"):
        client: Any = wire
        client._transport = tap(client._transport, run=run, within_calls=within_calls)  # noqa: SLF001 -- no public way
        mounts: Mapping[Any, Any] = client._mounts  # noqa: SLF001 -- proxies are mounted transports
        client._mounts = {  # noqa: SLF001
            at: tap(mounted, run=run, within_calls=within_calls) if mounted is not None else None
            for at, mounted in mounts.items()
        }
    return wire


class Tap:
    """A transport before another one. What it does not know of a transport is the other's."""

    def __init__(self, transport: Any, *, run: Run | None = None, within_calls: bool = False) -> None:
        self._transport = transport
        self._run = run
        self._within_calls = within_calls

    def widen(self, run: Run | None, *, within_calls: bool) -> None:
        """Tap once more what is tapped already: one tap sees what both would."""
        self._run = self._run or run
        self._within_calls = self._within_calls and within_calls

    def handle_request(self, request: Any) -> Any:
        """Send one request, and return the response with its body still to be read."""
        passing = self._begun(request)
        if passing is None:
            return self._transport.handle_request(request)
        try:
            with passing.call.entered():
                response = self._transport.handle_request(request)
        except BaseException as error:
            passing.broke(error)
            raise
        passing.came(response)
        return response

    async def handle_async_request(self, request: Any) -> Any:
        """Send one request, as `handle_request` does."""
        passing = self._begun(request)
        if passing is None:
            return await self._transport.handle_async_request(request)
        try:
            with passing.call.entered():
                response = await self._transport.handle_async_request(request)
        except BaseException as error:
            passing.broke(error)
            raise
        passing.came(response)
        return response

    def _begun(self, request: Any) -> "Passing | None":
        if self._within_calls and current_call() is None:
            return None
        run = running(self._run)
        with harmless("tap", run):
            route = (
                route_of(request.url.host, request.url.path)
                if run is not None and request.method == "POST"
                else None
            )
            if run is not None and route is not None:
                return Passing(run, route, request, f"wire-{id(self)}")
        return None

    def close(self) -> None:
        """Close the other transport."""
        self._transport.close()

    async def aclose(self) -> None:
        """Close the other transport."""
        await self._transport.aclose()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.__exit__(kind, error, trace)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        if name == "_transport":  # not made yet, or being copied
            raise AttributeError(name)
        return getattr(self._transport, name)


class Passing:
    """One request on its way."""

    def __init__(self, run: Run, route: Route, request: Any, layer: str) -> None:
        self._route, self._layer = route, layer
        self._mark = _mark(request)
        self.call: Call = begin(run, self._mark)
        body = _body(request)
        self.call.request(
            lambda: logical_request.of_bytes(route, body),
            vantage="wire",
            completeness="complete" if body is not None else "unknown",
        )
        self._try: Try = self.call.attempt(layer)
        trace = str(request.headers.get("traceparent", "")).split("-")
        if len(trace) > 1:
            self._try.attempt.refer(trace=trace[1])

    def came(self, response: Any) -> None:
        """Look at what comes back."""
        with harmless("tap", self.call.run):
            if response.status_code in _REDIRECTS and "location" in response.headers:
                self._try.leave(self._layer)
                may_come_again(self.call, Mark(self._mark.key, self._mark.retry - 1))
                return
            self._try.attempt.dispatched()
            if response.status_code >= _FAILED_FROM:
                may_come_again(self.call, self._mark)
            received(self.call, self._try, self._route, response)

    def broke(self, error: BaseException) -> None:
        """Say that nothing came back."""
        with harmless("tap", self.call.run):
            broken(self.call, self._try, self._route, error)
            may_come_again(self.call, self._mark)


def _mark(request: Any) -> Mark:
    """Know a request again without looking at its body: by the SDK's own key, else by its length."""
    headers = request.headers
    retry = str(headers.get("x-stainless-retry-count", "0"))
    key = headers.get("idempotency-key") or headers.get("content-length")
    return Mark(key, int(retry) if retry.isdecimal() else 0)


def _body(request: Any) -> bytes | None:
    """Return the request's body; None where it is sent piece by piece and can be read but once, or is compressed."""
    if request.headers.get("content-encoding", "identity") != "identity":
        return None
    try:
        return bytes(request.content)
    except Exception:  # noqa: BLE001 -- each library has a RequestNotRead of its own
        return None
