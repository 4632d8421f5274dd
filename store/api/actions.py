"""What operators did."""

from typing import Final

from litestar import Response, Router, get

from policies.kinds import Role
from store.api.identity import caller, named_scope, requires, services
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
)
from store.services.actions import ActionItem
from store.services.paging import USUAL, Page, Reader
from store.services.questions import asked
from store.tables.operator_actions import STORE_WIDE

_ALLOWED: Final = (Role.AUDITOR, Role.OPERATOR)


@get("/v1/actions", guards=[requires(*_ALLOWED)], operation_id="listActions", summary="What operators did")
async def list_actions(
    request: AnyRequest,
    since: Since = None,
    until: Until = None,
    order: OrderWord = "newest",
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[ActionItem]]:
    """One page of a scope's operator actions; a store-wide operator who names none gets those of none."""
    only(request, PAGING)
    who, scope = caller(request), await named_scope(request)
    reader = Reader(STORE_WIDE if scope is None else scope.scope_id, who.key_id, who.role, who.clearances)
    how = asked(order, limit, cursor, since, until)
    return answered(request, await services(request).actions.page(reader, how))


router = Router("/", route_handlers=[list_actions], tags=["reading"])
