"""Style and scripts: the same for everybody, and kept by browsers under the name of their bytes."""

from typing import Final

from litestar import Response, Router, get
from litestar.params import FromPath

from console.assets import ASSETS
from console.guards import AnyRequest, everybody
from store.errors import NotFound

_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


@get("/static/{name:str}", guards=[everybody])
async def static_file(request: AnyRequest, name: FromPath[str]) -> Response[bytes]:
    """One file of ours; kept by the browser only where the address names these very bytes."""
    asset = ASSETS.get(name)
    if asset is None:
        raise NotFound
    kept = _KEPT if request.query_params.get("v") == asset.mark else {}
    return Response(asset.content, media_type=asset.media_type, headers=kept)


router = Router("/", route_handlers=[static_file])
