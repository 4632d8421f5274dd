"""What became of an observation: asked by receipt, by identity, or for a whole run.

Redis is asked first and Postgres second. A part leaves the queue only after it was committed, so that in this order it
is always seen in one of the two; in the other order it could slip through between them.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from policies.kinds import Capture, Kind, PartState
from policies.reasons import Mark, Reason
from store import commitments
from store.clock import utc_now
from store.commitments import Identity
from store.db import Database
from store.errors import Corrupt, Gone, NotFound, Unavailable
from store.ids import ScopeId
from store.keyring import Keyring
from store.queue import Queue, RunKey
from store.receipts import Claims
from store.services import lost
from store.services.receipt_view import Outcome, ReceiptView, ReceiptWriter, minted_at
from store.services.scopes import ScopeBook
from store.tables import log_reads, outcomes

_FIRST: Final = ("", "", "")
# Only a stop is asked for, not how long ago somebody compared.
_FOR_EVER_S: Final = 1e9


class Outcomes:
    """Answers of the store about what was posted to it; never content."""

    def __init__(
        self,
        database: Database,
        queue: Queue,
        keyring: Keyring,
        scopes: ScopeBook,
        receipts: ReceiptWriter,
        overdue_after: timedelta,
    ) -> None:
        self._database = database
        self._queue = queue
        self._keyring = keyring
        self._scopes = scopes
        self._receipts = receipts
        self._overdue_after = overdue_after

    async def compare(self, scope: UUID, evidence: UUID, content: bytes) -> Reason | None:
        """Return None if these are the stored bytes, else why a repeat is refused. Decided by recomputing c."""
        try:
            return await self._compared(scope, evidence, content)
        except Corrupt:
            # Its bucket's key may have been changed since the row was read: what cannot be opened still cannot be.
            with suppress(Corrupt):
                return await self._compared(scope, evidence, content)
        # Nobody can call these bytes the same; reads raise the alarm.
        return Reason.IDENTITY_CONFLICT

    async def _compared(self, scope: UUID, evidence: UUID, content: bytes) -> Reason | None:
        async with self._database.connection() as connection:
            part = await outcomes.sealed_of(connection, scope, evidence)
        if part is None or part.run_erased or part.purge_reason is Reason.ERASED:
            return Reason.ERASED
        if part.state is not PartState.STORED or part.wrapped is None or part.wrapped_in is None:
            return _gone(part.purge_reason)
        if part.expired:
            return Reason.RETENTION_EXPIRED
        bucket_key = self._keyring.bucket_key(scope, part.wrapped_in)
        secret = commitments.unwrap_secret(bucket_key, part.wrapped, scope, part.wrapped_in, evidence)
        _, opening = commitments.part_keys(secret)
        same = commitments.same(commitments.commitment(opening, content), part.commitment)
        return None if same else Reason.IDENTITY_CONFLICT

    async def stored(self, key: RunKey, evidence: UUID) -> ReceiptView:
        """Return the receipt of a stored part."""
        async with self._database.connection() as connection:
            part = await outcomes.stored_part(connection, key.scope, evidence)
        if part is None:
            await self._refuse_lost(key.scope, evidence)
            raise NotFound
        return self._known(RunKey(key.scope, part.run), part.known)

    async def of_receipt(self, scope: UUID, text: str) -> ReceiptView:
        """Answer a receipt: what it said, or what has become of it since."""
        claims = self._receipts.read(ScopeId(scope), text)
        if await self._too_old(scope, claims.first_at):
            raise NotFound
        key = RunKey(scope, claims.run)
        found = await self.of_identity(key, claims.exchange, claims.attempt, claims.kind)
        if claims.capture is Capture.NOT_CAPTURED:
            return self._as_said(scope, claims, recorded=found is not None)
        if found is None or found.evidence not in (None, claims.evidence):
            await self._refuse_lost(scope, claims.evidence)
        if found is not None:
            return found
        # We said `queued`, and it is neither waiting, nor stored, nor refused: the queue was lost.
        lost = Outcome(Capture.NOT_CAPTURED, Reason.QUEUE_ENTRY_LOST, recorded=False)
        return self._receipts.write(_claimed(scope, claims), claims.evidence, lost)

    async def _refuse_lost(self, scope: UUID, evidence: UUID) -> None:
        """Raise Gone for a part that was stored, and that a restore did not bring back."""
        async with self._database.connection() as connection:
            stop = await log_reads.closed(connection, _FOR_EVER_S)
            reason = await lost.reason_of(connection, scope, evidence)
        if reason is None and stop is not None:
            # Until a restore is done nobody knows what was lost.
            raise Unavailable(Reason.READS_CLOSED, stop)
        if reason is not None:
            raise Gone(reason)

    async def awaited(self, key: RunKey, receipt: ReceiptView, wait_s: float) -> ReceiptView:
        """Wait at most `wait_s` for what became of a queued part; the same receipt where nothing did in that time."""
        evidence = self._receipts.read(ScopeId(key.scope), receipt.receipt).evidence
        try:
            await self._queue.wait_settled(evidence, wait_s)
            now = await self.of_identity(key, receipt.exchange_id, receipt.attempt_id, receipt.kind)
        except Unavailable:
            # Queued it is, whatever has happened since; an outage now is no answer to the capture.
            return receipt
        return receipt if now is None else now

    async def of_identity(self, key: RunKey, exchange: str, attempt: str, kind: Kind) -> ReceiptView | None:
        """Return the receipt of an identity, or None if nobody ever posted it (or nobody remembers)."""
        waiting = await self._queue.identity(key, exchange, attempt, kind)
        if waiting is not None and waiting.pending and waiting.evidence is not None:
            return self.queued(Identity(*key, exchange, attempt, kind), waiting.evidence)
        async with self._database.connection() as connection:
            known = await outcomes.outcome_of_identity(
                connection, key.scope, key.run, exchange, attempt, kind
            )
        return None if known is None else self._known(key, known)

    async def of_run(
        self,
        key: RunKey,
        after: tuple[str, str, str] | None,
        limit: int,
    ) -> tuple[list[ReceiptView], tuple[str, str, str] | None]:
        """Return a run's receipts in identity order, and where the next page begins (None at the end)."""
        start = after or _FIRST
        waiting = await self._queue.pending_identities(key)
        async with self._database.connection() as connection:
            known = await outcomes.outcomes_of_run(connection, key.scope, key.run, start, limit + 1)
        views = {(each.exchange, each.attempt, each.kind.value): self._known(key, each) for each in known}
        # Beyond what this page of Postgres reached, a waiting one belongs to a later page.
        reach = max(views, default=start) if len(known) > limit else None
        for exchange, attempt, kind, evidence in waiting:
            identity = (exchange, attempt, kind)
            if identity > start and (reach is None or identity <= reach):
                views[identity] = self.queued(Identity(*key, *identity), evidence)
        ordered = sorted(views)
        page = ordered[:limit]
        more = len(ordered) > limit
        return [views[identity] for identity in page], page[-1] if more else None

    def queued(self, identity: Identity, evidence: UUID) -> ReceiptView:
        """Return the receipt of what waits, marked where it waits longer than it should."""
        late = utc_now() - minted_at(evidence) > self._overdue_after
        waits = Outcome(Capture.QUEUED, overdue=Mark.WRITE_TIMEOUT if late else None)
        return self._receipts.write(identity, evidence, waits)

    async def _too_old(self, scope: UUID, first_at: datetime) -> bool:
        policy = (await self._scopes.get(ScopeId(scope))).policy
        return utc_now() - first_at > timedelta(seconds=policy.metadata_retention_s)

    def _known(self, key: RunKey, known: outcomes.Known) -> ReceiptView:
        became = Outcome(
            Capture.NOT_CAPTURED if known.stored_at is None else Capture.STORED,
            known.reason,
            dispatch=known.dispatch,
            settlement=known.settlement,
            stored_at=known.stored_at,
        )
        identity = Identity(*key, known.exchange, known.attempt, known.kind)
        return self._receipts.write(identity, known.evidence, became)

    def _as_said(self, scope: UUID, claims: Claims, *, recorded: bool) -> ReceiptView:
        said = Outcome(claims.capture, claims.reason, recorded=recorded)
        return self._receipts.write(_claimed(scope, claims), claims.evidence, said)


def _claimed(scope: UUID, claims: Claims) -> Identity:
    return Identity(scope, claims.run, claims.exchange, claims.attempt, claims.kind)


def _gone(purge_reason: Reason | None) -> Reason:
    """An identity is taken for ever, also after its content went; the answer is one that a capture can get."""
    return Reason.RETENTION_EXPIRED if purge_reason is Reason.RETENTION_EXPIRED else Reason.ERASED
