"""The published proof log, as C2SP tlog-tiles and tlog-proof write it: checkpoint, tiles, proofs of single parts."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from litestar import Response, Router, get
from litestar.params import FromPath

from policies.kinds import Role
from policies.reasons import Reason
from store.api.identity import caller, named_scope, requires, services
from store.api.reading import READERS, AnyRequest, only, reader_of
from store.api.schema import OPERATION
from store.errors import CustodyError, NotFound
from store.log_tree import tiles
from store.services.questions import evidence_of

# The framework adds the charset, which is utf-8.
_TEXT: Final = "text/plain"
_TILE: Final = "application/octet-stream"
_PROVERS: Final = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR)


def _documented(description: str, media_type: str) -> Mapping[str, Any]:
    schema: dict[str, str] = {"type": "string"}
    if media_type == _TILE:
        schema["format"] = "binary"
    content = {media_type: {"schema": schema}}
    return {OPERATION: {"responses": {"200": {"description": description, "content": content}}}}


@get(
    "/v1/log/checkpoint",
    guards=[requires(*READERS)],
    operation_id="getCheckpoint",
    summary="The last signed checkpoint",
    media_type=_TEXT,
    opt=_documented("A signed note (C2SP tlog-checkpoint)", _TEXT),
)
async def get_checkpoint(request: AnyRequest) -> Response[bytes]:
    """What the log vouches for: its name, size and root, signed. `not_found` before the first one."""
    only(request, ())
    _ = await named_scope(request)
    return Response(await services(request).proofs.checkpoint(), media_type=_TEXT)


@get(
    "/v1/log/tile/{level:str}/{path:path}",
    guards=[requires(*READERS)],
    operation_id="getTile",
    summary="A tile of hashes, or a bundle of entries",
    media_type=_TILE,
    opt=_documented("Hashes of 32 bytes, or entries with their lengths (C2SP tlog-tiles)", _TILE),
)
async def get_tile(request: AnyRequest, level: FromPath[str], path: FromPath[str]) -> Response[bytes]:
    """The paths are those of C2SP: `0/x001/x234/067`, `1/000.p/17`. Partial tiles of any width that is published.

    `entries/…` is for operators of the whole store only: entries name every scope's ids.
    """
    only(request, ())
    _ = await named_scope(request)
    try:
        tile = tiles.parse_path(f"tile/{level}{path}")
    except ValueError:
        raise NotFound from None
    if tile.level is None:
        _require_whole_store(request)
    return Response(await services(request).proofs.tile(tile), media_type=_TILE)


@get(
    "/v1/log/proof/{evidence:str}",
    guards=[requires(*_PROVERS)],
    operation_id="getProof",
    summary="The proof that one part is in the log",
    media_type=_TEXT,
    opt=_documented("C2SP tlog-proof; `Custody-Leaf` has the entry that it is about, in base64", _TEXT),
)
async def get_proof(request: AnyRequest, evidence: FromPath[str]) -> Response[bytes]:
    """One part's leaf under the last checkpoint, checked before it is given out. `not_found` while it is `pending`."""
    only(request, ())
    reader = await reader_of(request)
    proof = await services(request).proofs.of_part(reader.scope, evidence_of(evidence))
    leaf = base64.b64encode(proof.entry).decode("ascii")
    return Response(proof.text, media_type=_TEXT, headers={"Custody-Leaf": leaf})


router = Router("/", route_handlers=[get_checkpoint, get_tile, get_proof], tags=["log"])


def _require_whole_store(request: AnyRequest) -> None:
    who = caller(request)
    if who.role is not Role.OPERATOR or who.scope_id is not None:
        raise CustodyError(
            Reason.PERMISSION_DENIED, "bundles of entries are for operators of the whole store"
        )
