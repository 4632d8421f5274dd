"""How an observation stands, as pictures and lists show it: a word, a colour's class, and a shape that tells it alone.

stored      a filled disc         queued      a ring              not captured  a cross
expired     a disc cut across     erased      a filled square     revoked       a triangle
mismatched  a diamond             withheld    a ring with a dot   lost          a ring cut across
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policies.reasons import Reason


@dataclass(frozen=True, slots=True)
class State:
    """One of them; `name` is a word of ours, `look` the class of its colour."""

    name: str
    title: str
    look: str


STORED: Final = State("stored", "stored", "is-stored")
QUEUED: Final = State("queued", "queued, not written yet", "is-queued")
NOT_CAPTURED: Final = State("not-captured", "not captured", "is-missing")
EXPIRED: Final = State("expired", "expired", "is-expired")
ERASED: Final = State("erased", "erased", "is-erased")
REVOKED: Final = State("revoked", "source revoked or changed", "is-revoked")
MISMATCHED: Final = State("mismatched", "mismatched", "is-mismatched")
WITHHELD: Final = State("withheld", "stored, not for your key", "is-unknown")
LOST: Final = State("lost", "lost in a restore", "is-unknown")

# In the order of legends and of bars.
STATES: Final = (STORED, QUEUED, NOT_CAPTURED, EXPIRED, ERASED, REVOKED, MISMATCHED, WITHHELD, LOST)

_OF_PART: Final[Mapping[Reason | None, State]] = MappingProxyType(
    {
        None: STORED,
        Reason.PERMISSION_DENIED: WITHHELD,
        Reason.RETENTION_EXPIRED: EXPIRED,
        Reason.EXPIRED_HELD: EXPIRED,
        Reason.ERASED: ERASED,
        Reason.SOURCE_UNAVAILABLE: REVOKED,
        Reason.DEPENDENCY_CHANGED: REVOKED,
        Reason.LOST_IN_RESTORE: LOST,
        Reason.KEY_LOST: MISMATCHED,
        Reason.INTEGRITY_MISMATCH: MISMATCHED,
    }
)
_MISMATCHES: Final = frozenset({Reason.DIGEST_MISMATCH, Reason.IDENTITY_CONFLICT})


def of_part(reason: Reason | None) -> State:
    """Return how a stored part stands, by why it cannot be read now (None: it can)."""
    return _OF_PART[reason]


def of_gap(reason: Reason) -> State:
    """Return how a missing observation stands: bytes that contradict what was said of them are no mere absence."""
    return MISMATCHED if reason in _MISMATCHES else NOT_CAPTURED
