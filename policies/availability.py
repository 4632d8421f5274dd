"""Whether a stored part's content may be read now, by this viewer, and if not why: computed, never a state.

Fails closed. The order is that of a content read: viewer, then existence and retention, then sources. What comes
after it (key, commitment, access record) needs bytes, and is the read's own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from policies.decisions import ALLOW, Decision, Refuse
from policies.kinds import PartState, Role
from policies.reasons import Reason
from policies.retention import expired
from policies.revocation import Binding, SourceFacts, UnknownSources, cleared, readable_sources

_CONTENT_ROLES: Final = frozenset({Role.REVIEWER, Role.CUSTODIAN})
_METADATA_ROLES: Final = _CONTENT_ROLES | {Role.AUDITOR, Role.OPERATOR}
_DESTROYED: Final = frozenset({PartState.PURGING, PartState.PURGED})
# What a purge leaf may say; the answer of a read agrees with the log's for ever.
PURGE_REASONS: Final = frozenset(
    {
        Reason.ERASED,
        Reason.RETENTION_EXPIRED,
        Reason.SOURCE_UNAVAILABLE,
        Reason.DEPENDENCY_CHANGED,
    }
)


@dataclass(frozen=True, slots=True)
class PartFacts:
    """What the store knows of one part in the statement's own instant.

    A `purge_reason` of a part that is stored says that a hold defers its destruction: it is closed all the same.
    """

    state: PartState
    purge_reason: Reason | None
    retain_until: datetime
    bucket_expired: bool
    body_present: bool
    held: bool
    run_erased: bool

    def __post_init__(self) -> None:
        """Refuse a destruction without a reason: which one would have to be guessed."""
        if self.state in _DESTROYED and self.purge_reason not in PURGE_REASONS:
            raise ValueError("a part that is purging or purged has the reason of a purge leaf")


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks: a key of the part's own scope; for any other the part does not exist."""

    role: Role
    clearances: frozenset[str] = frozenset()


def metadata_visible(role: Role) -> bool:
    """Say whether the role may see metadata of parts."""
    return role in _METADATA_ROLES


def content_role(role: Role) -> bool:
    """Say whether the role may ever read content."""
    return role in _CONTENT_ROLES


def destroyed(part: PartFacts) -> bool:
    """Say whether the part is being or was destroyed: then a refused read answers that it is gone."""
    return part.state in _DESTROYED


def ended(part: PartFacts, now: datetime) -> bool:
    """Say whether retention has ended, by the clock or with the bucket; a custodian then needs a purpose."""
    return part.bucket_expired or expired(part.retain_until, now)


def facts_readable(
    role: Role, *, retain_until: datetime, erased: bool, held: bool, now: datetime
) -> Decision:
    """Decide whether a run's facts may be read: as its content, but that they depend on no source."""
    if expired(retain_until, now):
        if not held:
            return Refuse(Reason.RETENTION_EXPIRED)
        if role is not Role.CUSTODIAN:
            return Refuse(Reason.EXPIRED_HELD)
    return Refuse(Reason.ERASED) if erased else ALLOW


def availability(
    part: PartFacts,
    viewer: Viewer,
    bindings: Collection[Binding],
    facts: Mapping[str, SourceFacts],
    unknown: UnknownSources,
    now: datetime,
) -> Decision:
    """Decide one content read."""
    if not content_role(viewer.role) or not cleared(bindings, facts, viewer.clearances):
        return Refuse(Reason.PERMISSION_DENIED)
    gone = _gone(part, viewer.role, now)
    if gone is not None:
        return Refuse(gone)
    return readable_sources(bindings, facts, viewer.clearances, unknown)


def _gone(part: PartFacts, role: Role, now: datetime) -> Reason | None:
    if part.state in _DESTROYED or part.purge_reason is not None:
        # Recorded for ever, also in the log: later expiry of what is no longer there does not change why it went.
        return part.purge_reason
    if ended(part, now):
        # A hold that came after the body was gone keeps nothing that a custodian could read.
        if not (part.held and part.body_present):
            return Reason.RETENTION_EXPIRED
        if role is not Role.CUSTODIAN:
            return Reason.EXPIRED_HELD
    if part.run_erased:
        return Reason.ERASED
    if part.state is PartState.LOST_IN_RESTORE or not part.body_present:
        return Reason.LOST_IN_RESTORE
    return None
