"""The closed words of facts: what a runtime's toolchain tells of its actions. Their texts never change."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final


class FactType(StrEnum):
    """What a fact is about."""

    STAGE = "stage"
    OCCURRENCE = "occurrence"
    SURFACE = "surface"
    COVERAGE = "coverage"
    DELIVERY = "delivery"


class Stage(StrEnum):
    """The separate stages of one action; each has a status of its own."""

    ADMISSION = "admission"
    RESERVATION = "reservation"
    EXECUTION = "execution"
    REPLAY = "replay"
    PROJECTION = "projection"
    PERSISTENCE = "persistence"


class Status(StrEnum):
    """What became of a stage; `STATUSES` says which stage can have which."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    RESERVED = "reserved"
    RELEASED = "released"
    SETTLED = "settled"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    REPLAYED = "replayed"
    PROJECTED = "projected"
    PERSISTED = "persisted"


STATUSES: Final = MappingProxyType(
    {
        Stage.ADMISSION: frozenset({Status.ADMITTED, Status.REFUSED, Status.FAILED}),
        Stage.RESERVATION: frozenset(
            {Status.RESERVED, Status.REFUSED, Status.RELEASED, Status.SETTLED, Status.FAILED}
        ),
        Stage.EXECUTION: frozenset(
            {Status.STARTED, Status.SUCCEEDED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED}
        ),
        Stage.REPLAY: frozenset({Status.REPLAYED, Status.REFUSED, Status.FAILED}),
        Stage.PROJECTION: frozenset({Status.PROJECTED, Status.FAILED}),
        Stage.PERSISTENCE: frozenset({Status.PERSISTED, Status.FAILED}),
    }
)


class Form(StrEnum):
    """In which form a result stands somewhere."""

    FULL = "full"
    PARTIAL = "partial"
    REFERENCE = "reference"
    OMITTED = "omitted"


class Unit(StrEnum):
    """What a part of a result is counted in."""

    ROWS = "rows"
    BYTES = "bytes"


class Link(StrEnum):
    """Whether an object in a request is bound to a result; only a bound one is an occurrence of an action."""

    BOUND = "bound"
    UNKNOWN = "unknown"
    REPLACED = "replaced"
    OTHER_RUN = "other_run"
    DUPLICATE = "duplicate"


class Check(StrEnum):
    """Which of the two checks of a tool surface."""

    EARLY = "early"
    FINAL = "final"


class Verdict(StrEnum):
    """What a check of a tool surface said."""

    MATCH = "match"
    MISMATCH = "mismatch"
    CAPACITY = "capacity"
    NOT_CHECKED = "not_checked"


class Change(StrEnum):
    """How one tool differs from what was admitted."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    REORDERED = "reordered"
    DESCRIPTION = "description"
    SCHEMA = "schema"


class Deviation(StrEnum):
    """What is odd about the way in which a file was read."""

    SKIPPED = "skipped"
    REPEATED = "repeated"
    SELF_COMPUTED = "self_computed"
    CLAMPED = "clamped"
    STARTED_IN_THE_MIDDLE = "started_in_the_middle"
    CHANGED = "changed"
    SHRUNK = "shrunk"


class ItemKind(StrEnum):
    """What an acceptance item asks for."""

    FILE = "file"
    PREDICATE = "predicate"
    COMMAND = "command"


class ItemState(StrEnum):
    """Whether an acceptance item is met; `partial` is a state, not a kind of met."""

    MET = "met"
    PARTIAL = "partial"
    MISSING = "missing"
    FAILED = "failed"
