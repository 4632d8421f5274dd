"""Metadata of runs, parts, attempts and gaps, for readers. Lists never show content nor what parts depend on."""

from typing import Annotated

import msgspec
from litestar import Response, Router, get
from litestar.params import FromPath, QueryParameter

from policies.kinds import Role
from policies.reasons import Reason
from store.api.identity import caller, requires, scope_of, services
from store.api.problems import MEDIA_TYPE, TYPE_PREFIX, Problem
from store.api.reading import (
    PAGING,
    READERS,
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
from store.api.schema import OPERATION, answer
from store.errors import Malformed, NotFound, Unavailable
from store.ids import caller_id
from store.queue import RunKey
from store.services.paging import USUAL, Page
from store.services.part_views import PartItem, PartView
from store.services.questions import asked, evidence_of, label_named
from store.services.readback import PartFilters, PartIdentity, Readable, read_reason
from store.services.receipt_view import ReceiptView
from store.services.refusals import title
from store.services.run_reads import overdue_of
from store.services.run_views import AttemptItem, GapItem, Overdue, RunItem, RunView
from store.services.said import known_kind
from store.tables.pages import WITH_EVERY_SET

_PART_FILTERS = frozenset({"run", "exchange", "attempt", "kind", "label"}) | WITH_EVERY_SET
_REF_BYTES = 200
_LABEL_CHARACTERS = 400

Word = Annotated[str | None, QueryParameter(max_length=_LABEL_CHARACTERS)]


class NotStored(Problem, frozen=True, kw_only=True):
    """The answer for an identity that did not become a part: the gap that says why."""

    gap: GapItem


@get("/v1/parts", guards=[requires(*READERS)], operation_id="listParts", summary="Metadata of stored parts")
async def list_parts(  # noqa: PLR0913, PLR0917 - the offered filters, each by its name
    request: AnyRequest,
    run: Word = None,
    exchange: Word = None,
    attempt: Word = None,
    kind: Word = None,
    label: Word = None,
    availability: Annotated[Readable | None, QueryParameter()] = None,
    reason: Word = None,
    since: Since = None,
    until: Until = None,
    order: OrderWord = "newest",
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[PartItem]]:
    """One page by the time of storing; each part's availability is decided now, for this key."""
    only(request, _PART_FILTERS | PAGING)
    filters = PartFilters(
        run=None if run is None else caller_id(run),
        exchange=None if exchange is None else caller_id(exchange),
        attempt=None if attempt is None else caller_id(attempt),
        kind=None if kind is None else known_kind(kind),
        label=label_named(label),
        availability=availability,
        reason=None if reason is None else read_reason(reason),
    )
    reader = await reader_of(request)
    page = await services(request).readback.parts(reader, filters, asked(order, limit, cursor, since, until))
    return answered(request, page)


@get(
    "/v1/parts/{evidence:str}",
    guards=[requires(*READERS)],
    operation_id="getPart",
    summary="One part's metadata",
)
async def get_part(request: AnyRequest, evidence: FromPath[str]) -> PartView:
    """One stored part by its evidence reference."""
    reader = await reader_of(request)
    return await services(request).readback.part(reader, evidence_of(evidence))


@get(
    "/v1/runs/{run:str}/exchanges/{exchange:str}/attempts/{attempt:str}/parts/{kind:str}",
    guards=[requires(Role.RUNTIME, *READERS)],
    operation_id="getPartByIdentity",
    summary="What became of one identity",
    opt={
        OPERATION: {
            "responses": {
                "404": answer("No part; with `not_stored`, the gap says why", "NotStored", MEDIA_TYPE)
            }
        }
    },
)
async def get_part_by_identity(
    request: AnyRequest,
    run: FromPath[str],
    exchange: FromPath[str],
    attempt: FromPath[str],
    kind: FromPath[str],
) -> Response[PartView | ReceiptView | NotStored]:
    """The part's metadata for readers, or the gap that says why there is none; the receipt for a runtime."""
    identity = PartIdentity(caller_id(run), caller_id(exchange), caller_id(attempt), known_kind(kind))
    if caller(request).role is Role.RUNTIME:
        return Response(await _receipt(request, identity))
    reader, opened = await reader_of(request), services(request)
    try:
        return Response(await opened.readback.part_by_identity(reader, identity))
    except NotFound:
        gap = await opened.run_reads.gap(reader, identity)
        if gap is None:
            raise
        return _not_stored(gap)


@get("/v1/runs", guards=[requires(*READERS)], operation_id="listRuns", summary="Runs")
async def list_runs(
    request: AnyRequest,
    label: Word = None,
    since: Since = None,
    until: Until = None,
    order: OrderWord = "newest",
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[RunItem]]:
    """One page by the time of declaration."""
    only(request, PAGING | {"label"})
    reader = await reader_of(request)
    how = asked(order, limit, cursor, since, until)
    page = await services(request).run_reads.runs(reader, label_named(label), how)
    return answered(request, page)


@get("/v1/runs/{run:str}", guards=[requires(*READERS)], operation_id="getRun", summary="How one run stands")
async def get_run(request: AnyRequest, run: FromPath[str]) -> RunView:
    """Counts by outcome and reason, completeness by session, and the timeline of its attempts."""
    reader = await reader_of(request)
    return await services(request).run_reads.run(reader, caller_id(run))


@get(
    "/v1/runs/{run:str}/gaps",
    guards=[requires(*READERS)],
    operation_id="listGaps",
    summary="What is missing, and why",
)
async def list_gaps(
    request: AnyRequest, run: FromPath[str], limit: Limit = USUAL, cursor: CursorText = None
) -> Response[Page[GapItem]]:
    """Gaps by identity and by number, as they were recorded; what waits too long is provisional."""
    only(request, {"limit", "cursor"})
    reader, opened = await reader_of(request), services(request)
    key, overdue, known = RunKey(reader.scope, caller_id(run)), list[Overdue](), True
    if cursor is None:
        try:
            overdue = await overdue_of(opened.queue, key, opened.settings.overdue_after)
        except Unavailable:
            # What is recorded can be told all the same; what waits cannot, and that is said.
            known = False
    page = await opened.run_reads.gaps(reader, run, asked("oldest", limit, cursor), overdue)
    response = answered(request, page)
    response.headers["Custody-Provisional"] = "known" if known else "unknown"
    return response


@get(
    "/v1/attempts",
    guards=[requires(*READERS)],
    operation_id="listAttempts",
    summary="Attempts by a reference",
)
async def list_attempts(
    request: AnyRequest,
    ref: Annotated[str, QueryParameter(min_length=1, max_length=_REF_BYTES)],
    limit: Limit = USUAL,
    cursor: CursorText = None,
) -> Response[Page[AttemptItem]]:
    """Attempts that carry this trace, response or request id; the store keeps only a keyed hash of it."""
    only(request, {"ref", "limit", "cursor"})
    if len(ref.encode()) > _REF_BYTES:
        raise Malformed(detail=f"ref is at most {_REF_BYTES} bytes")
    reader = await reader_of(request)
    return answered(
        request, await services(request).run_reads.attempts(reader, ref, asked("oldest", limit, cursor))
    )


router = Router(
    "/",
    route_handlers=[
        list_parts,
        get_part,
        get_part_by_identity,
        list_runs,
        get_run,
        list_gaps,
        list_attempts,
    ],
    tags=["reading"],
)


async def _receipt(request: AnyRequest, identity: PartIdentity) -> ReceiptView:
    scope = await scope_of(request)
    found = await services(request).outcomes.of_identity(
        RunKey(scope.scope_id, identity.run), identity.exchange, identity.attempt, identity.kind
    )
    if found is None:
        raise NotFound
    return found


def _not_stored(gap: GapItem) -> Response[PartView | ReceiptView | NotStored]:
    problem = NotStored(
        type=TYPE_PREFIX + Reason.NOT_STORED,
        title=title(Reason.NOT_STORED),
        status=404,
        detail="the observation did not become a part; its gap says why",
        reason=Reason.NOT_STORED,
        retryable=False,
        gap=gap,
    )
    return Response(msgspec.json.encode(problem), status_code=404, media_type=MEDIA_TYPE)  # type: ignore[arg-type]
