"""Exports: what was asked for, streamed as a bundle that can be checked far away from here."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, JSONBody
from litestar.types import Receive, Scope, Send

from policies.kinds import Role
from store.api.content import PURPOSE_HEADER
from store.api.documents import unambiguous
from store.api.identity import purpose_of, requires, scope_of, services, still_good
from store.api.reading import AnyRequest, only, reader_of
from store.api.schema import OPERATION
from store.errors import Malformed
from store.ids import caller_id
from store.services.export.asking import MOST_ANCHORS, MOST_PARTS, Wanted
from store.services.export.sending import Still, send_while_taken
from store.services.questions import evidence_named, evidence_of

# Ten thousand names of the greatest length, and what stands around them.
_MOST_BYTES: Final = 2 << 20

_ZIP: Final = "application/zip"
_ROLES: Final = (Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR)


class WantedExport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Runs by name, parts by evidence reference, at most 10,000 parts in all.

    `anchors` are sizes of checkpoints that the bundle's reader holds from before: it then proves that the log grew from
    them.
    """

    runs: list[str] = []
    evidence: list[str] = []
    anchors: list[int] = []


class ExportView(msgspec.Struct, frozen=True):
    """An export: `parts` were asked for and exist or not; all proofs are under the checkpoint of `tree_size`."""

    export_id: UUID
    requested_at: datetime
    parts: int
    tree_size: int
    bundle: str


@post(
    "/",
    operation_id="askExport",
    summary="Ask for a bundle of runs or parts",
    status_code=201,
    opt={OPERATION: {"parameters": [PURPOSE_HEADER]}},
)
async def ask_export(request: AnyRequest, data: JSONBody[WantedExport]) -> Response[ExportView]:
    """Fix what the bundle holds, and under which checkpoint; waits some seconds for the log to publish it.

    `Custody-Purpose` is recorded with every read that the bundle makes, and required where the scope says so.
    """
    only(request, ())
    reader, purpose, scope = await reader_of(request), purpose_of(request), await scope_of(request)
    if purpose is None and scope.policy.purpose_required:
        raise Malformed(detail="say in Custody-Purpose what this export is for: here it is required")
    asked = await services(request).exports.ask(reader, _wanted(data), purpose)
    bundle = f"/v1/exports/{asked.export_id}"
    view = ExportView(asked.export_id, asked.requested_at, asked.parts, asked.tree_size, bundle)
    return Response(view, headers={"Location": bundle})


@get(
    "/{export:str}",
    operation_id="getExport",
    summary="The bundle",
    media_type=_ZIP,
    opt={
        OPERATION: {
            "responses": {
                "200": {
                    "description": "A BagIt bag in a zip archive; an archive without its end was broken off",
                    "content": {_ZIP: {"schema": {"type": "string", "format": "binary"}}},
                }
            }
        }
    },
)
async def get_export(request: AnyRequest, export: FromPath[str]) -> Response[bytes]:
    """Stream it to the key that asked, for a day. Each part is read again, as that key may read it now.

    It breaks off once the key is revoked, expires or has another secret, and after two hours.
    """
    only(request, ())
    export_id = evidence_of(export)
    pieces = services(request).exports.bundle(await reader_of(request), export_id)
    # What stands against all of it is an answer, and no archive that breaks off.
    first = await anext(pieces)
    disposition = f'attachment; filename="custody-{export_id.hex}.zip"'
    return _Streamed(first, pieces, still_good(request), disposition)


router = Router(
    "/v1/exports",
    route_handlers=[ask_export, get_export],
    guards=[requires(*_ROLES)],
    before_request=unambiguous,
    request_max_body_size=_MOST_BYTES,
    tags=["reading"],
)


class _Streamed(Response[bytes]):
    """An archive that is sent while it is made. It ends as a whole, or without its directory."""

    def __init__(
        self, first: bytes, pieces: AsyncGenerator[bytes, None], still: Still, disposition: str
    ) -> None:
        super().__init__(b"")
        self._first = first
        self._pieces = pieces
        self._still = still
        self._disposition = disposition

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return what the framework sends: this very answer."""
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it for as long as somebody takes it who may have it."""
        headers = [
            (b"content-type", _ZIP.encode("ascii")),
            (b"content-disposition", self._disposition.encode("ascii")),
        ]
        broken_off = await send_while_taken(headers, self._first, self._pieces, self._still, receive, send)
        if broken_off is not None:
            scope["state"]["reason"] = broken_off.value


def _wanted(data: WantedExport) -> Wanted:
    if len(data.evidence) > MOST_PARTS or len(data.runs) > MOST_PARTS or len(data.anchors) > MOST_ANCHORS:
        raise Malformed(detail=f"an export has at most {MOST_PARTS} parts and {MOST_ANCHORS} anchors")
    return Wanted(
        [caller_id(each) for each in data.runs],
        [evidence_named(each) for each in data.evidence],
        data.anchors,
    )
