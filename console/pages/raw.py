"""The exact bytes of one part, as text or as an attachment, in a sandbox: nothing in them is ever run or fetched."""

from typing import Any, Final
from uuid import UUID

from litestar import Response, Router, get
from litestar.params import FromPath

from console.guards import AnyRequest, reads, services, signed
from console.pages.attempts import reading
from console.pages.sides import needs_purpose
from console.rendering import page
from policies.kinds import Role
from store.errors import Malformed, NotFound
from store.services.content import ContentView

_TEXT: Final = "text/plain"
_OPAQUE: Final = "application/octet-stream"
_SANDBOX: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"
_BAD_REQUEST: Final = 400


@get("/parts/{evidence:str}/raw", guards=[reads(Role.REVIEWER, Role.CUSTODIAN)])
async def show_raw(request: AnyRequest, evidence: FromPath[str]) -> Response[Any]:
    """Give the bytes that were posted; this is a read like any other, and recorded."""
    who, named = signed(request), _evidence(evidence)
    if needs_purpose(who):
        return _ask(request)
    try:
        view = await services(request).content.read(who.reader, named, who.purpose)
    except Malformed:
        return _ask(request)
    return Response(view.content, media_type=_TEXT if view.text else _OPAQUE, headers=_headers(view))


def _ask(request: AnyRequest) -> Response[str]:
    return page(
        request, "purpose.html", status=_BAD_REQUEST, **(reading(signed(request)) | {"wanting": True})
    )


def _headers(view: ContentView) -> dict[str, str]:
    headers = {"Content-Security-Policy": _SANDBOX, "Repr-Digest": view.repr_digest()}
    if not view.text:
        headers["Content-Disposition"] = f'attachment; filename="{view.evidence}.bin"'
    return headers


def _evidence(text: str) -> UUID:
    try:
        evidence = UUID(text)
    except ValueError:
        raise NotFound from None
    if str(evidence) != text.lower():
        raise NotFound
    return evidence


router = Router("/", route_handlers=[show_raw])
