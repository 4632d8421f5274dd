"""Holds, for operators: place one on a part, a run or the scope, look at them, release them."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from litestar import Router, get, post
from litestar.params import FromPath, JSONBody

from policies.holds import Placing, Reach
from policies.kinds import Role
from store.api.documents import MOST_BYTES, unambiguous
from store.api.identity import caller, requires, scope_of, services
from store.api.listing import listing
from store.api.reading import AnyRequest, CursorText, Limit, only
from store.errors import Malformed
from store.ids import caller_id
from store.services.holds import On, OnPart, OnRun, OnScope
from store.services.paging import USUAL
from store.services.questions import evidence_of
from store.tables.holds import HoldRow


class WantedHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be kept: a stored part, a run, or (`whole_scope`) everything; and what for."""

    reason: str
    part: str | None = None
    run: str | None = None
    whole_scope: Literal[True] | None = None


class HoldView(msgspec.Struct, frozen=True):
    """A hold. `too_late`: nothing of what it is on was still there, and nothing of it comes back.

    It keeps from `placed_at` until `ended_at`: what is released goes on keeping for a grace.
    """

    hold_id: UUID
    reach: Reach
    run_id: str | None
    evidence: UUID | None
    reason: str | None
    answer: Placing
    placed_by: str
    placed_at: datetime
    released_by: str | None
    released_at: datetime | None
    ended_at: datetime | None


class HoldList(msgspec.Struct, frozen=True):
    """Holds, newest first; `next` is null at the end."""

    items: list[HoldView]
    next: str | None


@post("/", operation_id="placeHold", summary="Keep a part, a run or the scope", status_code=201)
async def place_hold(request: AnyRequest, data: JSONBody[WantedHold]) -> HoldView:
    """Keep from now on what is still there, whatever else is due; reading stays closed where it is."""
    scope = await scope_of(request)
    placed = await services(request).holds.place(
        scope.scope_id, _on(data), data.reason, caller(request).key_id
    )
    return _view(placed)


@get("/{hold:str}", operation_id="getHold", summary="One hold")
async def get_hold(request: AnyRequest, hold: FromPath[str]) -> HoldView:
    """Return one hold."""
    scope = await scope_of(request)
    return _view(await services(request).holds.one(scope.scope_id, evidence_of(hold)))


@get("/", operation_id="listHolds", summary="Holds, newest first")
async def list_holds(request: AnyRequest, limit: Limit = USUAL, cursor: CursorText = None) -> HoldList:
    """Return some of the scope's holds, released ones included."""
    only(request, {"limit", "cursor"})
    holds = await listing(request, "holds")
    page = await services(request).holds.page(holds.scope, holds.before_id(cursor), limit)
    return HoldList([_view(row) for row in page.rows], holds.following(page.next_id))


@post("/{hold:str}/release", operation_id="releaseHold", summary="Let a hold go", status_code=200)
async def release_hold(request: AnyRequest, hold: FromPath[str]) -> HoldView:
    """Keep no longer than the grace; then what nothing else keeps and what is due is destroyed."""
    scope = await scope_of(request)
    released = await services(request).holds.release(
        scope.scope_id, evidence_of(hold), caller(request).key_id
    )
    return _view(released)


router = Router(
    "/v1/holds",
    route_handlers=[place_hold, get_hold, list_holds, release_hold],
    guards=[requires(Role.OPERATOR)],
    before_request=unambiguous,
    request_max_body_size=MOST_BYTES,
    tags=["operators"],
)


def _on(data: WantedHold) -> On:
    named = (data.part, data.run, data.whole_scope)
    if sum(each is not None for each in named) != 1:
        raise Malformed(detail="name a part, or a run, or say `whole_scope`: true")
    if data.part is not None:
        return OnPart(evidence_of(data.part))
    return OnScope() if data.run is None else OnRun(caller_id(data.run))


def _view(row: HoldRow) -> HoldView:
    return HoldView(
        row.hold_id, row.reach, row.run, row.evidence, row.reason, row.answer, row.placed_by, row.placed_at,
        row.released_by, row.released_at, row.ended_at,
    )  # fmt: skip
