"""The receipt as callers see it: what became of one observation, and whether the store will remember."""

from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

import msgspec

from policies.kinds import Capture, Dispatch, Kind, Settlement
from policies.reasons import Mark, Reason
from store import receipts
from store.commitments import Identity
from store.ids import EvidenceId, ScopeId


class ReceiptView(msgspec.Struct, frozen=True, gc=False):
    """One receipt. `evidence` and `stored_at` are there once the part is stored, never before."""

    run_id: str
    exchange_id: str
    attempt_id: str
    kind: Kind
    capture: Capture
    reason: Reason | None
    recorded: bool
    overdue: Mark | None
    dispatch: Dispatch
    settlement: Settlement
    receipt: str
    evidence: UUID | None
    received_at: datetime
    stored_at: datetime | None


class FirstReceipt(ReceiptView, frozen=True, gc=False):
    """The receipt that an observation got when it was first answered; nothing new was taken."""

    @classmethod
    def again(cls, view: ReceiptView) -> "FirstReceipt":
        """Say a receipt again."""
        return cls(**msgspec.structs.asdict(view))


class NoteView(msgspec.Struct, frozen=True, gc=False):
    """The answer to an attempt state, a gap or a fact: whether the store will remember it, and if not, why not."""

    type: str
    recorded: bool
    reason: Reason | None


def minted_at(evidence: UUID) -> datetime:
    """Return when an id was minted (UUID version 7 carries the millisecond): the time that a receipt binds."""
    return _instant(evidence.int >> 80)


def minted_us(evidence: UUID) -> int:
    """Return the same in microseconds since 1970."""
    return (evidence.int >> 80) * 1000


# What comes together is minted together.
@lru_cache(maxsize=64)
def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of an observation, apart from whose it is."""

    capture: Capture
    reason: Reason | None = None
    recorded: bool = True
    overdue: Mark | None = None
    dispatch: Dispatch = Dispatch.UNKNOWN
    settlement: Settlement = Settlement.UNKNOWN
    stored_at: datetime | None = None


class ReceiptWriter:
    """Gives receipts under one key. The same observation and outcome always get the same text."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, identity: Identity, evidence: UUID, outcome: Outcome) -> ReceiptView:
        """Return the receipt of `evidence`, which is the id minted when the observation was answered."""
        run, exchange, attempt = identity.run, identity.exchange, identity.attempt
        kind = identity.kind if isinstance(identity.kind, Kind) else Kind(identity.kind)
        capture, reason = outcome.capture, outcome.reason
        claims = receipts.Claims(
            EvidenceId(evidence), run, exchange, attempt, kind, capture, reason, minted_us(evidence)
        )
        return ReceiptView(
            run, exchange, attempt, kind, capture, reason, outcome.recorded, outcome.overdue,
            outcome.dispatch, outcome.settlement,
            receipts.issue(self._key, ScopeId(identity.scope), claims),
            evidence if capture is Capture.STORED else None,
            minted_at(evidence), outcome.stored_at,
        )  # fmt: skip

    def read(self, scope: ScopeId, text: str) -> receipts.Claims:
        """Return what a receipt of ours says; NotFound for anything else."""
        return receipts.read(self._key, scope, text)
