"""The closed words that this side says, held against the service's by a test. Their texts never change."""

import re
from typing import Final

LOGICAL_REQUEST: Final = "logical-request"
OBSERVABLE_OUTPUT: Final = "observable-output"
KINDS: Final = (LOGICAL_REQUEST, OBSERVABLE_OUTPUT)

MODES: Final = frozenset({"normal", "temporary"})
CONTENTS: Final = frozenset({"allow", "opt_out"})
VANTAGES: Final = frozenset({"sdk", "gateway", "wire"})
COMPLETENESS: Final = frozenset({"complete", "truncated", "interrupted", "unknown"})
SETTLEMENTS: Final = frozenset({"completed", "failed", "cancelled"})

# Ids from callers: no proxy or client folds what begins with a letter or digit.
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")

# What only this side can say of an observation.
CLIENT_QUEUE_FULL: Final = "client_queue_full"
CLIENT_SHUTDOWN: Final = "client_shutdown"
CLIENT_UNSERIALISABLE: Final = "client_unserialisable"
CLIENT_MASK_FAILED: Final = "client_mask_failed"
CLIENT_TRANSPORT: Final = "client_transport"
NOT_OBSERVED: Final = "not_observed"

# What its admission tells it before any content is touched, and what it knows by itself.
TEMPORARY_MODE: Final = "temporary_mode"
CONTENT_OPT_OUT: Final = "content_opt_out"
KIND_NOT_ADMITTED: Final = "kind_not_admitted"
RUN_NOT_ADMITTED: Final = "run_not_admitted"
RUN_CLOSED: Final = "run_closed"
TICKET_INVALID: Final = "ticket_invalid"
TICKET_EXPIRED: Final = "ticket_expired"
SOURCE_UNKNOWN: Final = "source_unknown"
IDENTITY_CONFLICT: Final = "identity_conflict"
PART_TOO_LARGE: Final = "part_too_large"
ENCODING_FAILED: Final = "encoding_failed"

# Everything that the service takes from a client as the reason of a gap.
SAYABLE: Final = frozenset(
    {
        CLIENT_QUEUE_FULL,
        CLIENT_SHUTDOWN,
        CLIENT_UNSERIALISABLE,
        CLIENT_MASK_FAILED,
        CLIENT_TRANSPORT,
        NOT_OBSERVED,
        TEMPORARY_MODE,
        CONTENT_OPT_OUT,
        "not_sampled",
        KIND_NOT_ADMITTED,
        RUN_NOT_ADMITTED,
        RUN_CLOSED,
        TICKET_INVALID,
        TICKET_EXPIRED,
        "retention_expired",
        "source_revoked",
        SOURCE_UNKNOWN,
        "dependency_changed",
        IDENTITY_CONFLICT,
        "erased",
        PART_TOO_LARGE,
        "capacity_exceeded",
        "run_part_limit",
        "run_byte_limit",
        ENCODING_FAILED,
        "digest_mismatch",
        "interrupted",
        "queue_unavailable",
        "store_unavailable",
    }
)

# Refusals of a whole run that no later answer takes back: asking again would only be noise.
FINAL: Final = frozenset(
    {TEMPORARY_MODE, CONTENT_OPT_OUT, "not_sampled", RUN_CLOSED, "retention_expired", "erased"}
)

# Outages and bounds: the service could not, which says nothing of what it would have said.
NOT_NOW: Final = frozenset({"capacity_exceeded", "queue_unavailable", "store_unavailable", "reads_closed"})


def is_id(text: object) -> bool:
    """Say whether the service would take it as an id."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def sayable(reason: str | None) -> str:
    """Return a reason that may stand in a gap; where the service's own word may not, nobody heard an outcome."""
    return reason if reason in SAYABLE else CLIENT_TRANSPORT
