"""Content: exact bytes as text or as an attachment, never as something that a browser would run."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from litestar import Response, Router

from policies.reasons import Reason
from store.api.answers import Ready, get
from store.api.direct import DIRECT
from store.api.identity import purpose_of, requires, services
from store.api.reading import READERS, AnyRequest, only, reader_of
from store.api.schema import OPERATION
from store.errors import NotFound
from store.ids import caller_id
from store.services.content import MOST_PURPOSE, ContentView
from store.services.paging import Reader
from store.services.questions import evidence_of
from store.services.readback import PartIdentity
from store.services.said import known_kind

_TEXT: Final = "text/plain; charset=utf-8"
_OPAQUE: Final = "application/octet-stream"

_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}
PURPOSE_HEADER: Final[Mapping[str, Any]] = {
    "name": "Custody-Purpose",
    "in": "header",
    "required": False,
    "description": "What the read is for: recorded, and required where the scope's policy says so",
    "schema": {"type": "string", "maxLength": MOST_PURPOSE},
}
_DOCUMENTED: Final[Mapping[str, Any]] = {
    "parameters": [PURPOSE_HEADER],
    "responses": {
        "200": {
            "description": "The bytes that were posted; `Repr-Digest`, `ETag` (the commitment) and the part's identity",
            "content": {"text/plain": _BYTES, _OPAQUE: _BYTES},
        },
    },
}


@get(
    "/v1/parts/{evidence:str}/content",
    guards=[requires(*READERS)],
    operation_id="getContent",
    summary="The exact bytes of one part",
    media_type=_OPAQUE,
    opt={DIRECT: True, OPERATION: _DOCUMENTED},
)
async def get_content(request: AnyRequest) -> Response[bytes]:
    """The bytes that were posted. Every read is recorded, with `Custody-Purpose`, before a byte leaves."""
    return await _answer(request, evidence_of(request.path_params["evidence"]))


@get(
    "/v1/runs/{run:str}/exchanges/{exchange:str}/attempts/{attempt:str}/parts/{kind:str}/content",
    guards=[requires(*READERS)],
    operation_id="getContentByIdentity",
    summary="The exact bytes of one identity's part",
    media_type=_OPAQUE,
    opt={DIRECT: True, OPERATION: _DOCUMENTED},
)
async def get_content_by_identity(request: AnyRequest) -> Response[bytes]:
    """The same by identity; `not_stored` where the observation did not become a part."""
    path = request.path_params
    run, exchange, attempt = (caller_id(path[name]) for name in ("run", "exchange", "attempt"))
    return await _answer(request, PartIdentity(run, exchange, attempt, known_kind(path["kind"])))


router = Router("/", route_handlers=[get_content, get_content_by_identity], tags=["reading"])


async def _answer(request: AnyRequest, named: UUID | PartIdentity) -> Response[bytes]:
    only(request, ())
    reader = await reader_of(request)
    try:
        view = await services(request).content.read(reader, named, purpose_of(request))
    except NotFound:
        if isinstance(named, PartIdentity):
            await _say_if_not_stored(request, reader, named)
        raise
    return Ready(view.content, headers=_headers(view), media_type=_TEXT if view.text else _OPAQUE)


async def _say_if_not_stored(request: AnyRequest, reader: Reader, identity: PartIdentity) -> None:
    if await services(request).run_reads.gap(reader, identity) is not None:
        raise NotFound(Reason.NOT_STORED, "the observation did not become a part; its gap says why") from None


def _headers(view: ContentView) -> dict[str, str]:
    headers = {
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Repr-Digest": view.repr_digest(),
        "ETag": view.etag,
        "Custody-Evidence": str(view.evidence),
        "Custody-Run": view.run,
        "Custody-Exchange": view.exchange,
        "Custody-Attempt": view.attempt,
        "Custody-Kind": view.kind.value,
        "Custody-Media-Type": view.media_type,
    }
    if not view.text:
        headers["Content-Disposition"] = f'attachment; filename="{view.evidence}.bin"'
    return headers
