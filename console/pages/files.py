"""What is the same for everybody: style and scripts, kept under the name of their bytes; signs of life and counts."""

from typing import Final

from litestar import Response, Router, get
from litestar.params import FromPath
from prometheus_client import generate_latest

from console.assets import ASSETS
from console.guards import AnyRequest, everybody, services
from store.errors import NotFound

# The framework adds the charset, which is utf-8.
_EXPOSITION: Final = "text/plain; version=0.0.4"
_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


@get("/static/{name:str}", guards=[everybody])
async def static_file(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
    """One file of ours; kept by the browser only where the address names these very bytes."""
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFound
    kept = _KEPT if request.query_params.get("v") == asset.mark else {}
    return Response(asset.content, media_type=asset.media_type, headers=kept)


@get("/livez", guards=[everybody], media_type="text/plain")
async def livez() -> str:
    """Say that the process lives, to whatever watches over it."""
    return "alive\n"


@get("/metrics", guards=[everybody], media_type=_EXPOSITION)
async def metrics(request: AnyRequest) -> bytes:
    """Count what this process did, for a collector from within: answers, corrupt reads, unusual ones."""
    return generate_latest(services(request).metrics.registry)


router = Router("/", route_handlers=[static_file, livez, metrics])
