"""The desk on one screen: what needs somebody, how much of today is there, what waits, and what the duties do."""

from collections import Counter
from typing import Any

from litestar import Response, get

from console.duty_words import ended
from console.guards import AnyRequest, alarms, operates, services, signed
from console.pages.desk.forms import scope_id
from console.pages.desk.waiting import now_waiting
from console.rendering import page
from policies.reasons import Reason

_RECENT = 20
_MOST_REASONS = 5


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
    reasons: Counter[str] = Counter()
    for day in days:
        reasons.update(day.by_reason)
    return page(
        request,
        "desk.html",
        raised=alarms(request),
        duties=duties,
        late=[each for each in duties if each.late],
        failed=[(each, ended(each)) for each in duties if ended(each).level == "bad"],
        days=days,
        counted_at=at,
        waiting=await now_waiting(opened, signed(request)),
        erasures=open_erasures,
        deferred=sum(row.state == "deferred" for row in open_erasures),
        recent=_RECENT,
        unconfirmed=await opened.keys.count_waiting(scope),
        most_reasons=_MOST_REASONS,
        reasons=[(Reason(word), count) for word, count in reasons.most_common()],
    )
