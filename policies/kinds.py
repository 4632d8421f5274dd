"""The closed words that are not reasons: kinds, modes, states, roles. Their texts never change."""

from enum import StrEnum


class Kind(StrEnum):
    """Which side of an attempt a part holds."""

    LOGICAL_REQUEST = "logical-request"
    OBSERVABLE_OUTPUT = "observable-output"


class Mode(StrEnum):
    """How a run was declared; a temporary run leaves its id, mode and counts by reason, nothing else."""

    NORMAL = "normal"
    TEMPORARY = "temporary"


class Content(StrEnum):
    """Whether a run lets its content be captured at all."""

    ALLOW = "allow"
    OPT_OUT = "opt_out"


class Capture(StrEnum):
    """What a receipt says; queued is not stored."""

    QUEUED = "queued"
    STORED = "stored"
    NOT_CAPTURED = "not_captured"


class Dispatch(StrEnum):
    """Whether the call was sent; unknown means that nobody told us, not that it was not sent."""

    UNKNOWN = "unknown"
    DISPATCHED = "dispatched"
    NOT_DISPATCHED = "not_dispatched"


class Settlement(StrEnum):
    """How the call ended for its owner."""

    UNKNOWN = "unknown"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Completeness(StrEnum):
    """Whether a part holds the whole of what could be observed."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class Vantage(StrEnum):
    """From where a part was observed."""

    SDK = "sdk"
    GATEWAY = "gateway"
    WIRE = "wire"


class PartState(StrEnum):
    """What became of a part that was stored; forward only. Scheduled expiry is a state of the bucket."""

    STORED = "stored"
    PURGING = "purging"
    PURGED = "purged"
    LOST_IN_RESTORE = "lost_in_restore"


class RunState(StrEnum):
    """Whether a run still takes observations; forward only."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Role(StrEnum):
    """What a key may do within its scope; only reviewer and custodian read content."""

    RUNTIME = "runtime"
    REVIEWER = "reviewer"
    CUSTODIAN = "custodian"
    AUDITOR = "auditor"
    OPERATOR = "operator"


class SaidBy(StrEnum):
    """Who reported that an observation is missing."""

    STORE = "store"
    CLIENT = "client"
    COUNT = "count"
