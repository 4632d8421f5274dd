"""What operators look at: duties, completeness, and what operators did."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from litestar import Response, get

from console import words
from console.action_words import ACTIONS, named
from console.duty_words import DUTIES, ended
from console.guards import AnyRequest, operates, reads, services, signed
from console.pages.desk.forms import scope_id
from console.pictures import completeness as completeness_picture
from console.rendering import page
from policies.kinds import Role
from policies.reasons import Reason
from store.errors import Malformed
from store.services.actions import STORE_WIDE
from store.services.paging import Asked, Reader

_DAYS: Final = (7, 14, 31)
# Of the whole store: more rows, and more reasons in one, than somebody reads there; one scope has all of its own.
_MOST_ROWS: Final = 100
_MOST_REASONS: Final = 3


@dataclass(frozen=True, slots=True)
class DayRow:
    """A scope's day as the table has it: its reasons in words with their counts, and how many more there are."""

    day: Any
    reasons: Sequence[tuple[words.Words, int]]
    more: int


@get("/duties", guards=[operates()])
async def list_duties(request: AnyRequest) -> Response[Any]:
    """How every duty stands."""
    duties = await services(request).overview.duties()
    return page(
        request,
        "desk_duties.html",
        duties=[(each, ended(each), DUTIES[each.duty]) for each in duties],
        wrong=sum(each.late or ended(each).level == "bad" for each in duties),
    )


@get("/completeness", guards=[operates()])
async def show_completeness(request: AnyRequest) -> Response[Any]:
    """How much of what was observed is there, by day and scope."""
    span = _one_of(request, "days", _DAYS)
    scope = scope_id(request)
    days, at = await services(request).overview.completeness(scope, span)
    rows = _rows(days, whole_store=scope is None)
    return page(
        request,
        "desk_completeness.html",
        days=days,
        counted_at=at,
        span=span,
        spans=_DAYS,
        picture=completeness_picture.drawn(days),
        rows=rows,
        most_reasons=_MOST_REASONS,
    )


@get("/actions", guards=[reads(Role.AUDITOR, Role.OPERATOR)])
async def list_actions(request: AnyRequest) -> Response[Any]:
    """What operators did in the scope; where none is chosen, what belongs to none."""
    who = signed(request)
    scope = STORE_WIDE if who.scope is None else who.scope.scope_id
    reader = Reader(scope, who.caller.key_id, who.role, who.caller.clearances)
    asked = Asked(cursor=request.query_params.get("cursor"))
    found = await services(request).actions.page(reader, asked)
    rows = [(each, ACTIONS.get(each.action, each.action), named(each.target)) for each in found.items]
    return page(request, "desk_actions.html", actions=rows, info=found.page, own=who.caller.key_id)


HANDLERS: Final = (list_duties, show_completeness, list_actions)


def _rows(days: Sequence[Any], *, whole_store: bool) -> list[DayRow]:
    """Return the rows of the table; where there are many, the newest days, and of each the scopes that lack most."""
    shown = list(days)
    if len(shown) > _MOST_ROWS:
        shown = sorted(shown, key=lambda each: (-each.day.toordinal(), -each.missing, each.scope))[
            :_MOST_ROWS
        ]
    return [_row(each, _MOST_REASONS if whole_store else len(each.by_reason)) for each in shown]


def _row(day: Any, most: int) -> DayRow:
    reasons = sorted(day.by_reason.items(), key=lambda each: (-each[1], each[0]))
    named = [(words.of(Reason(word)), count) for word, count in reasons[:most]]
    return DayRow(day, named, len(reasons[most:]))


def _one_of(request: AnyRequest, name: str, offered: tuple[int, ...]) -> int:
    said = request.query_params.get(name, str(offered[0]))
    if said not in {str(each) for each in offered}:
        raise Malformed(detail=f"{name} is one of {', '.join(map(str, offered))}")
    return int(said)
