"""Facts: small, typed, content-free copies of what was observed. They replace no record of the runtime's.

A fact holds ids, closed words and numbers: no message, no output, no argument, no path. Its JSON (format 1) is at most
1 KiB; the store knows the same format, and `tests/contract/facts.json` of the repository holds one of each.
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec

from custody_toolchain.ids import is_id

MOST_BYTES: Final = 1024
MOST_DIFFERENCES: Final = 8
MOST_RANGES: Final = 16
MOST_DEVIATIONS: Final = 8

Id: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")]
# A tool's name or a model's call id, as the provider spells it.
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
# Where in a schema, as a JSON pointer (RFC 6901); longer ones end with an ellipsis.
Pointer: TypeAlias = Annotated[str, msgspec.Meta(max_length=128)]
# A closed word of the tool's or the runtime's own: no sentence.
Code: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_.-]{0,63}\Z")]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Ordinal: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
# What operating systems give: unsigned ones of 32 bits, and a signal's as a negative one.
ExitCode: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32 - 1)]


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


STATUSES: Final = {
    Stage.ADMISSION: {Status.ADMITTED, Status.REFUSED, Status.FAILED},
    Stage.RESERVATION: {Status.RESERVED, Status.REFUSED, Status.RELEASED, Status.SETTLED, Status.FAILED},
    Stage.EXECUTION: {
        Status.STARTED, Status.SUCCEEDED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED,
    },
    Stage.REPLAY: {Status.REPLAYED, Status.REFUSED, Status.FAILED},
    Stage.PROJECTION: {Status.PROJECTED, Status.FAILED},
    Stage.PERSISTENCE: {Status.PERSISTED, Status.FAILED},
}  # fmt: skip


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
    """What a check of a tool surface said. All but a match refuse the request: it is not dispatched."""

    MATCH = "match"
    MISMATCH = "mismatch"
    CAPACITY = "capacity"
    # The check was not made, or something raised in it; `tools` are then those that were admitted.
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


class View(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A form, and for a partial one which part: `start` to `stop` (not included) of `total` rows or bytes.

    What is not known is None. `source_whole` says whether the source itself was read whole.
    """

    form: Form
    unit: Unit | None = None
    start: Count | None = None
    stop: Count | None = None
    total: Count | None = None
    source_whole: bool | None = None


class Difference(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How one tool differs; `now` is its new name where it was renamed, `at` where in its schema."""

    change: Change
    tool: Name
    now: Name | None = None
    at: Pointer | None = None


class Common(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
):
    """What every fact has. `fact` names it within its run: told again, the first stays. `at` is in UTC."""

    fact: Id
    at: datetime


class StageFact(Common, frozen=True, kw_only=True, tag="stage"):
    """One stage of one action. `execution` counts from 1 what was really started; a replay counts nothing."""

    action: Id
    tool: Name
    stage: Stage
    status: Status
    call_id: Name | None = None
    execution: Ordinal | None = None
    result_version: Ordinal | None = None
    schema_version: Count | None = None
    code: Code | None = None
    retryable: bool | None = None
    duration_ms: Count | None = None
    arguments_changed: bool = False
    view: View | None = None


class OccurrenceFact(Common, frozen=True, kw_only=True, tag="occurrence"):
    """One object of one submitted request: `request` counts the run's from 1, `position` its messages from 0."""

    exchange: Id
    request: Ordinal
    position: Count
    link: Link
    view: View
    attempt: Id | None = None
    action: Id | None = None
    result_version: Ordinal | None = None
    call_id: Name | None = None


class SurfaceFact(Common, frozen=True, kw_only=True, tag="surface"):
    """One check of a request's tools; `more` counts the differences that are not named."""

    exchange: Id
    check: Check
    verdict: Verdict
    tools: Count
    attempt: Id | None = None
    differences: Annotated[tuple[Difference, ...], msgspec.Meta(max_length=MOST_DIFFERENCES)] = ()
    more: Count = 0


class CoverageFact(Common, frozen=True, kw_only=True, tag="coverage"):
    """How much of a file was read: byte ranges `[start, stop)`, the frontier from 0, the size where it is known."""

    file: Id
    frontier: Count
    whole: bool
    ranges: Annotated[tuple[tuple[Count, Count], ...], msgspec.Meta(max_length=MOST_RANGES)] = ()
    more: Count = 0
    size: Count | None = None
    # False: the pages are of a file that changed between them, so that no single version was read.
    one_version: bool = True
    action: Id | None = None
    deviations: Annotated[tuple[Deviation, ...], msgspec.Meta(max_length=MOST_DEVIATIONS)] = ()


class DeliveryFact(Common, frozen=True, kw_only=True, tag="delivery"):
    """Whether one thing that was promised is there; `code` says why not."""

    item: Id
    kind: ItemKind
    state: ItemState
    code: Code | None = None
    size: Count | None = None
    exit_code: ExitCode | None = None
    action: Id | None = None


Fact: TypeAlias = StageFact | OccurrenceFact | SurfaceFact | CoverageFact | DeliveryFact

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Fact)
_CALL_ID: Final = re.compile(r"[ !#-\[\]-~]{1,128}")


class NotAFact(ValueError):
    """Something is no fact of format 1; the message names no content."""


def encode(fact: Fact) -> bytes:
    """Return the JSON of a fact; NotAFact where it is not one, or longer than 1 KiB."""
    encoded = _encoder.encode(fact)
    decode(encoded)
    return encoded


def decode(encoded: bytes) -> Fact:
    """Read a fact; NotAFact unless it is one of format 1."""
    if len(encoded) > MOST_BYTES:
        raise NotAFact("a fact is at most 1 KiB")
    try:
        fact: Fact = _decoder.decode(encoded)
    except (msgspec.DecodeError, RecursionError):
        raise NotAFact("that is no fact of format 1") from None
    if fact.at.utcoffset() is None:
        raise NotAFact("the time of a fact has an offset")
    if isinstance(fact, StageFact) and fact.status not in STATUSES[fact.stage]:
        raise NotAFact("that stage has no such status")
    if isinstance(fact, OccurrenceFact) and (fact.link is Link.BOUND) != (fact.action is not None):
        raise NotAFact("an occurrence has an action exactly where it is bound")
    return fact


def code_of(text: str | None) -> str | None:
    """Return a closed word as it is; anything else, a sentence say, as `other`: it may quote content."""
    if text is None:
        return None
    try:
        return msgspec.convert(text, Code)
    except msgspec.ValidationError:
        return "other"


def call_id_of(text: str | None) -> str | None:
    """Return a model's call id as it is if a fact has room for it in any case; anything else as None.

    Some providers hide more than an id in it, and a model may write there what it likes: only 1 to 128 characters of
    ASCII that JSON needs no escape for are taken, since a fact that is too long is none.
    """
    return text if text is not None and _CALL_ID.fullmatch(text) else None


def fact_id(kind: str, *names: object) -> str:
    """Make an id out of names, so that the same fact told again has the same id, and no other fact has it.

    Where joined names would be too long or odd, or could be those of others (`a.b` is also `a` and `b`), it is a hash.
    """
    told = [str(name) for name in names]
    joined = ".".join((kind, *told))
    if is_id(joined) and not any("." in name for name in told):
        return joined
    import hashlib  # noqa: PLC0415 - seldom needed

    apart = msgspec.json.encode([name.encode("utf-8", "replace") for name in told])
    return f"{kind}.{hashlib.sha256(apart).hexdigest()[:40]}"


def now() -> datetime:
    """Return the time as facts carry it."""
    return datetime.now(UTC)
