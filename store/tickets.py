"""Tickets: an admission, signed, so that the guard can decide on a request without asking anybody."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from policies.kinds import Kind
from policies.limits import RunLimits, ScopeLimits
from policies.reasons import Reason
from policies.revocation import Binding
from store import errors, tokens
from store.ids import RunUid, ScopeId

PREFIX: Final = "ct1."

# How far the clocks of two of our machines may be apart.
SKEW: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Ticket:
    """What was admitted, for whom, within which limits, and until when."""

    scope: ScopeId
    key_id: str
    shared: bool
    run: str
    run_uid: RunUid
    kinds: frozenset[Kind]
    limits: RunLimits
    scope_limits: ScopeLimits
    policy_version: int
    retain_until: datetime
    expires_at: datetime
    # The run's default sources as they were then: what depends on them must be known also while Postgres is away.
    sources: frozenset[Binding] = frozenset()

    def over(self, now: datetime) -> bool:
        """Say whether it has expired, with a minute's grace."""
        return now >= self.expires_at + SKEW


class _Wire(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A ticket's payload: an array, so that no names are carried; a new layout gets a new prefix."""

    scope: UUID
    key_id: str
    shared: bool
    run: str
    run_uid: UUID
    kinds: frozenset[Kind]
    limits: tuple[int, int, int, int, int, int]
    scope_limits: tuple[int, int, float]
    policy_version: int
    retain_until: datetime
    expires_at: datetime
    sources: tuple[tuple[str, int | None], ...] = ()


_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes", order="deterministic")
_decoder: Final = msgspec.msgpack.Decoder(_Wire)


def issue(key: bytes, ticket: Ticket) -> str:
    """Return the text of a ticket."""
    return tokens.sign(PREFIX, key, _encoder.encode(_to_wire(ticket)))


def read(key: bytes, text: str, now: datetime) -> Ticket:
    """Return the ticket of a text; Refused if it is not ours, or has expired (a minute's grace)."""
    ticket = _read(key, text)
    if ticket.over(now):
        raise errors.Refused(Reason.TICKET_EXPIRED)
    return ticket


class TicketReader:
    """Reads tickets, and remembers the last `size` genuine ones: a flush repeats the same text."""

    def __init__(self, key: bytes, size: int = 4096) -> None:
        self._key = key
        self._size = size
        self._known: dict[str, Ticket] = {}

    def genuine(self, text: str) -> Ticket:
        """Return a ticket that we gave, of whatever age; what carries no content may still be told with an old one."""
        ticket = self._known.get(text)
        if ticket is None:
            ticket = _read(self._key, text)
            self._remember(text, ticket)
        return ticket

    def _remember(self, text: str, ticket: Ticket) -> None:
        # Only genuine ones come here, so that forgeries cannot push them out. Oldest out first: a
        # ticket lives 15 minutes, which makes keeping the order of use not worth its cost on every read.
        while len(self._known) >= self._size:
            del self._known[next(iter(self._known))]
        self._known[text] = ticket


def _read(key: bytes, text: str) -> Ticket:
    payload = tokens.verified(PREFIX, key, text)
    if payload is None:
        raise errors.Refused(Reason.TICKET_INVALID)
    try:
        return _from_wire(_decoder.decode(payload))
    except msgspec.MsgspecError as error:
        raise errors.Refused(Reason.TICKET_INVALID) from error


def _to_wire(ticket: Ticket) -> _Wire:
    run, scope = ticket.limits, ticket.scope_limits
    return _Wire(
        scope=ticket.scope,
        key_id=ticket.key_id,
        shared=ticket.shared,
        run=ticket.run,
        run_uid=ticket.run_uid,
        kinds=ticket.kinds,
        limits=(
            run.part_bytes,
            run.run_parts,
            run.run_bytes,
            run.run_waiting_parts,
            run.run_waiting_bytes,
            run.run_waiting_notes,
        ),
        scope_limits=(scope.waiting_parts, scope.waiting_bytes, scope.share),
        policy_version=ticket.policy_version,
        retain_until=ticket.retain_until,
        expires_at=ticket.expires_at,
        sources=tuple(sorted(((each.source, each.version) for each in ticket.sources), key=str)),
    )


def _from_wire(wire: _Wire) -> Ticket:
    return Ticket(
        scope=ScopeId(wire.scope),
        key_id=wire.key_id,
        shared=wire.shared,
        run=wire.run,
        run_uid=RunUid(wire.run_uid),
        kinds=wire.kinds,
        limits=RunLimits(*wire.limits),
        scope_limits=ScopeLimits(*wire.scope_limits),
        policy_version=wire.policy_version,
        retain_until=wire.retain_until,
        expires_at=wire.expires_at,
        sources=frozenset(Binding(source, version) for source, version in wire.sources),
    )
