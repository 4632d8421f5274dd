"""Gather what the guard needs, ask the policies, and answer before a byte of the body was asked for.

Fails closed on everything a caller says, and open on nothing: where our own facts cannot be had, that is an outage and
is said as one; sources alone may be left to the writer, who asks again before the write.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from policies.content import admit_kind
from policies.decisions import ALLOW, Decision, Refuse
from policies.kinds import Content
from policies.reasons import Reason
from policies.retention import expired
from policies.revocation import Binding, admit_sources
from store.clock import utc_now
from store.errors import Refused, Unavailable
from store.ids import ScopeId
from store.queue import RunKey
from store.services.disk import Disk
from store.services.run_facts import RunFacts
from store.services.runs import RunBook
from store.services.said import PartSaid
from store.services.scopes import Scope, ScopeBook
from store.services.sources import SourceBook
from store.tickets import Ticket, TicketReader

# So many decisions: each keeps its ticket, which with many sources takes some kilobytes.
_REMEMBERED: Final = 4_096
# States of a run in the queue that are not a reason to refuse.
_OPEN = frozenset({"open", "closing"})


class Sending(msgspec.Struct, frozen=True, gc=False):
    """A runtime's key and its scope."""

    key_id: str
    scope_id: ScopeId


class Sender(msgspec.Struct, frozen=True, gc=False):
    """A run that may be posted to, by whom, and on which ticket."""

    key: RunKey
    key_id: str
    ticket: Ticket
    view: RunFacts


class _Decided(msgspec.Struct, frozen=True, gc=False):
    """A sender, and the facts by which it was decided: as long as these stand, so does the decision."""

    sender: Sender
    view: RunFacts
    scope: Scope
    until: datetime


class RunRefused(Refused):
    """Nothing may be posted; `run_uid` is there where the refusal may be recorded in that run.

    Whoever holds no genuine ticket of a run leaves no trace in it: otherwise one key could litter another's run.
    """

    def __init__(self, reason: Reason, run_uid: UUID | None) -> None:
        super().__init__(reason)
        self.run_uid = run_uid


class Admission:
    """The guard's use case. Its facts are at most a second old; the queue's script and the writer decide again."""

    def __init__(
        self, tickets: TicketReader, runs: RunBook, scopes: ScopeBook, sources: SourceBook, disk: Disk
    ) -> None:
        self._disk = disk
        self._tickets = tickets
        self._runs = runs
        self._scopes = scopes
        self._sources = sources
        self._decided: dict[tuple[str, str, str], _Decided] = {}

    async def sender(self, who: Sending, run: str, ticket_text: str | None) -> Sender:
        """Return who may post to the run, or raise RunRefused; an outage is raised as Unavailable."""
        now = utc_now()
        key = RunKey(who.scope_id, run)
        if ticket_text is None:
            raise await self._refused_without_ticket(who, key, now)
        # A run that is busy is asked about many times while its facts are the same.
        decided = self._decided.get((who.key_id, run, ticket_text))
        if decided is None or not self._stands(decided, who, key, now):
            decided = await self._decide_sender(who, key, ticket_text, now)
            self._remember((who.key_id, run, ticket_text), decided)
        room = await self._disk.decide()
        if isinstance(room, Refuse):
            raise RunRefused(room.reason, decided.view.run_uid)
        return decided.sender

    def _stands(self, decided: _Decided, who: Sending, key: RunKey, now: datetime) -> bool:
        return (
            now < decided.until
            and self._runs.settled(key) is decided.view
            and self._scopes.settled(who.scope_id) is decided.scope
        )

    def _remember(self, asked: tuple[str, str, str], decided: _Decided) -> None:
        # Whatever is in use is decided anew each second, so that the oldest are those whose tickets are long over.
        self._decided.pop(asked, None)
        while len(self._decided) >= _REMEMBERED:
            del self._decided[next(iter(self._decided))]
        self._decided[asked] = decided

    async def _decide_sender(self, who: Sending, key: RunKey, ticket_text: str, now: datetime) -> _Decided:
        ticket = self._genuine(who, key.run, ticket_text)
        if ticket.over(now):
            raise RunRefused(Reason.TICKET_EXPIRED, ticket.run_uid)
        view = await self._runs.view(key)
        if view is None:
            raise RunRefused(Reason.RUN_NOT_ADMITTED, None)
        if ticket.run_uid != view.run_uid or view.speaks(who.key_id) is False:
            # The second: it was shared when the ticket was given, and is not any more.
            raise RunRefused(Reason.TICKET_INVALID, None)
        reason = _refusal(view, now)
        if reason is not None:
            raise RunRefused(reason, view.run_uid)
        scope = await self._scopes.get(who.scope_id)
        if ticket.policy_version < scope.version:
            raise RunRefused(Reason.TICKET_EXPIRED, view.run_uid)
        whole = view
        if not ticket.sources <= view.sources:
            whole = replace(view, sources=view.sources | ticket.sources)
        until = min(ticket.expires_at, view.retain_until)
        return _Decided(Sender(key, who.key_id, ticket, whole), view, scope, until)

    async def permit(self, sender: Sender, said: PartSaid, declared_bytes: int | None) -> None:
        """Do as `decide` does, and raise the refusal."""
        decision = await self.decide(sender, said, declared_bytes)
        if isinstance(decision, Refuse):
            raise RunRefused(decision.reason, sender.view.run_uid)

    async def decide(self, sender: Sender, said: PartSaid, declared_bytes: int | None) -> Decision:
        """Decide on one part from what is said of it, before its bytes are looked at."""
        if said.content is not Content.ALLOW:
            return Refuse(Reason.CONTENT_OPT_OUT)
        kind = admit_kind(sender.ticket.kinds, said.kind)
        if isinstance(kind, Refuse):
            return kind
        if declared_bytes is not None and declared_bytes > sender.ticket.limits.part_bytes:
            return Refuse(Reason.PART_TOO_LARGE)
        if not said.bindings and not sender.view.sources:
            return ALLOW
        return await self._decide_sources(sender, [*said.bindings, *sender.view.sources])

    async def reporter(self, who: Sending, run: str, ticket_text: str | None) -> UUID:
        """Return the run whose losses this key may report: its own, or one that it holds a genuine ticket of."""
        key = RunKey(who.scope_id, run)
        if ticket_text is not None:
            return self._genuine(who, run, ticket_text).run_uid
        run_uid = await self._runs.recordable(who, key)
        if run_uid is None:
            raise RunRefused(Reason.RUN_NOT_ADMITTED, None)
        return run_uid

    def _genuine(self, who: Sending, run: str, text: str) -> Ticket:
        """Return a ticket that we gave to this key for this run, of whatever age."""
        try:
            ticket = self._tickets.genuine(text)
        except Refused as refusal:
            raise RunRefused(refusal.reason, None) from None
        if (ticket.scope, ticket.run, ticket.key_id) != (who.scope_id, run, who.key_id):
            raise RunRefused(Reason.TICKET_INVALID, None)
        return ticket

    async def _decide_sources(self, sender: Sender, bindings: Sequence[Binding]) -> Decision:
        scope = await self._scopes.get(ScopeId(sender.key.scope))
        try:
            facts = await self._sources.facts(
                sender.key.scope, sorted({binding.source for binding in bindings})
            )
        except Unavailable:
            # Nobody can say now. The part waits in the queue, and the writer, who needs the same database, asks again.
            return ALLOW
        return admit_sources(bindings, facts, scope.policy.unknown_sources)

    async def _refused_without_ticket(self, who: Sending, key: RunKey, now: datetime) -> RunRefused:
        """A run that was refused has no ticket: say its owner why, not that a ticket is missing."""
        view = await self._runs.view(key)
        if view is None:
            return RunRefused(Reason.RUN_NOT_ADMITTED, None)
        speaks = view.speaks(who.key_id)
        reason = _refusal(view, now)
        if reason is None or speaks is False:
            return RunRefused(Reason.TICKET_INVALID, None)
        return RunRefused(reason, view.run_uid if speaks else None)


def _refusal(view: RunFacts, now: datetime) -> Reason | None:
    if view.state not in _OPEN:
        return Reason(view.state)
    return Reason.RETENTION_EXPIRED if expired(view.retain_until, now) else None
