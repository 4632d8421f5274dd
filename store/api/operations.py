"""What operators ask for and look at: erasures, duties, completeness, queue. No content and no exact sizes anywhere."""

from datetime import date, datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from litestar import Router, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from policies.kinds import Kind, Role
from policies.reasons import Reason
from store.api.documents import MOST_BYTES, unambiguous
from store.api.identity import caller, named_scope, requires, scope_of, services
from store.api.listing import listing
from store.api.reading import AnyRequest, CursorText, Limit, only
from store.errors import CustodyError, Malformed
from store.ids import caller_id
from store.services.documents import printable
from store.services.erasures import Asked, Named, StoredPart, WholeRun, WholeSource, WholeSubject
from store.services.overview import DutyStanding
from store.services.paging import USUAL
from store.services.questions import evidence_of
from store.services.queue_depths import Point, Window
from store.tables.completeness import Day
from store.tables.erasures import ErasureRow

_DAYS: Final = 7
_MOST_DAYS: Final = 31


class WantedErasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be erased: a stored part, a whole run, or (with all four names) one part that may still wait.

    Or everything that depends on a source, which is then closed for good, or everything about a subject.
    """

    part: str | None = None
    run: str | None = None
    exchange: str | None = None
    attempt: str | None = None
    kind: Kind | None = None
    source: str | None = None
    subject: str | None = None


class ErasureView(msgspec.Struct, frozen=True):
    """An erasure. Readers are refused from its acceptance on; `purged`: it is destroyed in every copy of ours.

    `waits_for` says why it is not purged yet: a `hold` (it is then `deferred`), older entries of the `queue`, or the
    `publication` of what the log says of it. What the disk may still hold of it is said in docs/operations.md.
    """

    erasure_id: UUID
    target: Literal["part", "run", "source", "subject"]
    run_id: str | None
    evidence: UUID | None
    source: str | None
    state: Literal["accepted", "purging", "purged", "deferred"]
    waits_for: Literal["hold", "queue", "publication"] | None
    requested_at: datetime
    purged_at: datetime | None


class ErasureList(msgspec.Struct, frozen=True):
    """Erasures, newest first; `next` is null at the end."""

    items: list[ErasureView]
    next: str | None


class DutyView(msgspec.Struct, frozen=True):
    """A duty: how it ended the last time, how long ago it succeeded, and by when it is due again."""

    duty: str
    running: bool
    last_started: datetime | None
    last_finished: datetime | None
    last_success: datetime | None
    last_outcome: str
    lag_s: float | None
    next_by: datetime | None


class DutyList(msgspec.Struct, frozen=True):
    """Every duty, in the order in which they are done by hand."""

    items: list[DutyView]


class DayView(msgspec.Struct, frozen=True):
    """Runs declared on one day (UTC). What several reasons were given for is in each of `missing_by_reason`."""

    scope: str
    day: date
    runs: int
    closed: int
    never_closed: int
    observed: int
    stored: int
    missing: int
    missing_by_reason: dict[str, int]


class Completeness(msgspec.Struct, frozen=True):
    """How much of what was observed is there, by scope and day."""

    observed_at: datetime
    items: list[DayView]


class QueuePoint(msgspec.Struct, frozen=True):
    """The most that waited in the minutes from `first` to `last`.

    `bytes_class` is the next power of two of their sum, at least a mebibyte. `refused` counts by reason since the
    minute `since`, the last of the point before; it is null where that cannot be told: nothing was noted before, or the
    queue began anew.
    """

    first: datetime
    last: datetime
    parts: int
    notes: int
    bytes_class: int
    oldest_s: float
    since: datetime | None
    refused: dict[str, int] | None


class QueueHistory(msgspec.Struct, frozen=True):
    """How deep the queue was, noted once a minute and kept for a week; each point has up to `step_s` seconds of it.

    Of minutes in which nothing was noted there is no point, which is no zero. `noted_since` is the first minute of
    which there is something.
    """

    begins: datetime
    observed_at: datetime
    step_s: int
    noted_since: datetime | None
    items: list[QueuePoint]


@post(
    "/",
    operation_id="askErasure",
    summary="Erase a part, a run, a source or a subject",
    status_code=202,
)
async def ask_erasure(request: AnyRequest, data: JSONBody[WantedErasure]) -> ErasureView:
    """Refuse readers from now on, and destroy soon; the same target again is the same erasure."""
    scope = await scope_of(request)
    return _view(await services(request).erasures.ask(scope.scope_id, _asked(data), caller(request).key_id))


@get("/{erasure:str}", operation_id="getErasure", summary="One erasure")
async def get_erasure(request: AnyRequest, erasure: FromPath[str]) -> ErasureView:
    """Return how far an erasure is."""
    scope = await scope_of(request)
    return _view(await services(request).erasures.one(scope.scope_id, evidence_of(erasure)))


@get("/", operation_id="listErasures", summary="Erasures, newest first")
async def list_erasures(request: AnyRequest, limit: Limit = USUAL, cursor: CursorText = None) -> ErasureList:
    """Return some of the scope's erasures."""
    only(request, {"limit", "cursor"})
    erasures = await listing(request, "erasures")
    page = await services(request).erasures.page(erasures.scope, erasures.before_id(cursor), limit)
    return ErasureList([_view(row) for row in page.rows], erasures.following(page.next_id))


@get("/duties", operation_id="listDuties", summary="How the duties stand")
async def list_duties(request: AnyRequest) -> DutyList:
    """Return how every duty ended the last time, and when it is due again."""
    only(request, set())
    return DutyList([_duty(each) for each in await services(request).overview.duties()])


@get("/completeness", operation_id="getCompleteness", summary="How much is there, by scope and day")
async def get_completeness(
    request: AnyRequest, days: Annotated[int, QueryParameter(ge=1, le=_MOST_DAYS)] = _DAYS
) -> Completeness:
    """Return what the runs of the last days observed, stored and missed; of all scopes for a store-wide operator."""
    only(request, {"days"})
    scope = await named_scope(request)
    found, now = await services(request).overview.completeness(
        None if scope is None else scope.scope_id, days
    )
    return Completeness(now, [_day(each) for each in found])


@get("/queue", operation_id="getQueue", summary="How deep the queue was, and what was refused, over time")
async def get_queue(
    request: AnyRequest, window: Annotated[Window, QueryParameter()] = Window.DAY
) -> QueueHistory:
    """Return the last hour, day or week of the whole store's queue, for its operators: it is of no scope."""
    only(request, {"window"})
    if caller(request).scope_id is not None:
        raise CustodyError(Reason.PERMISSION_DENIED, "the queue is for operators of the whole store")
    found = await services(request).queue_history.of(window)
    step_s = int(found.step.total_seconds())
    return QueueHistory(
        found.begins, found.now, step_s, found.noted_since, [_point(each) for each in found.points]
    )


router = Router(
    "/v1",
    route_handlers=[
        Router("/erasures", route_handlers=[ask_erasure, get_erasure, list_erasures]),
        list_duties,
        get_completeness,
        get_queue,
    ],
    guards=[requires(Role.OPERATOR)],
    before_request=unambiguous,
    request_max_body_size=MOST_BYTES,
    tags=["operators"],
)


def _asked(data: WantedErasure) -> Asked:
    names = (data.exchange, data.attempt, data.kind)
    wholes = [each for each in (data.part, data.run, data.source, data.subject) if each is not None]
    if len(wholes) != 1 or (data.run is None and any(names)):
        raise Malformed(
            detail="name a part, a run, a run with exchange, attempt and kind, a source, or a subject"
        )
    if data.part is not None:
        return StoredPart(evidence_of(data.part))
    if data.source is not None:
        return WholeSource(caller_id(data.source))
    if data.subject is not None:
        return WholeSubject(printable(data.subject, "subject"))
    run = caller_id(data.run or "")
    if not any(names):
        return WholeRun(run)
    if data.exchange is None or data.attempt is None or data.kind is None:
        raise Malformed(detail="a part that may still wait is named by run, exchange, attempt and kind")
    return Named(run, caller_id(data.exchange), caller_id(data.attempt), data.kind.value)


def _view(row: ErasureRow) -> ErasureView:
    # The closed words are the schema's, which the database holds.
    return msgspec.convert(
        {
            "erasure_id": row.erasure_id,
            "target": row.target_kind,
            "run_id": row.run,
            "evidence": row.evidence,
            "source": row.source,
            "state": row.state,
            "waits_for": row.waits_for,
            "requested_at": row.requested_at,
            "purged_at": row.purged_at,
        },
        ErasureView,
    )


def _duty(standing: DutyStanding) -> DutyView:
    row = standing.lease
    return DutyView(
        duty=standing.duty,
        running=row is not None and row.held,
        last_started=None if row is None else row.last_started,
        last_finished=None if row is None else row.last_finished,
        last_success=None if row is None else row.last_success,
        last_outcome="never" if row is None else row.last_outcome,
        lag_s=standing.lag_s,
        next_by=standing.next_by,
    )


def _day(day: Day) -> DayView:
    return DayView(
        scope=day.scope,
        day=day.day,
        runs=day.runs,
        closed=day.closed,
        never_closed=day.never_closed,
        observed=day.stored + day.missing,
        stored=day.stored,
        missing=day.missing,
        missing_by_reason=day.by_reason,
    )


def _point(point: Point) -> QueuePoint:
    refused = None if point.refused is None else {reason.value: n for reason, n in point.refused.items()}
    return QueuePoint(
        first=point.first,
        last=point.last,
        parts=point.parts,
        notes=point.notes,
        bytes_class=point.bytes_class,
        oldest_s=point.oldest_s,
        since=point.since,
        refused=refused,
    )
