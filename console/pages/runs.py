"""Runs: where everybody begins."""

from typing import Any

from litestar import Response, Router, get

from console.guards import AnyRequest, reads, services, signed
from console.rendering import page, redirect
from store.services.paging import Asked


@get("/", guards=[reads()])
async def home() -> Response[bytes]:
    """Lead to the runs."""
    return redirect("/runs")


@get("/runs", guards=[reads()])
async def list_runs(request: AnyRequest) -> Response[Any]:
    """One page by the time of declaration."""
    who = signed(request)
    asked = Asked(cursor=request.query_params.get("cursor"))
    found = await services(request).run_reads.runs(who.reader, None, asked)
    return page(request, "runs.html", runs=found.items, info=found.page)


router = Router("/", route_handlers=[home, list_runs])
