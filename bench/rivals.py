"""The rivals that speak HTTP: the same server and framework, and nothing of what Custody does.

They are applications of their own, served like the api; what they need comes in their environment.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import asyncpg
from litestar import Litestar, Request, Response, get, put

DATABASE: Final = "BENCH_DATABASE_URL"

AnyRequest = Request[Any, Any, Any]


@put("/v1/runs/{run:str}/exchanges/{exchange:str}/attempts/{attempt:str}/parts/{kind:str}")
async def read_and_return(request: AnyRequest) -> Response[bytes]:
    """Read the body and return."""
    await request.body()
    return Response(b"{}", status_code=202, media_type="application/json")


@get("/rows/{key:str}")
async def select_row(request: AnyRequest) -> Response[bytes]:
    """Return the bytes of one row by its primary key."""
    pool: asyncpg.Pool = request.app.state.pool
    key = UUID(request.path_params["key"])
    content: bytes = await pool.fetchval("SELECT content FROM bench_rows WHERE id = $1", key)
    return Response(content, media_type="application/octet-stream")


def create_bare() -> Litestar:
    """Make the application that a capture is compared with."""
    return Litestar([read_and_return], openapi_config=None, logging_config=None, request_max_body_size=None)


def create_select() -> Litestar:
    """Make the application that a read of content is compared with."""

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with asyncpg.create_pool(os.environ[DATABASE], min_size=8, max_size=8) as pool:
            app.state.pool = pool
            yield

    return Litestar([select_row], lifespan=[lifespan], openapi_config=None, logging_config=None)
