"""Posting observations: one part, a flush of frames, an attempt's state, the runtime's own losses, facts.

Every handler here takes the bare request, so that nothing reads a body before its guard has decided.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from litestar import Request, Response, Router

from policies.kinds import Capture, Dispatch, Settlement
from policies.limits import NOTE_BYTES
from policies.reasons import STATUS, Reason
from store.api import capture_schema
from store.api.answers import Ready, post, put
from store.api.bodies import BodyReader
from store.api.direct import DIRECT
from store.api.guards import (
    Admitted,
    Reporting,
    admitted,
    flush_refused,
    guard_flush,
    guard_gaps,
    guard_note,
    guard_part,
    numbers_of,
    part_admitted,
    refused,
    reporting,
)
from store.api.headers import wait_of
from store.api.problems import CAPTURES, NotCaptured
from store.api.schema import OPERATION
from store.errors import Malformed, Refused
from store.services import facts, flushes
from store.services.bodies import Room
from store.services.documents import check
from store.services.ingest import Body
from store.services.receipt_view import FirstReceipt, NoteView, ReceiptView
from store.services.said import StateSaid, state_said
from store.wiring import Services

_STATUS: Final = {Capture.QUEUED: 202, Capture.STORED: 200, Capture.NOT_CAPTURED: 200}
_CREATED: Final = 201
# Ranges of losses are small; a client with more of them sends several reports.
_GAPS_BYTES: Final = 64 * NOTE_BYTES
# As many facts as a call may hold, each as long as it may be, and what stands between them.
_FACTS_BYTES: Final = (facts.MOST_AT_ONCE + 1) * NOTE_BYTES

AnyRequest = Request[Any, Any, Any]
Form = TypeVar("Form")


class Receipts(msgspec.Struct, frozen=True):
    """The answer to a flush: one receipt (or note) a frame, in order."""

    receipts: list[flushes.FrameView]


class Notes(msgspec.Struct, frozen=True):
    """The answer to a report of losses, one a gap, in order."""

    gaps: list[NoteView]


class FactNotes(msgspec.Struct, frozen=True):
    """The answer to a report of facts, one a fact, in order."""

    facts: list[NoteView]


class AttemptState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a runtime says of an attempt; `refs` are at most four ids of others, of at most 200 bytes."""

    dispatch: Dispatch = Dispatch.UNKNOWN
    settlement: Settlement = Settlement.UNKNOWN
    refs: tuple[str, ...] = ()


class Losses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runtime's own losses: `{"gaps": [{"session": …, "sequences": "1-3,7", "reason": …}]}`."""

    gaps: list[dict[str, str]]


@put(
    "/v1/runs/{run:str}/exchanges/{exchange:str}/attempts/{attempt:str}/parts/{kind:str}",
    guards=[guard_part],
    operation_id="putPart",
    summary="Capture one part",
    opt={CAPTURES: True, DIRECT: True, OPERATION: capture_schema.PUT_PART},
    status_code=202,
)
async def put_part(request: AnyRequest) -> Response[ReceiptView]:
    """Take the exact bytes of one part; answer whether a bounded copy waits to be written (202) or why not."""
    found = admitted(request)
    said = part_admitted(request)
    most_bytes = found.sender.ticket.limits.part_bytes
    try:
        with _room(found, most_bytes) as room:
            content = await _read(request, room)
            (receipt,) = await found.services.ingest.capture(found.sender, [Body(said, content)])
    except Refused as refusal:
        raise await refused(
            found.services, found.sender.key, said, refusal.reason, found.sender.view.run_uid
        ) from None
    return await _receipted(found, receipt)


@post(
    "/v1/runs/{run:str}/frames",
    guards=[guard_flush],
    operation_id="postFrames",
    summary="Capture one flush of frames",
    opt={CAPTURES: True, DIRECT: True, OPERATION: capture_schema.POST_FRAMES},
    status_code=202,
)
async def post_frames(request: AnyRequest) -> Response[bytes]:
    """Take one flush: parts, attempt states and gaps as MessagePack frames; one receipt a frame, in order."""
    found = admitted(request)
    opened, key = found.services, found.sender.key
    most_bytes = opened.settings.flush_bytes
    try:
        with _room(found, most_bytes) as room:
            flush = await _read(request, room)
            raw = flushes.split(flush, opened.settings.flush_frames)
            views = await opened.flushes.take(found.sender, found.headers.get("custody-session"), raw)
    except Refused as refusal:
        raise await flush_refused(
            opened,
            key,
            numbers_of(found.headers),
            refusal.reason,
            found.sender.view.run_uid,
        ) from None
    _count(opened, views)
    # Two kinds of answer stand in one list, which the framework's schema cannot say: capture_schema does.
    return Ready(msgspec.json.encode(Receipts(views)), 202)


@put(
    "/v1/runs/{run:str}/exchanges/{exchange:str}/attempts/{attempt:str}",
    guards=[guard_note],
    operation_id="putAttempt",
    summary="Say what became of an attempt",
    opt={CAPTURES: True, DIRECT: True, OPERATION: capture_schema.PUT_ATTEMPT},
    status_code=202,
)
async def put_attempt(request: AnyRequest) -> Response[NoteView]:
    """Take dispatch, settlement and references of an attempt; forward only, the first word stays."""
    found = admitted(request)
    path = request.path_params
    told = _decoded(await _note_body(request, found, NOTE_BYTES), AttemptState)
    said = StateSaid(path["exchange"], path["attempt"], told.dispatch, told.settlement, told.refs)
    view = await found.services.notes.state(found.sender, state_said(said))
    if view.reason is not None:
        raise NotCaptured(view.reason, None)
    return Ready(view, 202)


@post(
    "/v1/runs/{run:str}/gaps",
    guards=[guard_gaps],
    operation_id="postGaps",
    summary="Report what the runtime lost",
    opt={CAPTURES: True, DIRECT: True, OPERATION: capture_schema.POST_GAPS},
    status_code=202,
)
async def post_gaps(request: AnyRequest) -> Response[Notes]:
    """Take the runtime's own losses as ranges of a session's numbers; a union, so that a repeat changes nothing."""
    found = reporting(request)
    losses = _decoded(await _note_body(request, found, _GAPS_BYTES), Losses)
    said = [
        flushes.gap_said(gap.get("session"), gap.get("sequences"), gap.get("reason")) for gap in losses.gaps
    ]
    views = await found.services.notes.report(found.key, found.run_uid, said)
    return Ready(Notes(views), 202)


@post(
    "/v1/runs/{run:str}/facts",
    guards=[guard_note],
    operation_id="postFacts",
    summary="Report facts of the runtime's toolchain",
    opt={CAPTURES: True, DIRECT: True, OPERATION: capture_schema.POST_FACTS},
    status_code=202,
)
async def post_facts(request: AnyRequest) -> Response[FactNotes]:
    """Take small typed facts without content; told again, the first stays, and a bad one takes no other with it."""
    found = admitted(request)
    body = await _note_body(request, found, _FACTS_BYTES)
    told = [facts.read(each) for each in facts.split(body)]
    return Ready(FactNotes(await found.services.notes.facts(found.sender, told)), 202)


def _room(found: Admitted | Reporting, most_bytes: int) -> Room:
    """Hold room in the process's budget, of the share that the scope has."""
    return found.services.bodies.room(found.scope, found.declared_bytes, most_bytes)


async def _read(request: AnyRequest, room: Room) -> bytes | memoryview:
    reader: BodyReader = request.app.state.bodies
    return await reader.read(request.receive, room)


async def _note_body(request: AnyRequest, found: Admitted | Reporting, most_bytes: int) -> bytes:
    if found.declared_bytes is not None and found.declared_bytes > most_bytes:
        raise NotCaptured(Reason.PART_TOO_LARGE, None)
    try:
        with _room(found, most_bytes) as room:
            return bytes(await _read(request, room))
    except Refused as refusal:
        raise NotCaptured(refusal.reason, None) from None


async def _receipted(found: Admitted, receipt: ReceiptView) -> Response[ReceiptView]:
    """Answer a receipt; where the caller wants to wait and there is something to wait for, wait first."""
    services = found.services
    again = isinstance(receipt, FirstReceipt)
    status = _STATUS[receipt.capture]
    wait_s = wait_of(found.headers, services.settings.wait_max.total_seconds())
    if receipt.capture is Capture.QUEUED and wait_s:
        receipt = await services.outcomes.awaited(found.sender.key, receipt, wait_s)
        status = _CREATED if receipt.capture is Capture.STORED else _STATUS[receipt.capture]
    if receipt.reason is None:
        services.metrics.admitted(receipt.kind)
    else:
        services.metrics.refused(receipt.kind, receipt.reason)
    # What a writer finds out by itself (write_failed) is no refusal of the request: its receipt is the answer.
    if receipt.reason is not None and receipt.reason in STATUS:
        raise NotCaptured(receipt.reason, receipt)
    # The same bytes again get the first receipt, and a status that says so.
    status = 200 if again else status
    return Ready(receipt, status, {"Location": f"/v1/receipts/{receipt.receipt}"})


def _count(opened: Services, views: Sequence[flushes.FrameView]) -> None:
    for view in views:
        if not isinstance(view, ReceiptView):
            continue
        if view.reason is None:
            opened.metrics.admitted(view.kind)
        else:
            opened.metrics.refused(view.kind, view.reason)


def _decoded(body: bytes, form: type[Form]) -> Form:
    check(body)
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, RecursionError):
        # The library's message may quote what it met.
        raise Malformed(detail="the body is not as /schema says") from None


router = Router(
    "/", route_handlers=[put_part, post_frames, put_attempt, post_gaps, post_facts], tags=["capture"]
)
