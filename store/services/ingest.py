"""From an admitted body to a receipt: seal, append in one script call, and say what became of it.

The queue's script decides with everything that waits in view; what it answers is final here. A refusal is recorded in
the same call where there is room, so that a receipt can say whether the store will remember.
"""

import asyncio
import hashlib
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

import msgspec

from policies.kinds import Capture
from policies.reasons import Reason
from policies.revocation import Binding
from store import commitments
from store.clock import utc_now
from store.commitments import Identity, Intake
from store.errors import Corrupt, NotFound, Unavailable
from store.ids import new_evidence_id
from store.keyring import Keyring
from store.queue import QUEUED, Answer, Frame, PartFrame, RunKey, entries
from store.queue.entries import PartHeader
from store.services.admission import Sender
from store.services.notes import Notes, microseconds, reason_of, refusal_frame
from store.services.outcomes import Outcomes
from store.services.receipt_view import FirstReceipt, Outcome, ReceiptView, ReceiptWriter, minted_us
from store.services.said import PartSaid

# From here on compressing takes much longer than handing it to a thread, and is done without the interpreter's lock.
_LARGE_BYTES: Final = 128 * 1024
_sealers: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="sealer")


class Body(msgspec.Struct, frozen=True, gc=False):
    """One observation: what was said of it, and its exact bytes, or the reason why they were not looked at."""

    said: PartSaid
    content: bytes | memoryview = b""
    refused: Reason | None = None


class _Prepared(msgspec.Struct, gc=False):
    """A body on its way: what names it, and the frame that goes to the queue."""

    body: Body
    identity: Identity
    evidence: UUID
    frame: Frame


class Ingest:
    """The capture use case of one api process."""

    def __init__(self, notes: Notes, keyring: Keyring, outcomes: Outcomes, receipts: ReceiptWriter) -> None:
        self._notes = notes
        self._keyring = keyring
        self._outcomes = outcomes
        self._receipts = receipts

    async def capture(self, sender: Sender, bodies: Sequence[Body]) -> list[ReceiptView]:
        """Take bodies of one run; one receipt each, in order. An outage of the queue is an answer too."""
        if not bodies:
            return []
        key = sender.key
        try:
            intake = self._keyring.current_intake(utc_now())
            prepared = await self._all_prepared(sender, bodies, intake)
            answers = await self._notes.append(key, [each.frame for each in prepared])
        except Unavailable as outage:
            return [self._lost(key, body, outage.reason) for body in bodies]
        return [
            self._queued(each.identity, each.body.said, each.evidence)
            if answer is QUEUED and each.body.refused is None
            else await self._answer(sender, each, answer)
            for each, answer in zip(prepared, answers, strict=True)
        ]

    async def _all_prepared(self, sender: Sender, bodies: Sequence[Body], intake: Intake) -> list[_Prepared]:
        """Seal bodies; large ones in a thread, since many of them at once would keep the loop from everything else."""
        loop = asyncio.get_running_loop()
        return [
            self._prepare(sender, body, intake)
            if len(body.content) < _LARGE_BYTES
            else await loop.run_in_executor(_sealers, self._prepare, sender, body, intake)
            for body in bodies
        ]

    async def refuse(self, key: RunKey, said: PartSaid, reason: Reason, run_uid: UUID | None) -> ReceiptView:
        """Answer an observation that was refused unread; recorded where the run is known and there is room."""
        evidence = new_evidence_id()
        recorded = False
        if run_uid is not None:
            frame = refusal_frame(key, run_uid, said, reason, evidence)
            recorded = await self._notes.record([frame]) == [None]
        return self._not_captured(_identity(key, said), said, evidence, reason, recorded=recorded)

    def _prepare(self, sender: Sender, body: Body, intake: Intake) -> _Prepared:
        said, evidence = body.said, new_evidence_id()
        identity = _identity(sender.key, said)
        reason = _fault(body)
        if reason is not None:
            body = msgspec.structs.replace(body, refused=reason)
            gap = refusal_frame(sender.key, sender.view.run_uid, said, reason, evidence)
            return _Prepared(body, identity, evidence, gap)
        content, named = bytes(body.content), identity.named()
        packed = commitments.frame_encode(content, compress=True)
        frame = PartFrame(
            sender.key, said.exchange, said.attempt, said.kind, evidence,
            entries.encode(_part_header(sender, said, evidence)),
            intake.seal(packed, commitments.bound(named, evidence)), len(content),
            intake.key_id, intake.digest(content, named), said.session, said.sequence,
        )  # fmt: skip
        return _Prepared(body, identity, evidence, frame)

    async def _answer(self, sender: Sender, prepared: _Prepared, answer: Answer) -> ReceiptView:
        identity, said, evidence = prepared.identity, prepared.body.said, prepared.evidence
        if prepared.body.refused is not None:
            recorded = answer.outcome == "queued"
            return self._not_captured(identity, said, evidence, prepared.body.refused, recorded=recorded)
        if answer.outcome == "queued":
            return self._queued(identity, said, evidence)
        if answer.outcome == "exists" and answer.evidence is not None:
            return await self._repeat(sender, prepared, answer, answer.evidence)
        return self._not_captured(identity, said, evidence, reason_of(answer), recorded=answer.recorded)

    async def _repeat(self, sender: Sender, prepared: _Prepared, answer: Answer, first: UUID) -> ReceiptView:
        """The identity is taken: the same bytes get the first receipt again, others are a conflict."""
        key, said, identity = sender.key, prepared.body.said, prepared.identity
        content = bytes(prepared.body.content)
        try:
            if answer.pending:
                if self._same_as_queued(identity, content, answer):
                    return FirstReceipt.again(self._queued(identity, said, first))
                reason = Reason.IDENTITY_CONFLICT
            else:
                other = await self._outcomes.compare(key.scope, first, content)
                if other is None:
                    return await self._outcomes.stored(key, first)
                reason = other
        except NotFound:
            # Its last row went between two looks.
            reason = Reason.ERASED
        except Unavailable as outage:
            return self._not_captured(identity, said, prepared.evidence, outage.reason, recorded=False)
        return await self.refuse(key, said, reason, sender.view.run_uid)

    def _same_as_queued(self, identity: Identity, content: bytes, answer: Answer) -> bool:
        if answer.key_id is None or answer.digest is None:
            return False
        try:
            intake = self._keyring.intake_key(answer.key_id)
        except Corrupt:
            # The key is gone and the body with it; nobody can call these bytes the same.
            return False
        return commitments.same(commitments.intake_digest(intake, content, identity), answer.digest)

    def _queued(self, identity: Identity, said: PartSaid, evidence: UUID) -> ReceiptView:
        waits = Outcome(Capture.QUEUED, dispatch=said.dispatch, settlement=said.settlement)
        return self._receipts.write(identity, evidence, waits)

    def _not_captured(
        self, identity: Identity, said: PartSaid, evidence: UUID, reason: Reason, *, recorded: bool
    ) -> ReceiptView:
        refused = Outcome(
            Capture.NOT_CAPTURED,
            reason,
            recorded=recorded,
            dispatch=said.dispatch,
            settlement=said.settlement,
        )
        return self._receipts.write(identity, evidence, refused)

    def _lost(self, key: RunKey, body: Body, reason: Reason) -> ReceiptView:
        reason, identity = _fault(body) or reason, _identity(key, body.said)
        return self._not_captured(identity, body.said, new_evidence_id(), reason, recorded=False)


def _identity(key: RunKey, said: PartSaid) -> Identity:
    return Identity(key.scope, key.run, said.exchange, said.attempt, said.kind)


def _fault(body: Body) -> Reason | None:
    """Why a body is refused whatever the queue says of it: damage on the way is said, never repaired."""
    if body.refused is not None:
        return body.refused
    if body.said.digest is not None and hashlib.sha256(body.content).digest() != body.said.digest:
        return Reason.DIGEST_MISMATCH
    return None


def _sources(said: Collection[Binding], of_run: Collection[Binding]) -> list[tuple[str, int | None]]:
    return (
        sorted({(each.source, each.version) for each in (*said, *of_run)}, key=str) if said or of_run else []
    )


def _part_header(sender: Sender, said: PartSaid, evidence: UUID) -> PartHeader:
    # By place: finding so many fields by name takes several times as long as all else here.
    return PartHeader(
        sender.key.scope.bytes, sender.view.run_uid.bytes, sender.key.run,
        said.exchange, said.attempt, said.kind, evidence.bytes, said.session, said.sequence,
        said.media_type, said.completeness, said.vantage,
        None if said.captured_at is None else microseconds(said.captured_at), minted_us(evidence),
        said.dispatch, said.settlement, _sources(said.bindings, sender.view.sources),
        sender.ticket.policy_version, bytes.fromhex(sender.key_id),
    )  # fmt: skip
