"""The application: routers in a list, the services behind them, and what holds for every request."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from litestar import Litestar, Router
from litestar.routes import HTTPRoute

from store import logging
from store.api import (
    accesses,
    captures,
    content,
    health,
    keys,
    operations,
    reads,
    receipts,
    runs,
    schema,
    scopes,
    sources,
)
from store.api.around import RequestLine, complete_headers
from store.api.identity import no_credentials_in_url
from store.api.problems import HANDLERS
from store.config import Settings, from_environment
from store.wiring import open_services

# Whoever adds calls adds a router here, and nothing else.
ROUTERS: Final[Sequence[Router]] = (
    runs.router,
    captures.router,
    receipts.router,
    reads.router,
    content.router,
    accesses.router,
    sources.router,
    scopes.router,
    keys.router,
    operations.router,
    health.router,
)


def create_app(settings: Settings | None = None) -> Litestar:
    """Make the application, with the settings of the environment unless others are given."""
    if settings is None:
        settings = from_environment()
        logging.configure(settings.log_level)
    used = settings

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with open_services(used) as services:
            app.state.services = services
            yield

    return Litestar(
        route_handlers=[_mergeable(router) for router in ROUTERS],
        lifespan=[lifespan],
        guards=[no_credentials_in_url],
        middleware=[RequestLine()],
        before_send=[complete_headers],
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
