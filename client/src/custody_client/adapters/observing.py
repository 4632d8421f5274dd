"""`observe(client)`: an SDK's client whose calls are captured; it stays the same object, of the same class.

For openai and anthropic (sync and async, any subclass: Azure, Bedrock, Vertex) and google-genai. All that an SDK builds
on its requests works as before, and is seen: streams, `.stream()`, `.parse()`, `.with_raw_response`, `.with_options()`,
tool runners. Sees: the fields of each request as the SDK was given them, every try (its retries too), the very bytes of
the answer, how far it came, and whether its reader stopped. Misses: embeddings, files, batches, realtime sockets, and
answers fetched later (`responses.retrieve`). Never copied: headers, query, fields that no provider documents.
"""

import inspect
from typing import Any, Final, TypeVar

from custody_client.adapters import gemini, logical_request
from custody_client.adapters.answers import Answer
from custody_client.adapters.calls import Call, begin, running
from custody_client.adapters.faults import harmless, noted
from custody_client.adapters.receiving import received
from custody_client.adapters.routes import Route, route_of
from custody_client.adapters.transports import Tap, tap
from custody_client.runs import Run

Client = TypeVar("Client")

# What these SDKs put where an argument was not given; it is taken out before a request is built.
_NOT_GIVEN: Final = frozenset({"NotGiven", "Omit"})
_MARK: Final = "_custody_observed"


def observe(client: Client, *, run: Run | None = None) -> Client:
    """Capture what this client calls, for `run`, else for whichever run is current; returns the client.

    A client of an unknown kind is returned as it is, which is logged.
    """
    with harmless("observe"):
        roots = {parent.__module__.partition(".")[0] for parent in type(client).__mro__}
        if _MARK in vars(client):
            return client
        if roots & {"anthropic", "openai"}:
            _observe_requests(client, run)
        elif hasattr(client, "_api_client") and "google" in roots:
            gemini.observe_api(client._api_client, run)  # noqa: SLF001 -- its only way in
        else:
            noted("observe", f"unknown client {type(client).__name__}")
            return client
        setattr(client, _MARK, True)
    return client


def _observe_requests(client: Any, run: Run | None) -> None:
    """Stand before the one method through which all resources of these SDKs go, around the SDK's retry loop.

    Anthropic's reads what can be read but once (iterators, files) before `_request`; before that nobody else may.
    """
    tap(client._client, within_calls=True)  # noqa: SLF001 -- each physical try passes there; if not, see `came`
    name = "_request" if hasattr(client, "_copy_and_prepare") else "request"
    original = getattr(client, name)
    wrapped = _async_request if inspect.iscoroutinefunction(original) else _request
    setattr(client, name, wrapped(original, client, run))
    for name in ("copy", "with_options"):
        setattr(client, name, _copy(getattr(client, name), run))


def _request(original: Any, client: Any, run: Run | None) -> Any:
    def request(*args: Any, **kwargs: Any) -> Any:
        asking = _asked(client, run, args, kwargs)
        if asking is None:
            return original(*args, **kwargs)
        try:
            with asking.call.entered():
                result = original(*args, **kwargs)
        except BaseException as error:
            asking.broke(error)
            raise
        asking.came(result)
        return result

    return request


def _async_request(original: Any, client: Any, run: Run | None) -> Any:
    async def request(*args: Any, **kwargs: Any) -> Any:
        asking = _asked(client, run, args, kwargs)
        if asking is None:
            return await original(*args, **kwargs)
        try:
            with asking.call.entered():
                result = await original(*args, **kwargs)
        except BaseException as error:
            asking.broke(error)
            raise
        asking.came(result)
        return result

    return request


def _copy(original: Any, run: Run | None) -> Any:
    def copy(*args: Any, **kwargs: Any) -> Any:
        return observe(original(*args, **kwargs), run=run)

    return copy


def _asked(client: Any, named: Run | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_Asking | None":
    run = running(named)
    with harmless("observe", run):
        options = args[1] if len(args) > 1 else kwargs["options"]
        if run is None or options.method.lower() != "post":
            return None
        route = route_of(client.base_url.host, str(options.url))
        return _Asking(run, route, options, client) if route is not None else None
    return None


class _Asking:
    """One request on its way through the SDK."""

    def __init__(self, run: Run, route: Route, options: Any, client: Any) -> None:
        self._route, self._client = route, client
        self.call: Call = begin(run)
        self.call.request(lambda: logical_request.of_options(route, _body(options)))

    def came(self, result: Any) -> None:
        """Look at the result, where its bytes could not be seen on their way."""
        with harmless("observe", self.call.run):
            tried = self.call.last
            if tried.claimed:
                return
            tried.attempt.dispatched()
            http = getattr(result, "http_response", None) or getattr(result, "response", None)
            if hasattr(http, "is_stream_consumed"):
                received(self.call, tried, self._route, http)
            elif tried.claim():
                Answer(self.call, tried, self._route, vantage="sdk", streamed=False).whole(result)

    def broke(self, error: BaseException) -> None:
        """Say that the SDK raised."""
        with harmless("observe", self.call.run):
            tapped = isinstance(getattr(self._client._client, "_transport", None), Tap)  # noqa: SLF001 -- as above
            self.call.broke(error, watched=tapped)


def _body(options: Any) -> dict[str, Any]:
    """Give the fields that the SDK was given, those of `extra_body` too, but not headers, query or files."""
    fields = {**(options.json_data or {}), **(options.extra_json or {})}
    return {name: value for name, value in fields.items() if type(value).__name__ not in _NOT_GIVEN}
