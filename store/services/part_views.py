"""A part's metadata as readers see it: whether it may be read now, by them, and never anything of its content."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from policies.availability import availability, ended
from policies.decisions import Decision, Refuse
from policies.kinds import Dispatch, Kind, PartState, Settlement
from policies.reasons import Reason
from policies.revocation import cleared, newer
from store.services import sizes
from store.services.paging import Reader
from store.tables.grounds import Ground
from store.tables.pages import PartRow

ProofState = Literal["pending", "verified", "failed", "not_checked"]
"""How a part stands in the proof log.

    pending      its leaf waits for its place in the log, or for the checkpoint that covers it
    verified     its leaf says what its row says (commitments, bucket, time), the metadata in the row is what was
                 committed to, and the leaf is in the tree of the published checkpoint; reading it checks the content
    failed       one of these is not so
    not_checked  nothing was looked at: so lists say of what is published
"""


class AvailabilityView(msgspec.Struct, frozen=True):
    """Whether this viewer may read the content now, and if not why."""

    readable: bool
    reason: Reason | None


class PartItem(msgspec.Struct, frozen=True, kw_only=True):
    """One part in a list. `bytes` is the exact size while there is content, `size_class` what stays of it.

    `newer` says that a newer version exists of some source that the part is bound to.
    """

    evidence: UUID
    run_id: str
    exchange_id: str
    attempt_id: str
    kind: Kind
    bytes: int | None
    size_class: int
    media_type: str
    completeness: str
    vantage: str
    captured_at: datetime | None
    received_at: datetime
    stored_at: datetime
    dispatch: Dispatch
    settlement: Settlement
    availability: AvailabilityView
    newer: bool
    proof_state: ProofState


class BoundSource(msgspec.Struct, frozen=True):
    """What a part says it depends on; `newer` is the latest version where that is newer than the bound one."""

    source: str
    version: int | None
    newer: int | None


class PartView(PartItem, frozen=True, kw_only=True):
    """One part alone; its sources are shown only to viewers who hold the clearances for them."""

    session: str | None
    sequence: int | None
    observed_at: datetime
    sources: list[BoundSource] | None


class TimesView(msgspec.Struct, frozen=True):
    """When something became of a part, or will; null is not yet, or never."""

    retain_until: datetime
    expired_at: datetime | None
    purging_at: datetime | None
    purged_at: datetime | None
    revoked_at: datetime | None
    withdrawn_at: datetime | None


def decide(ground: Ground, reader: Reader) -> Decision:
    """Decide whether the content may be read, by the facts and at the instant of one statement."""
    return availability(
        ground.facts,
        reader.viewer,
        ground.bindings,
        ground.sources,
        ground.unknown_sources,
        ground.observed_at,
    )


def part_item(row: PartRow, reader: Reader, lookup: bytes) -> PartItem:
    """Return the part as a list shows it; `lookup` is the key that sizes are masked with."""
    return PartItem(**_shown(row, reader, lookup))


def part_view(row: PartRow, reader: Reader, lookup: bytes, proof_state: ProofState) -> PartView:
    """Return the part as it is shown alone."""
    return PartView(
        **(_shown(row, reader, lookup) | {"proof_state": proof_state}),
        session=row.session,
        sequence=row.sequence,
        observed_at=row.ground.observed_at,
        sources=_bound(row.ground)
        if cleared(row.ground.bindings, row.ground.sources, reader.clearances)
        else None,
    )


def _shown(row: PartRow, reader: Reader, lookup: bytes) -> dict[str, Any]:
    decision = decide(row.ground, reader)
    reason = decision.reason if isinstance(decision, Refuse) else None
    return {
        "evidence": row.evidence,
        "run_id": row.run,
        "exchange_id": row.exchange,
        "attempt_id": row.attempt,
        "kind": row.kind,
        "bytes": _exact_bytes(row, lookup),
        "size_class": row.size_class,
        "media_type": row.media_type,
        "completeness": row.completeness,
        "vantage": row.vantage,
        "captured_at": row.captured_at,
        "received_at": row.received_at,
        "stored_at": row.stored_at,
        "dispatch": row.dispatch,
        "settlement": row.settlement,
        "availability": AvailabilityView(readable=reason is None, reason=reason),
        "newer": bool(newer(row.ground.bindings, row.ground.sources)),
        "proof_state": "not_checked" if row.published else "pending",
    }


def _exact_bytes(row: PartRow, lookup: bytes) -> int | None:
    """Return the exact size while there is content for somebody: it goes with the content, not with its row."""
    facts = row.ground.facts
    closed = facts.run_erased or facts.purge_reason is not None
    gone = facts.state is not PartState.STORED or closed or ended(facts, row.ground.observed_at)
    if gone or row.exact_bytes is None:
        return None
    return sizes.exact(lookup, row.evidence, row.exact_bytes)


def _bound(ground: Ground) -> list[BoundSource]:
    later = newer(ground.bindings, ground.sources)
    return [
        BoundSource(each.source, each.version, None if each.version is None else later.get(each.source))
        for each in ground.bindings
    ]
