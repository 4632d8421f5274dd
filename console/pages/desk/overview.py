"""The desk on one screen: what stands still, what lags, what waits, and how much of today is there."""

from typing import Any

from litestar import Response, get

from console.guards import AnyRequest, alarms, operates, services, signed
from console.pages.desk.forms import scope_id
from console.pages.desk.waiting import now_waiting
from console.rendering import page
from policies.reasons import Reason
from store.ids import ScopeId
from store.services.keys import KeyBook

_RECENT = 20


@get("/", guards=[operates()])
async def overview(request: AnyRequest) -> Response[Any]:
    """Show the state of everything that an operator looks after."""
    opened, scope = services(request), scope_id(request)
    duties = await opened.overview.duties()
    days, at = await opened.overview.completeness(scope, 1)
    open_erasures = []
    if scope is not None:
        erasures = await opened.erasures.page(scope, None, _RECENT)
        open_erasures = [row for row in erasures.rows if row.state != "purged"]
    return page(
        request,
        "desk.html",
        raised=alarms(request),
        duties=duties,
        late=[each for each in duties if each.late],
        failed=[each for each in duties if each.lease and each.lease.last_outcome.startswith("failed")],
        days=days,
        counted_at=at,
        waiting=await now_waiting(opened, signed(request)),
        erasures=open_erasures,
        unconfirmed=await _unconfirmed(opened.keys, scope),
        reasons=[(Reason(word), count) for day in days for word, count in sorted(day.by_reason.items())]
        if len(days) == 1
        else [],
    )


async def _unconfirmed(keys: KeyBook, scope: ScopeId | None) -> int:
    rows = await keys.listed(scope)
    return sum(row.confirmed_at is None and row.revoked_at is None for row in rows)
