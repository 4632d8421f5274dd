"""The closed list of reasons, and what each is as an answer. docs/reasons.md says of each what it means.

The text of a reason never changes once released; a retired one stays, marked retired.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Reason(StrEnum):
    """Why something was not captured or cannot be read. Each says who meets it and what to do."""

    # --- policy refusals, at capture and again before the write
    # A runtime whose run was declared temporary. Nothing to do: it asked for this.
    TEMPORARY_MODE = "temporary_mode"
    # A runtime whose run, or whose scope by default, opted out. Nothing to do; opt-outs are never taken back.
    CONTENT_OPT_OUT = "content_opt_out"
    # A runtime whose run was not drawn at declaration. An operator may raise the sampling rate.
    NOT_SAMPLED = "not_sampled"
    # A runtime posting a kind that its scope or run does not admit. An operator may admit the kind.
    KIND_NOT_ADMITTED = "kind_not_admitted"
    # A runtime posting to a run that was not declared, or was refused. Declare the run first.
    RUN_NOT_ADMITTED = "run_not_admitted"
    # A runtime posting after the run was closed. Close later, or use a new run.
    RUN_CLOSED = "run_closed"
    # A runtime with a ticket that is forged, or another key's or run's. Declare with one's own key.
    TICKET_INVALID = "ticket_invalid"
    # A runtime with a ticket too old, or older than the scope's policy. Declare again and use the new ticket.
    TICKET_EXPIRED = "ticket_expired"
    # A runtime posting after the run's retention ended; a reviewer reading after it. Nothing brings it back.
    RETENTION_EXPIRED = "retention_expired"
    # A runtime whose content depends on a revoked source. Leave it out, or have it restored.
    SOURCE_REVOKED = "source_revoked"
    # A runtime naming a source or version that the scope does not know. Register it.
    SOURCE_UNKNOWN = "source_unknown"
    # A runtime or reviewer whose bound source version was withdrawn. Bind a version that is readable.
    DEPENDENCY_CHANGED = "dependency_changed"

    # --- identity
    # A runtime posting other bytes under an identity already taken. Use a new attempt id; the first stays.
    IDENTITY_CONFLICT = "identity_conflict"
    # A runtime posting what was erased before; a reviewer reading it. Nothing brings it back.
    ERASED = "erased"

    # --- bounds
    # A runtime with a part over the limit. The client leaves media out; an operator may raise `part_bytes`.
    PART_TOO_LARGE = "part_too_large"
    # A runtime while too much waits, or the disk is full. Operators: look at the writers.
    CAPACITY_EXCEEDED = "capacity_exceeded"
    # A runtime whose run holds as many parts as it may. Use several runs, or have `run_parts` raised.
    RUN_PART_LIMIT = "run_part_limit"
    # A runtime whose run holds as many bytes as it may. Use several runs, or have `run_bytes` raised.
    RUN_BYTE_LIMIT = "run_byte_limit"

    # --- malformed
    # A runtime whose frame is not a frame. A bug of the sender: report it.
    ENCODING_FAILED = "encoding_failed"
    # A runtime whose body is not what its Content-Digest says. Damage on the way, or a bug of the sender.
    DIGEST_MISMATCH = "digest_mismatch"

    # --- cut off
    # A runtime whose body stopped or was slow; a client whose stream was cut. Look at the network.
    INTERRUPTED = "interrupted"

    # --- request faults, never an outcome
    # Anybody with a request that breaks the interface's rules. Correct the request.
    MALFORMED_REQUEST = "malformed_request"
    # A reader whose cursor is foreign, old, or of another filter or key. Start from the first page.
    CURSOR_INVALID = "cursor_invalid"
    # Anybody without a key that is known, live and unexpired. Get a key, or rotate.
    UNAUTHENTICATED = "unauthenticated"
    # A sender of a body with neither a length nor chunks. Send Content-Length.
    LENGTH_REQUIRED = "length_required"
    # A sender of a coded body or of a type that the call does not take. Send it plain.
    UNSUPPORTED_MEDIA = "unsupported_media"
    # Anybody, when the store has a bug. Operators: the log line of the request names it.
    INTERNAL = "internal"

    # --- found after queued
    # A runtime whose queued part the database refused for itself alone. Operators: see the log.
    WRITE_FAILED = "write_failed"
    # A runtime whose receipt said queued and is found nowhere. Operators: the queue was lost.
    QUEUE_ENTRY_LOST = "queue_entry_lost"

    # --- outages, ours: never a refusal
    # A runtime while Redis cannot take it. The client keeps the gap and reports it later; operators act.
    QUEUE_UNAVAILABLE = "queue_unavailable"
    # Anybody while Postgres is away. Callers who wait may try again; operators act.
    STORE_UNAVAILABLE = "store_unavailable"
    # A reader while the proof log is stopped or a restore runs. An operator resumes it.
    READS_CLOSED = "reads_closed"

    # --- said by the client
    # A runtime that captures faster than its sender sends. Raise the client's buffer, or sample.
    CLIENT_QUEUE_FULL = "client_queue_full"
    # A runtime that ended before its buffer was sent. Flush before the end, or allow it more time.
    CLIENT_SHUTDOWN = "client_shutdown"
    # A runtime that handed in what cannot be made bytes. See the type and path that the client names.
    CLIENT_UNSERIALISABLE = "client_unserialisable"
    # A runtime whose mask raised, was slow, or gave nothing. Repair the mask; unmasked content never leaves.
    CLIENT_MASK_FAILED = "client_mask_failed"
    # A runtime that got no answer from the store. Look at the network; a later answer may supersede it.
    CLIENT_TRANSPORT = "client_transport"
    # A runtime that knows there was something it could not see. Nothing to do.
    NOT_OBSERVED = "not_observed"

    # --- found by counting
    # A reviewer: the session numbered it and nobody ever told what became of it. Look at the runtime's end.
    UNACCOUNTED = "unaccounted"

    # --- at read
    # A key whose role or clearances do not reach it; a runtime declaring another key's run. Ask an operator.
    PERMISSION_DENIED = "permission_denied"
    # A reviewer of content past its retention that a hold keeps. A custodian may read it, with a purpose.
    EXPIRED_HELD = "expired_held"
    # A reader of what never existed, or is not of the key's scope. The two are the same answer.
    NOT_FOUND = "not_found"
    # A reviewer of an observation that did not become a part. Its gap says why.
    NOT_STORED = "not_stored"
    # A reviewer of a part whose body a restored backup does not hold. Nothing brings it back.
    LOST_IN_RESTORE = "lost_in_restore"
    # A reviewer whose part depends on a source that is revoked, or unknown where known ones are demanded.
    SOURCE_UNAVAILABLE = "source_unavailable"
    # A reviewer, when the bucket's key is gone and nothing says that it should be. Operators: an alarm.
    KEY_LOST = "key_lost"
    # A reviewer, when what is stored is not what was committed to. Never shown. Operators: an alarm.
    INTEGRITY_MISMATCH = "integrity_mismatch"


class Mark(StrEnum):
    """A mark on a receipt that still says `queued`; no outcome and no reason."""

    # A runtime whose part was accepted over 2 s ago and is not settled. Ask again later.
    WRITE_TIMEOUT = "write_timeout"


class Family(StrEnum):
    """Where a reason comes from; one reason may belong to several."""

    POLICY = "policy"
    IDENTITY = "identity"
    BOUNDS = "bounds"
    MALFORMED = "malformed"
    CUT_OFF = "cut_off"
    REQUEST_FAULT = "request_fault"
    FOUND_AFTER_QUEUED = "found_after_queued"
    OUTAGE = "outage"
    CLIENT = "client"
    COUNTED = "counted"
    READ = "read"


_POLICY = (
    Reason.TEMPORARY_MODE,
    Reason.CONTENT_OPT_OUT,
    Reason.NOT_SAMPLED,
    Reason.KIND_NOT_ADMITTED,
    Reason.RUN_NOT_ADMITTED,
    Reason.RUN_CLOSED,
    Reason.TICKET_INVALID,
    Reason.TICKET_EXPIRED,
    Reason.RETENTION_EXPIRED,
    Reason.SOURCE_REVOKED,
    Reason.SOURCE_UNKNOWN,
    Reason.DEPENDENCY_CHANGED,
)

MEMBERS: Mapping[Family, tuple[Reason, ...]] = MappingProxyType(
    {
        Family.POLICY: _POLICY,
        Family.IDENTITY: (Reason.IDENTITY_CONFLICT, Reason.ERASED),
        Family.BOUNDS: (
            Reason.PART_TOO_LARGE,
            Reason.CAPACITY_EXCEEDED,
            Reason.RUN_PART_LIMIT,
            Reason.RUN_BYTE_LIMIT,
        ),
        Family.MALFORMED: (Reason.ENCODING_FAILED, Reason.DIGEST_MISMATCH),
        Family.CUT_OFF: (Reason.INTERRUPTED,),
        Family.REQUEST_FAULT: (
            Reason.MALFORMED_REQUEST,
            Reason.CURSOR_INVALID,
            Reason.UNAUTHENTICATED,
            Reason.LENGTH_REQUIRED,
            Reason.UNSUPPORTED_MEDIA,
            Reason.INTERNAL,
        ),
        # The writer asks policy again, and finds tombstones and taken identities that the queue did not know.
        Family.FOUND_AFTER_QUEUED: (
            *_POLICY,
            Reason.IDENTITY_CONFLICT,
            Reason.ERASED,
            Reason.WRITE_FAILED,
            Reason.QUEUE_ENTRY_LOST,
        ),
        Family.OUTAGE: (Reason.QUEUE_UNAVAILABLE, Reason.STORE_UNAVAILABLE, Reason.READS_CLOSED),
        Family.CLIENT: (
            Reason.CLIENT_QUEUE_FULL,
            Reason.CLIENT_SHUTDOWN,
            Reason.CLIENT_UNSERIALISABLE,
            Reason.CLIENT_MASK_FAILED,
            Reason.CLIENT_TRANSPORT,
            Reason.NOT_OBSERVED,
            Reason.INTERRUPTED,
        ),
        Family.COUNTED: (Reason.UNACCOUNTED,),
        Family.READ: (
            Reason.PERMISSION_DENIED,
            Reason.EXPIRED_HELD,
            Reason.NOT_FOUND,
            Reason.NOT_STORED,
            Reason.RETENTION_EXPIRED,
            Reason.ERASED,
            Reason.LOST_IN_RESTORE,
            Reason.SOURCE_UNAVAILABLE,
            Reason.DEPENDENCY_CHANGED,
            Reason.KEY_LOST,
            Reason.INTEGRITY_MISMATCH,
        ),
    }
)

FAMILY: Mapping[Reason, frozenset[Family]] = MappingProxyType(
    {reason: frozenset(family for family in Family if reason in MEMBERS[family]) for reason in Reason}
)

_FAULT_STATUS: Mapping[Reason, int] = MappingProxyType(
    {
        Reason.MALFORMED_REQUEST: 400,
        Reason.CURSOR_INVALID: 400,
        Reason.UNAUTHENTICATED: 401,
        Reason.LENGTH_REQUIRED: 411,
        Reason.UNSUPPORTED_MEDIA: 415,
        Reason.INTERNAL: 500,
        # Said by declaring another key's run and by every call that the key's role does not reach.
        Reason.PERMISSION_DENIED: 403,
    }
)

# The status of the answer to a capture or a declaration.
STATUS: Mapping[Reason, int] = MappingProxyType(
    {
        **dict.fromkeys(MEMBERS[Family.POLICY], 403),
        **dict.fromkeys(MEMBERS[Family.IDENTITY], 409),
        **dict.fromkeys(MEMBERS[Family.BOUNDS], 429),
        Reason.PART_TOO_LARGE: 413,
        **dict.fromkeys(MEMBERS[Family.MALFORMED], 400),
        Reason.INTERRUPTED: 408,
        Reason.QUEUE_UNAVAILABLE: 503,
        Reason.STORE_UNAVAILABLE: 503,
        **_FAULT_STATUS,
    }
)

# The status of the answer to a read, while nothing of the part has been destroyed for that reason.
READ_STATUS: Mapping[Reason, int] = MappingProxyType(
    {
        Reason.EXPIRED_HELD: 403,
        Reason.NOT_FOUND: 404,
        Reason.NOT_STORED: 404,
        Reason.RETENTION_EXPIRED: 410,
        Reason.ERASED: 410,
        Reason.LOST_IN_RESTORE: 410,
        Reason.SOURCE_UNAVAILABLE: 403,
        Reason.DEPENDENCY_CHANGED: 403,
        Reason.KEY_LOST: 500,
        Reason.INTEGRITY_MISMATCH: 500,
        **dict.fromkeys(MEMBERS[Family.OUTAGE], 503),
        **_FAULT_STATUS,
    }
)

_GONE = 410
_GONE_ONCE_DESTROYED = frozenset({Reason.SOURCE_UNAVAILABLE, Reason.DEPENDENCY_CHANGED})

# What may stand in a gap. A request fault is never the outcome of an observation. The two outages that can
# answer a capture are: nobody else will ever say what became of that observation, and their family keeps them
# from reading like a refusal.
OUTCOMES: frozenset[Reason] = frozenset(
    reason
    for family in (
        Family.POLICY,
        Family.IDENTITY,
        Family.BOUNDS,
        Family.MALFORMED,
        Family.CUT_OFF,
        Family.FOUND_AFTER_QUEUED,
        Family.CLIENT,
        Family.COUNTED,
    )
    for reason in MEMBERS[family]
) | {Reason.QUEUE_UNAVAILABLE, Reason.STORE_UNAVAILABLE}

# What a client may say in a gap: its own losses, what its ticket or a refused declaration told it before any
# content was touched, and what an answer with `recorded: false` left for it to report. Never what only the
# store can find.
CLIENT_REASONS: frozenset[Reason] = OUTCOMES - {
    Reason.WRITE_FAILED,
    Reason.QUEUE_ENTRY_LOST,
    Reason.UNACCOUNTED,
}

# Worth another try to a caller who waits for the answer, and to nobody else.
RETRYABLE: frozenset[Reason] = frozenset(MEMBERS[Family.OUTAGE])


def retryable(reason: Reason, *, waits: bool) -> bool:
    """Whether to try again; never for a fire-and-forget sender, which would storm."""
    return waits and reason in RETRYABLE


def read_status(reason: Reason, *, destroyed: bool) -> int:
    """Answer the status of a refused read; 410 once what it refuses has been destroyed."""
    if destroyed and reason in _GONE_ONCE_DESTROYED:
        return _GONE
    return READ_STATUS[reason]
