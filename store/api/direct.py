"""The short way of the calls that are made most: the framework's handlers, without the framework's layers.

A handler that is marked `DIRECT` is served here wherever its path is spelled as it is declared; whatever is spelled
otherwise (slashes doubled or at the end) goes the framework's way, to the same guards, function and faults. Measured:
the framework's layers cost a captured part more than its guard, its sealing and its place in the queue together
(docs/decisions/0009-captures-go-a-short-way.md).
"""

import re
from collections import defaultdict
from typing import Any, Final, cast

from litestar import Litestar, Request
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import HTTPScope, Receive, Scope, Send

from store.api.answers import Ready
from store.api.problems import answer_of

# In a handler's `opt`: it takes the bare request, returns a `Ready` answer, and asks the framework for nothing else.
DIRECT: Final = "direct"

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class Bare(Request[Any, Any, Any]):
    """A request that was only handed on: what the framework prepares for its own readers of bodies is not there."""

    __slots__ = ()

    def __init__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send


class Direct:
    """One handler of one path, and how it is served."""

    def __init__(self, handler: HTTPRouteHandler, template: str) -> None:
        self._handler = handler
        self._guards = handler.resolve_guards()
        self._template = template
        self._path = re.compile(_PARAMETER.sub(r"(?P<\1>[^/]+)", template))

    def serves(self, scope: HTTPScope) -> bool:
        """Say whether the request is for this handler, and note in its scope what the framework would note."""
        found = self._path.fullmatch(scope["path"])
        if found is None:
            return False
        scope["path_params"] = found.groupdict()
        scope["path_template"] = self._template
        scope["route_handler"] = self._handler
        return True

    async def serve(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Ask the guards, call the handler, and send its answer or that of its fault."""
        request = Bare(scope, receive, send)
        answer: Ready[Any]
        try:
            for guard in self._guards:
                await guard(request, self._handler)  # type: ignore[misc] # the framework's own annotation
            answer = await self._handler.fn(request)
        except Exception as fault:  # noqa: BLE001 - every fault has an answer
            answer = answer_of(request, fault)
        await answer(cast("Scope", scope), receive, send)


class ShortWays:
    """Every handler of an application that is marked for the short way, by its method."""

    def __init__(self, app: Litestar) -> None:
        self._app = app
        self._of_method: dict[str, list[Direct]] = defaultdict(list)
        for route in app.routes:
            for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
                if handler.opt.get(DIRECT, False):
                    for method in handler.http_methods:
                        self._of_method[method].append(Direct(handler, route.path_format))

    def find(self, scope: HTTPScope) -> Direct | None:
        """Return what serves the request, or None where the framework is to see to it."""
        for direct in self._of_method.get(scope["method"], ()):
            if direct.serves(scope):
                scope["app"] = scope["litestar_app"] = self._app
                return direct
        return None
