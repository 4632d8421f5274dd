"""The application: routers in a list, the services behind them, and what holds for every request."""

import gc
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from litestar import Litestar, Router
from litestar.enums import ScopeType
from litestar.routes import HTTPRoute
from litestar.types import HTTPScope, LifeSpanReceive, LifeSpanScope, LifeSpanSend, Receive, Scope, Send

from store import logging
from store.api import (
    accesses,
    actions,
    captures,
    content,
    exports,
    health,
    holds,
    keys,
    lens,
    log,
    operations,
    reads,
    receipts,
    runs,
    schema,
    scopes,
    sources,
)
from store.api.around import Call
from store.api.bodies import BodyReader
from store.api.direct import ShortWays
from store.api.identity import no_credentials_in_url
from store.api.problems import HANDLERS
from store.config import Settings, from_environment
from store.wiring import open_services

# Requests leave hardly any garbage in circles; looking for it after every tenth of them costs more than it brings.
_GARBAGE: Final = 10_000

# Whoever adds calls adds a router here, and nothing else.
ROUTERS: Final[Sequence[Router]] = (
    runs.router,
    captures.router,
    receipts.router,
    reads.router,
    lens.router,
    content.router,
    accesses.router,
    actions.router,
    exports.router,
    sources.router,
    scopes.router,
    keys.router,
    operations.router,
    holds.router,
    log.router,
    health.router,
)


class Api(Litestar):
    """The framework's application behind our own door: what goes around requests, and the captures' short way."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self._short_ways = ShortWays(self)

    def __call__(
        self,
        scope: Scope | LifeSpanScope,
        receive: Receive | LifeSpanReceive,
        send: Send | LifeSpanSend,
    ) -> Coroutine[Any, Any, None]:
        """Serve one request; the server's other messages are the framework's own affair."""
        if scope["type"] == ScopeType.HTTP:
            return self._serve(cast("HTTPScope", scope), cast("Receive", receive), cast("Send", send))
        return super().__call__(scope, receive, send)

    async def _serve(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})
        call = Call(scope, receive, send)
        try:
            direct = self._short_ways.find(scope)
            if direct is None:
                await super().__call__(scope, call.receive, call.send)
            else:
                await direct.serve(scope, call.receive, call.send)
        finally:
            call.over(self.state.services.metrics)


def create_app(settings: Settings | None = None) -> Api:
    """Make the application, with the settings of the environment unless others are given."""
    if settings is not None:
        return _app(settings)
    settings = from_environment()
    logging.configure(settings.log_level)
    app = _app(settings)
    # What a process begins with, it keeps; looking through all of that again takes the collector 60 ms each time.
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    return app


def _app(settings: Settings) -> Api:
    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with open_services(settings) as services:
            app.state.services = services
            app.state.bodies = BodyReader(settings.body_deadline.total_seconds())
            yield
            logging.flush()

    return Api(
        route_handlers=[_mergeable(router) for router in ROUTERS],
        lifespan=[lifespan],
        guards=[no_credentials_in_url],
        exception_handlers=HANDLERS,
        openapi_config=schema.config(),
        logging_config=None,
        # Each router says how much it takes; the captures count by themselves.
        request_max_body_size=None,
        debug=False,
    )


def _mergeable(router: Router) -> Router:
    """Take the OPTIONS handlers that the framework made for a router out again; the application gets its own.

    Two routers may serve one path (a part is put by runtimes and read by reviewers), and two OPTIONS handlers on one
    path are refused.
    """
    for route in router.routes:
        if isinstance(route, HTTPRoute):
            route.route_handlers = [each for each in route.route_handlers if each.http_methods != {"OPTIONS"}]
    return router
