"""What the service answers, read as far as this side needs it. What is not to be understood is no answer."""

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import msgspec

from custody_client.transport import Answer
from custody_client.words import KINDS, NOT_NOW

_ACCEPTED: Final = (200, 201, 202)
_SERVER_FAULT: Final = 500
_LEAST_S: Final = 1.0
_MOST_S: Final = 3600.0
_UNKNOWN_S: Final = 60.0
_DELIVERED: Final = frozenset({"queued", "stored"})
Form = TypeVar("Form")


class Limits(msgspec.Struct, frozen=True):
    """What the service takes of a run; more is refused, so that it need not be sent."""

    part_bytes: int
    run_waiting_parts: int = 32
    run_waiting_bytes: int = 4 * 1024 * 1024


class Admission(msgspec.Struct, frozen=True):
    """The answer to a declaration."""

    admitted: bool
    limits: Limits
    reason: str | None = None
    kinds: tuple[str, ...] = ()
    ticket: str | None = None
    ticket_expires_at: datetime | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What became of one frame or gap: `capture` is there for parts only."""

    recorded: bool
    reason: str | None = None
    capture: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether a part waits to be written, or is."""
        return self.capture in _DELIVERED


class _Receipts(msgspec.Struct):
    receipts: list[Outcome]


class _Notes(msgspec.Struct):
    gaps: list[Outcome]


class _FactNotes(msgspec.Struct):
    facts: list[Outcome]


class Problem(msgspec.Struct, frozen=True):
    """A refused or failed request, by the reason that the service gives for it."""

    reason: str
    recorded: bool = False
    status: int = 0

    @property
    def outage(self) -> bool:
        """Whether the service could not, which is no refusal."""
        return self.reason in NOT_NOW or self.status >= _SERVER_FAULT


class NotUnderstood(Exception):
    """An answer that the service cannot have meant: from somebody else, or broken."""


def admission(answer: Answer) -> tuple[Admission, float] | Problem:
    """Read the answer to a declaration; with it, for how many seconds its ticket is good."""
    if answer.status not in _ACCEPTED:
        return _problem(answer)
    found = _read(answer, Admission)
    if found.admitted and (not found.ticket or not _sendable(found.ticket) or found.limits.part_bytes < 1):
        raise NotUnderstood("an admission without a ticket")
    if not found.admitted and not found.reason:
        raise NotUnderstood("a refusal without a reason")
    return found, _lifetime_s(answer, found)


def receipts(answer: Answer, frames: int) -> list[Outcome] | Problem:
    """Read the answer to a flush: one outcome a frame, in order."""
    if answer.status not in _ACCEPTED:
        return _problem(answer)
    found = _read(answer, _Receipts).receipts
    if len(found) != frames:
        raise NotUnderstood("not one receipt a frame")
    return found


def notes(answer: Answer, gaps: int) -> list[Outcome] | Problem:
    """Read the answer to a report of losses: one outcome a gap, in order."""
    if answer.status not in _ACCEPTED:
        return _problem(answer)
    found = _read(answer, _Notes).gaps
    if len(found) != gaps:
        raise NotUnderstood("not one note a gap")
    return found


def fact_notes(answer: Answer, facts: int) -> list[Outcome] | Problem:
    """Read the answer to a report of facts: one outcome a fact, in order."""
    if answer.status not in _ACCEPTED:
        return _problem(answer)
    found = _read(answer, _FactNotes).facts
    if len(found) != facts:
        raise NotUnderstood("not one note a fact")
    return found


def closed(answer: Answer) -> bool | Problem:
    """Read the answer to a closing."""
    if answer.status not in _ACCEPTED:
        return _problem(answer)
    _read(answer, dict[str, Any])
    return True


def _lifetime_s(answer: Answer, found: Admission) -> float:
    """Return how long a ticket lives from now on, told by the service's own clock where its answer says that."""
    try:
        now = parsedate_to_datetime(answer.headers["date"])
        left = found.ticket_expires_at - now if found.ticket_expires_at is not None else None
    except (ValueError, TypeError, KeyError):
        left = None
    return _UNKNOWN_S if left is None else min(max(left.total_seconds(), _LEAST_S), _MOST_S)


def admitted_kinds(found: Admission) -> frozenset[str]:
    """Return the kinds that may be captured, of those that this side knows."""
    return frozenset(found.kinds) & frozenset(KINDS)


def _problem(answer: Answer) -> Problem:
    found = msgspec.structs.replace(_read(answer, Problem), status=answer.status)
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        raise NotUnderstood(f"status {answer.status} from somebody else")
    return found


def _read(answer: Answer, form: type[Form]) -> Form:
    try:
        return msgspec.json.decode(answer.body, type=form)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise NotUnderstood(f"status {answer.status} with a body of somebody else") from None


def _sendable(ticket: str) -> bool:
    return ticket.isascii() and ticket.isprintable() and " " not in ticket
