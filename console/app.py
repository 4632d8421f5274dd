"""The application: routers in a list, the services behind them, and what holds for every request."""

import gc
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from litestar import Litestar, Router
from litestar.enums import ScopeType
from litestar.types import HTTPScope, LifeSpanReceive, LifeSpanScope, LifeSpanSend, Receive, Scope, Send

from console import sign_in
from console.around import Call
from console.cookies import Cookies
from console.faults import HANDLERS
from console.pages import (
    accesses,
    attempts,
    compare,
    desk,
    exports,
    files,
    lists,
    log,
    parts,
    raw,
    run,
    runs,
    session,
    tools,
)
from console.throttle import Throttle
from store import logging
from store.config import Settings, from_environment
from store.wiring import open_services

# A policy is the longest thing that anybody sends.
_MOST_BYTES: Final = 256 << 10

# Whoever adds a page adds its router here, and nothing else.
ROUTERS: Final[Sequence[Router]] = (
    sign_in.router,
    session.router,
    files.router,
    desk.router,
    runs.router,
    run.router,
    attempts.router,
    tools.router,
    compare.router,
    raw.router,
    parts.router,
    accesses.router,
    log.router,
    exports.router,
    lists.router,
)


class Console(Litestar):
    """The framework's application behind our own door: what goes around requests."""

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
        call = Call(scope, send)
        try:
            await super().__call__(scope, receive, call.send)
        finally:
            call.over(self.state.services.metrics)


def create_app(settings: Settings | None = None) -> Console:
    """Make the application, with the settings of the environment unless others are given."""
    if settings is not None:
        return _app(settings)
    settings = from_environment()
    logging.configure(settings.log_level)
    app = _app(settings)
    # What a process begins with, it keeps.
    gc.freeze()
    return app


def _app(settings: Settings) -> Console:
    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with open_services(settings) as services:
            app.state.services = services
            yield
            logging.flush()

    app = Console(
        route_handlers=list(ROUTERS),
        lifespan=[lifespan],
        exception_handlers=HANDLERS,
        openapi_config=None,
        logging_config=None,
        request_max_body_size=_MOST_BYTES,
        debug=False,
    )
    app.state.cookies = Cookies(settings)
    app.state.throttle = Throttle()
    return app
