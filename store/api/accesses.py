"""Who read what, when, for what purpose, and with what outcome."""

from typing import Annotated, Final
from uuid import UUID

from litestar import Response, Router, get
from litestar.params import QueryParameter

from policies.kinds import Role
from store.api.identity import requires, services
from store.api.reading import (
    PAGING,
    AnyRequest,
    CursorText,
    Limit,
    OrderWord,
    Since,
    Until,
    answered,
    only,
    reader_of,
)
from store.errors import Malformed
from store.ids import caller_id
from store.services.access import AccessItem
from store.services.paging import USUAL, Page
from store.services.questions import asked

_ALLOWED: Final = (Role.AUDITOR, Role.OPERATOR, Role.CUSTODIAN)


@get("/v1/accesses", guards=[requires(*_ALLOWED)], operation_id="listAccesses", summary="Who read what")
async def list_accesses(
    request: AnyRequest,
    evidence: Annotated[UUID | None, QueryParameter()] = None,
    key: Annotated[str | None, QueryParameter(name="key_id", max_length=128)] = None,
    since: Since = None,
    until: Until = None,
    order: OrderWord = "newest",
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[AccessItem]]:
    """One page of access records, of reads and of refused ones; with a key it may be short and have a next."""
    only(request, PAGING | {"evidence", "key_id"})
    if evidence is not None and key is not None:
        raise Malformed(detail="filters are offered alone: evidence, or key_id; with each of them: from, to")
    reader = await reader_of(request)
    key_id = None if key is None else caller_id(key)
    how = asked(order, limit, cursor, since, until)
    return answered(request, await services(request).accesses.page(reader, evidence, key_id, how))


router = Router("/", route_handlers=[list_accesses], tags=["reading"])
