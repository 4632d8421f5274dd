"""What became of what was posted, by receipt and for a whole run: for the runtime that posted it and who reviews it."""

from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, Router, get
from litestar.params import FromPath, QueryParameter

from policies.kinds import Role
from store import cursor
from store.api.identity import caller, requires, scope_of, services
from store.clock import utc_now
from store.cursor import IdentityCursor, Question
from store.ids import caller_id
from store.queue import RunKey
from store.services.receipt_view import ReceiptView

_READERS: Final = (Role.RUNTIME, Role.REVIEWER, Role.CUSTODIAN, Role.AUDITOR, Role.OPERATOR)
_DEFAULT_LIMIT: Final = 100

AnyRequest = Request[Any, Any, Any]


class ReceiptPage(msgspec.Struct, frozen=True):
    """A run's receipts in identity order; `next` is null at the end."""

    items: list[ReceiptView]
    next: str | None


@get(
    "/v1/receipts/{receipt:str}",
    guards=[requires(*_READERS)],
    operation_id="getReceipt",
    summary="What became of one observation",
)
async def get_receipt(request: AnyRequest, receipt: FromPath[str]) -> ReceiptView:
    """Answer a receipt of this scope: as it said, or what has become of it since."""
    scope = await scope_of(request)
    return await services(request).outcomes.of_receipt(scope.scope_id, receipt)


@get(
    "/v1/runs/{run:str}/receipts",
    guards=[requires(*_READERS)],
    operation_id="listReceipts",
    summary="What became of a run's observations",
)
async def list_receipts(
    request: AnyRequest,
    run: FromPath[str],
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = _DEFAULT_LIMIT,
    after: Annotated[str | None, QueryParameter(name="cursor", max_length=1024)] = None,
) -> Response[ReceiptPage]:
    """List receipts by exchange, attempt and kind: stored, waiting, and refused ones that a gap names."""
    opened = services(request)
    scope, who = await scope_of(request), caller(request)
    key = RunKey(scope.scope_id, caller_id(run))
    question = Question(scope.scope_id, who.key_id, who.clearances, "receipts", (("run", run),), "oldest")
    token = opened.keyring.token_key("cursor")
    now = utc_now()
    start = None
    if after is not None:
        last = cursor.read_identity(token, question, after, now)
        start = (last.exchange, last.attempt, last.kind)
    views, end = await opened.outcomes.of_run(key, start, limit)
    following = None if end is None else cursor.sign(token, question, IdentityCursor(*end, now))
    return Response(ReceiptPage(views, following))


router = Router("/", route_handlers=[get_receipt, list_receipts], tags=["capture"])
