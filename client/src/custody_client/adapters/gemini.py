"""What `observe` does for google-genai: it stands before the one object through which all calls of its models go.

The SDK may use httpx2, httpx, aiohttp or requests below. What is seen of an answer is what the SDK has decoded, before
it hands it on; a tap below, if there is one, is nearer to the wire and goes before.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from custody_client.adapters import logical_request
from custody_client.adapters.answers import Answer
from custody_client.adapters.calls import Call, Try, begin, current_call, running
from custody_client.adapters.faults import harmless
from custody_client.adapters.receiving import broken
from custody_client.adapters.routes import Route, route_of
from custody_client.runs import Run

LAYER: Final = "sdk"


def observe_api(api: Any, run: Run | None) -> None:
    """Stand before the requests of a client, and before each try of one."""
    wrapped = {
        "request": _plain(api, api.request, run),
        "request_streamed": _streamed(api, api.request_streamed, run),
        "async_request": _awaited(api, api.async_request, run),
        "async_request_streamed": _awaited(api, api.async_request_streamed, run),
        # The SDK's retries are around these, and nothing else is.
        "_request_once": _tried(api._request_once),  # noqa: SLF001 -- there is no public place
        "_async_request_once": _tried_async(api._async_request_once),  # noqa: SLF001 -- as above
    }
    # All of them are there, or none is touched.
    for name, method in wrapped.items():
        setattr(api, name, method)


def _plain(api: Any, original: Any, run: Run | None) -> Any:
    def request(*args: Any, **kwargs: Any) -> Any:
        call = _asked(api, run, *args, **kwargs)
        if call is None:
            return original(*args, **kwargs)
        try:
            with call.entered():
                return original(*args, **kwargs)
        except BaseException as error:
            call.broke(error)
            raise

    return request


def _awaited(api: Any, original: Any, run: Run | None) -> Any:
    async def request(*args: Any, **kwargs: Any) -> Any:
        call = _asked(api, run, *args, **kwargs)
        if call is None:
            return await original(*args, **kwargs)
        try:
            with call.entered():
                return await original(*args, **kwargs)
        except BaseException as error:
            call.broke(error)
            raise

    return request


def _streamed(api: Any, original: Any, run: Run | None) -> Any:
    def request_streamed(*args: Any, **kwargs: Any) -> Any:
        call = _asked(api, run, *args, **kwargs)
        answered = original(*args, **kwargs)
        return answered if call is None else _Entered(call, answered)

    return request_streamed


class _Entered:
    """A generator that sends its request when it is first asked: within its call then."""

    def __init__(self, call: Call, inner: Any) -> None:
        self._call, self._inner = call, inner

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            with self._call.entered():
                return next(self._inner)
        except StopIteration:
            raise
        except BaseException as error:
            self._call.broke(error)
            raise

    def close(self) -> None:
        self._inner.close()


def _tried(original: Any) -> Any:
    def request_once(*args: Any, **kwargs: Any) -> Any:
        trying = _trying(*args, **kwargs)
        if trying is None:
            return original(*args, **kwargs)
        try:
            response = original(*args, **kwargs)
        except BaseException as error:
            trying.broke(error)
            raise
        trying.came(response)
        return response

    return request_once


def _tried_async(original: Any) -> Any:
    async def request_once(*args: Any, **kwargs: Any) -> Any:
        trying = _trying(*args, **kwargs)
        if trying is None:
            return await original(*args, **kwargs)
        try:
            response = await original(*args, **kwargs)
        except BaseException as error:
            trying.broke(error)
            raise
        trying.came(response)
        return response

    return request_once


def _asked(
    api: Any,
    named: Run | None,
    method: str,
    path: str,
    body: Mapping[str, Any],
    options: Any = None,
    **_: Any,
) -> Call | None:
    run = running(named)
    with harmless("observe gemini", run):
        route = route_of(_host(api, options), path) if run is not None and method.lower() == "post" else None
        if run is None or route is None:
            return None
        call = begin(run)
        call.request(lambda: logical_request.of_options(route, _body(body, options)))
        return call
    return None


def _body(body: Mapping[str, Any], options: Any) -> dict[str, Any]:
    """Give the request's fields; names with an underscore are the SDK's own notes."""
    fields = {**body, **(_of(options, "extra_body") or {})}
    return {name: value for name, value in fields.items() if not name.startswith("_")}


def _host(api: Any, options: Any) -> str:
    base = _of(options, "base_url") or _of(api._http_options, "base_url") or ""  # noqa: SLF001 -- no public way
    return urlsplit(str(base)).hostname or ""


def _of(options: Any, name: str) -> Any:
    return options.get(name) if isinstance(options, Mapping) else getattr(options, name, None)


def _trying(request: Any, *_: Any, **__: Any) -> "_Trying | None":
    call = current_call()
    if call is None:
        return None
    with harmless("observe gemini", call.run):
        url = urlsplit(str(request.url))
        if route := route_of(url.hostname or "", url.path):
            return _Trying(call, route)
    return None


class _Trying:
    """One try on its way."""

    def __init__(self, call: Call, route: Route) -> None:
        self._call, self._route = call, route
        self._try: Try = call.attempt(LAYER)

    def came(self, response: Any) -> None:
        """Look at what comes back: the SDK's own form of a response."""
        with harmless("observe gemini", self._call.run):
            self._try.attempt.dispatched()
            if not self._try.claim():
                return
            held = response.response_stream
            answer = self._answer(streamed=not isinstance(held, list))
            if isinstance(held, list):
                answer.whole(str(held[0]).encode() if held else b"")
            else:
                response.segments = partial(_segments, response.segments, answer)
                response.async_segments = partial(_async_segments, response.async_segments, answer)

    def broke(self, error: BaseException) -> None:
        """Say that the try failed: by a status, whose body the SDK keeps, or without any answer."""
        with harmless("observe gemini", self._call.run):
            code = getattr(error, "code", None)
            if not isinstance(code, int):
                broken(self._call, self._try, self._route, error)
                return
            self._try.attempt.dispatched()
            if self._try.claim():
                self._answer(status=code, streamed=False).whole(getattr(error, "details", None))

    def _answer(self, *, streamed: bool, status: int = 200) -> Answer:
        return Answer(self._call, self._try, self._route, vantage="sdk", status=status, streamed=streamed)


def _segments(original: Callable[[], Iterator[Any]], answer: Answer) -> Iterator[Any]:
    try:
        for chunk in original():
            answer.event(chunk)
            yield chunk
    except GeneratorExit:
        answer.closed()
        raise
    except BaseException as error:
        answer.broke(error)
        raise
    answer.ended()


async def _async_segments(original: Callable[[], AsyncIterator[Any]], answer: Answer) -> AsyncIterator[Any]:
    try:
        async for chunk in original():
            answer.event(chunk)
            yield chunk
    except GeneratorExit:
        answer.closed()
        raise
    except BaseException as error:
        answer.broke(error)
        raise
    answer.ended()
