"""Declaring a run and closing it: what a runtime does before its first capture and after its last."""

import re
from datetime import datetime
from typing import Any, Final

import msgspec
from litestar import Request, Response, Router, post, put
from litestar.params import FromPath, JSONBody

from policies.kinds import Content, Kind, Mode, Role, RunState
from policies.quantities import duration
from policies.reasons import Reason
from store.api import capture_schema
from store.api.documents import MOST_BYTES, unambiguous
from store.api.identity import caller, requires, scope_of, services
from store.api.schema import OPERATION
from store.errors import Malformed
from store.ids import caller_id
from store.services.closing import MAX_ANNOUNCED, MAX_SESSIONS, Closed
from store.services.declaring import MAX_SOURCES, Declaration
from store.services.documents import printable
from store.services.runs import Admission
from store.services.said import bindings_of

_MOST_LABELS: Final = 16
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_JSON: Final = "application/json"

AnyRequest = Request[Any, Any, Any]


class SourceRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that a run's content depends on; without a version the whole source is meant."""

    source: str
    version: int | None = None


class RunDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a runtime asks for a run. Said again, the strictest wins in everything."""

    mode: Mode = Mode.NORMAL
    content: Content | None = None
    retention: str | None = None
    labels: dict[str, str] = {}
    sources: list[SourceRef] = []
    subject: str | None = None
    shared: bool | None = None
    erase: bool = False


class Limits(msgspec.Struct, frozen=True):
    """What may be captured within the run, and what of it may wait at once; bytes that wait are sealed bytes."""

    part_bytes: int
    run_parts: int
    run_bytes: int
    run_waiting_parts: int
    run_waiting_bytes: int
    run_waiting_notes: int


class RunAdmission(msgspec.Struct, frozen=True):
    """What holds for a run now. `effective` is `at_write` where only the writer knows of a narrowing yet."""

    run_id: str
    admitted: bool
    reason: Reason | None
    mode: Mode
    content: Content
    kinds: list[Kind]
    limits: Limits
    retain_until: datetime
    policy_version: int
    ticket: str | None
    ticket_expires_at: datetime | None
    effective: str
    sources: list[SourceRef]


class RunClosing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last number of each session; null for one that did not number."""

    sessions: dict[str, int | None] = {}


class SessionAccount(msgspec.Struct, frozen=True):
    """What became of a session's numbers so far; `open` of them have left no record yet."""

    session: str
    announced: int | None
    stored: int
    refused: int
    lost: int
    open: int


class RunStanding(msgspec.Struct, frozen=True):
    """How a run stands; `complete` null is unknown, also while something may still arrive."""

    run_id: str
    state: RunState
    closing_until: datetime | None
    closed_at: datetime | None
    complete: bool | None
    effective: str
    sessions: list[SessionAccount]


@put(
    "/{run:str}",
    operation_id="declareRun",
    summary="Declare a run, or narrow it",
    opt={OPERATION: capture_schema.DECLARE_RUN},
)
async def declare_run(
    request: AnyRequest, run: FromPath[str], data: JSONBody[RunDeclaration]
) -> Response[RunAdmission]:
    """Answer whether the run's content is admitted, within which limits, until when, and with which ticket."""
    scope = await scope_of(request)
    said = _declaration(data)
    admission = await services(request).runs.declare(caller(request), scope.scope_id, caller_id(run), said)
    status = 202 if not admission.in_force else 201 if admission.new else 200
    return Response(_admission(admission), status_code=status, media_type=_JSON)


@post(
    "/{run:str}/close",
    operation_id="closeRun",
    summary="Close a run",
    status_code=200,
    opt={OPERATION: capture_schema.CLOSE_RUN},
)
async def close_run(
    request: AnyRequest, run: FromPath[str], data: JSONBody[RunClosing]
) -> Response[RunStanding]:
    """Announce how much each session observed; what is on its way is still taken for a moment."""
    scope = await scope_of(request)
    announced = _announced(data.sessions)
    closed = await services(request).closing.close(
        caller(request).key_id, scope.scope_id, caller_id(run), announced
    )
    return Response(_standing(closed), status_code=200 if closed.in_force else 202, media_type=_JSON)


router = Router(
    "/v1/runs",
    route_handlers=[declare_run, close_run],
    guards=[requires(Role.RUNTIME)],
    before_request=unambiguous,
    request_max_body_size=MOST_BYTES,
    tags=["runtimes"],
)


def _declaration(data: RunDeclaration) -> Declaration:
    return Declaration(
        mode=data.mode,
        content=data.content,
        retention_s=None if data.retention is None else _retention(data.retention),
        labels=_labels(data.labels),
        sources=_sources(data.sources),
        subject=None if data.subject is None else printable(data.subject, "subject"),
        shared=data.shared,
        erase=data.erase,
    )


def _retention(text: str) -> int:
    try:
        return duration(text)
    except ValueError as fault:
        raise Malformed(detail=f"retention {fault}") from None


def _labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > _MOST_LABELS or not all(_LABEL.fullmatch(name) for name in labels):
        raise Malformed(detail=f"at most {_MOST_LABELS} labels, with names of 1 to 64 of A-Z a-z 0-9 . _ : -")
    return {name: printable(value, "a label") for name, value in labels.items()}


def _sources(refs: list[SourceRef]) -> "frozenset[Any]":
    if len(refs) > MAX_SOURCES:
        raise Malformed(detail=f"at most {MAX_SOURCES} sources")
    return frozenset(bindings_of([(ref.source, ref.version) for ref in refs]))


def _announced(sessions: dict[str, int | None]) -> dict[str, int | None]:
    if len(sessions) > MAX_SESSIONS:
        raise Malformed(detail=f"a run has at most {MAX_SESSIONS} sessions")
    for session, last in sessions.items():
        caller_id(session)
        if last is not None and not 0 <= last <= MAX_ANNOUNCED:
            raise Malformed(detail=f"a session numbers from 1 to at most {MAX_ANNOUNCED}")
    return sessions


def _admission(admission: Admission) -> RunAdmission:
    standing, limits = admission.row.standing, admission.scope.policy.run_limits
    return RunAdmission(
        run_id=admission.row.run,
        admitted=admission.reason is None,
        reason=admission.reason,
        mode=standing.mode,
        content=standing.content,
        kinds=sorted(standing.kinds),
        limits=Limits(
            limits.part_bytes,
            limits.run_parts,
            limits.run_bytes,
            limits.run_waiting_parts,
            limits.run_waiting_bytes,
            limits.run_waiting_notes,
        ),
        retain_until=standing.retain_until,
        policy_version=admission.row.policy_version,
        ticket=admission.ticket,
        ticket_expires_at=admission.ticket_expires_at,
        effective=_effective(in_force=admission.in_force),
        sources=sorted(
            (SourceRef(each.source, each.version) for each in admission.row.sources),
            key=lambda ref: (ref.source, ref.version or 0),
        ),
    )


def _standing(closed: Closed) -> RunStanding:
    return RunStanding(
        run_id=closed.row.run,
        state=closed.row.state,
        closing_until=closed.closing_until,
        closed_at=closed.row.closed_at,
        complete=closed.whole,
        effective=_effective(in_force=closed.in_force),
        sessions=[
            SessionAccount(
                session=session,
                announced=account.observed,
                stored=account.stored.count,
                refused=account.refused.count,
                lost=account.said.count,
                open=account.unaccounted.count,
            )
            for session, account in closed.accounts.items()
        ],
    )


def _effective(*, in_force: bool) -> str:
    return "now" if in_force else "at_write"
