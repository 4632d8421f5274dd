"""The operators' desk."""

from litestar import Router

from console.pages.desk import erasures, holds, keys, overview, queue, scopes, sources, watching

router = Router(
    "/desk",
    route_handlers=[
        overview.overview,
        *scopes.HANDLERS,
        *keys.HANDLERS,
        *sources.HANDLERS,
        *holds.HANDLERS,
        *erasures.HANDLERS,
        queue.show_queue,
        *watching.HANDLERS,
    ],
)
