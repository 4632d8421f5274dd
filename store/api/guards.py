"""What stands before every capture: it runs before the first `receive()`, so that a refused body is never asked for.

With `Expect: 100-continue` the sender keeps its bytes; without it they stay unread in the socket, which is then closed.
Nothing in this file may touch `.stream()`, `.body()` or `receive` of a connection (a house test looks).
"""

from typing import Any, Final
from uuid import UUID

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from policies.content import clear_content
from policies.kinds import Content, Role
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store.api.headers import clean, declared_length, said_of
from store.api.identity import SCOPE_HEADER, authenticated, named_scope, services
from store.api.problems import NotCaptured
from store.errors import CustodyError, Malformed, Unavailable
from store.ids import caller_id
from store.queue import RunKey
from store.services.admission import RunRefused, Sender, Sending
from store.services.notes import Gap
from store.services.said import PartSaid, part_said
from store.wiring import Services

Connection = ASGIConnection[Any, Any, Any, Any]

_ADMITTED: Final = "custody.admitted"
_PART: Final = "custody.part"
_REPORTING: Final = "custody.reporting"


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """What the guard of a capture found; the handler goes on from here."""

    services: Services
    headers: dict[str, str]
    sender: Sender
    declared_bytes: int | None

    @property
    def scope(self) -> UUID:
        """Return whose bodies they are."""
        return self.sender.key.scope


class Reporting(msgspec.Struct, frozen=True, gc=False):
    """A run whose losses its sender may report; no content is involved, so that an expired ticket does."""

    services: Services
    key: RunKey
    run_uid: UUID
    declared_bytes: int | None

    @property
    def scope(self) -> UUID:
        """Return whose bodies they are."""
        return self.key.scope


def admitted(connection: Connection) -> Admitted:
    """Return what the guard of this request found."""
    found: Admitted = _found(connection, _ADMITTED)
    return found


def part_admitted(connection: Connection) -> PartSaid:
    """Return what was said of the part that the guard let pass."""
    said: PartSaid = _found(connection, _PART)
    return said


def reporting(connection: Connection) -> Reporting:
    """Return for which run losses may be reported."""
    found: Reporting = _found(connection, _REPORTING)
    return found


async def guard_part(connection: Connection, _: BaseRouteHandler) -> None:
    """Decide on one part from its headers; a refusal is answered with a receipt."""
    opened, headers, who = await _introduced(connection)
    path = connection.path_params
    key = RunKey(who.scope_id, caller_id(path["run"]))
    said = part_said(path["exchange"], path["attempt"], path["kind"], said_of(headers))
    declared_bytes = declared_length(headers)
    try:
        sender = await opened.admission.sender(who, key.run, headers.get("custody-ticket"))
        await opened.admission.permit(sender, said, declared_bytes)
    except RunRefused as refusal:
        raise await refused(opened, key, said, refusal.reason, refusal.run_uid) from None
    except Unavailable as outage:
        raise await refused(opened, key, said, outage.reason, None) from None
    _put(connection, _ADMITTED, Admitted(opened, headers, sender, declared_bytes))
    _put(connection, _PART, said)


async def guard_flush(connection: Connection, _: BaseRouteHandler) -> None:
    """Decide on a whole flush from the request's headers; refused unread, its numbers become a gap range."""
    opened, headers, who = await _introduced(connection)
    key = RunKey(who.scope_id, caller_id(connection.path_params["run"]))
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/msgpack":
        raise CustodyError(Reason.UNSUPPORTED_MEDIA, "a flush is application/msgpack")
    declared_bytes = declared_length(headers)
    numbers = numbers_of(headers)
    try:
        sender = await opened.admission.sender(who, key.run, headers.get("custody-ticket"))
    except RunRefused as refusal:
        raise await flush_refused(opened, key, numbers, refusal.reason, refusal.run_uid) from None
    except Unavailable as outage:
        raise await flush_refused(opened, key, numbers, outage.reason, None) from None
    if declared_bytes is not None and declared_bytes > opened.settings.flush_bytes:
        raise await flush_refused(opened, key, numbers, Reason.PART_TOO_LARGE, sender.view.run_uid)
    if "custody-content" in headers and clear_content([headers["custody-content"]]) is not Content.ALLOW:
        raise await flush_refused(opened, key, numbers, Reason.CONTENT_OPT_OUT, sender.view.run_uid)
    _put(connection, _ADMITTED, Admitted(opened, headers, sender, declared_bytes))


async def guard_note(connection: Connection, _: BaseRouteHandler) -> None:
    """Decide on an attempt's state: the run must be open to its sender; the body is small and has no content."""
    opened, headers, who = await _introduced(connection)
    run = caller_id(connection.path_params["run"])
    declared_bytes = declared_length(headers)
    try:
        sender = await opened.admission.sender(who, run, headers.get("custody-ticket"))
    except (RunRefused, Unavailable) as refusal:
        raise NotCaptured(refusal.reason, None) from None
    _put(connection, _ADMITTED, Admitted(opened, headers, sender, declared_bytes))


async def guard_gaps(connection: Connection, _: BaseRouteHandler) -> None:
    """Decide on a report of losses: taken until the run's retention ends, also when it is closed or refused."""
    opened, headers, who = await _introduced(connection)
    run = caller_id(connection.path_params["run"])
    declared_bytes = declared_length(headers)
    try:
        run_uid = await opened.admission.reporter(who, run, headers.get("custody-ticket"))
    except (RunRefused, Unavailable) as refusal:
        raise NotCaptured(refusal.reason, None) from None
    _put(connection, _REPORTING, Reporting(opened, RunKey(who.scope_id, run), run_uid, declared_bytes))


async def refused(
    services: Services,
    key: RunKey,
    said: PartSaid,
    reason: Reason,
    run_uid: UUID | None,
) -> NotCaptured:
    """Record one refusal where that can be done, and return it as the error that answers it."""
    services.metrics.refused(said.kind, reason)
    return NotCaptured(reason, await services.ingest.refuse(key, said, reason, run_uid))


async def flush_refused(
    services: Services,
    key: RunKey,
    numbers: tuple[str, SequenceSet] | None,
    reason: Reason,
    run_uid: UUID | None,
) -> NotCaptured:
    """Record the numbers of a flush that was refused unread, and return the error that answers it."""
    services.metrics.refused(None, reason)
    recorded = False
    if numbers is not None:
        session, sequences = numbers
        recorded = await services.notes.refuse_range(key, run_uid, Gap(session, sequences, reason))
    return NotCaptured(reason, None, recorded=recorded)


async def _introduced(connection: Connection) -> tuple[Services, dict[str, str], Sending]:
    """Hygiene first, then who it is: what is said twice is not asked about at all."""
    opened = services(connection)
    headers = clean(list(connection.scope["headers"]), opened.settings.header_bytes)
    who = await authenticated(connection)
    if who.role is not Role.RUNTIME or who.scope_id is None:
        raise CustodyError(Reason.PERMISSION_DENIED, "only a runtime's key captures")
    if SCOPE_HEADER in headers:
        # Whoever names another scope than the key's means content for somebody else.
        await named_scope(connection)
    return opened, headers, Sending(who.key_id, who.scope_id)


def numbers_of(headers: dict[str, str]) -> tuple[str, SequenceSet] | None:
    """Return session and numbers that a flush's headers name, so that a flush refused unread can be recorded."""
    session, sequences = headers.get("custody-session"), headers.get("custody-sequences")
    if session is None or sequences is None:
        return None
    try:
        return caller_id(session), SequenceSet.from_text(sequences)
    except ValueError:
        raise Malformed(detail="Custody-Sequences are ranges such as 10-41,50") from None


def _put(connection: Connection, name: str, found: object) -> None:
    connection.scope[name] = found  # type: ignore[literal-required] # ours beside ASGI's own keys


def _found(connection: Connection, name: str) -> Any:
    return connection.scope[name]  # type: ignore[literal-required] # ours beside ASGI's own keys
