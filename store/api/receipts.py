"""What became of what was posted, by receipt and for a whole run: for the runtime that posted it and who reviews it."""

from typing import Final

import msgspec
from litestar import Response, Router, get
from litestar.params import FromPath

from policies.kinds import Role
from store.api.identity import requires, scope_of, services
from store.api.listing import listing
from store.api.reading import READERS, AnyRequest, CursorText, Limit
from store.ids import caller_id
from store.queue import RunKey
from store.services.receipt_view import ReceiptView

_DEFAULT_LIMIT: Final = 100


class ReceiptPage(msgspec.Struct, frozen=True):
    """A run's receipts in identity order; `next` is null at the end."""

    items: list[ReceiptView]
    next: str | None


@get(
    "/v1/receipts/{receipt:str}",
    guards=[requires(Role.RUNTIME, *READERS)],
    operation_id="getReceipt",
    summary="What became of one observation",
)
async def get_receipt(request: AnyRequest, receipt: FromPath[str]) -> ReceiptView:
    """Answer a receipt of this scope: as it said, or what has become of it since."""
    scope = await scope_of(request)
    return await services(request).outcomes.of_receipt(scope.scope_id, receipt)


@get(
    "/v1/runs/{run:str}/receipts",
    guards=[requires(Role.RUNTIME, *READERS)],
    operation_id="listReceipts",
    summary="What became of a run's observations",
)
async def list_receipts(
    request: AnyRequest, run: FromPath[str], limit: Limit = _DEFAULT_LIMIT, cursor: CursorText = None
) -> Response[ReceiptPage]:
    """List receipts by exchange, attempt and kind: stored, waiting, and refused ones that a gap names."""
    receipts = await listing(request, "receipts", ("run", caller_id(run)))
    after = receipts.after(cursor)
    start = None if after is None else (after.exchange, after.attempt, after.kind)
    views, end = await services(request).outcomes.of_run(RunKey(receipts.scope, run), start, limit)
    return Response(ReceiptPage(views, receipts.following(end)))


router = Router("/", route_handlers=[get_receipt, list_receipts], tags=["capture"])
