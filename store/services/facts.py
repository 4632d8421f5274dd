"""Facts of a toolchain, format 1: read strictly, each on its own, and written in one way.

The toolchain has the same format (`custody_toolchain.facts`), and neither knows the other: `tests/contract/facts.json`
holds both to it. A fact has ids, closed words and numbers; what is none goes no further, and is not quoted.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

import msgspec

from policies.facts import (
    STATUSES,
    Change,
    Check,
    Deviation,
    FactType,
    Form,
    ItemKind,
    ItemState,
    Link,
    Stage,
    Status,
    Unit,
    Verdict,
)
from policies.limits import NOTE_BYTES
from policies.reasons import Reason
from store.errors import Malformed
from store.services import documents

MOST_AT_ONCE: Final = 64
"""Facts in one call."""

Id: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Pointer: TypeAlias = Annotated[str, msgspec.Meta(max_length=128)]
Code: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_.-]{0,63}\Z")]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
Ordinal: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
# What operating systems give: unsigned ones of 32 bits, and a signal's as a negative one.
ExitCode: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32 - 1)]


class View(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A form, and of a partial one which part: `start` to `stop` (not included) of `total`; null is not known."""

    form: Form
    unit: Unit | None = None
    start: Count | None = None
    stop: Count | None = None
    total: Count | None = None
    source_whole: bool | None = None


class Difference(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How one tool differs; `now` is its new name, `at` where in its schema."""

    change: Change
    tool: Name
    now: Name | None = None
    at: Pointer | None = None


class _Common(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
):
    """What every fact has: its name within the run, and the teller's own time."""

    fact: Id
    at: Annotated[datetime, msgspec.Meta(tz=True)]


class StageFact(_Common, frozen=True, kw_only=True, tag=FactType.STAGE.value):
    """One stage of one action."""

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


class OccurrenceFact(_Common, frozen=True, kw_only=True, tag=FactType.OCCURRENCE.value):
    """One object of one submitted request."""

    exchange: Id
    request: Ordinal
    position: Count
    link: Link
    view: View
    attempt: Id | None = None
    action: Id | None = None
    result_version: Ordinal | None = None
    call_id: Name | None = None


class SurfaceFact(_Common, frozen=True, kw_only=True, tag=FactType.SURFACE.value):
    """One check of a request's tools."""

    exchange: Id
    check: Check
    verdict: Verdict
    tools: Count
    attempt: Id | None = None
    differences: Annotated[tuple[Difference, ...], msgspec.Meta(max_length=8)] = ()
    more: Count = 0


class CoverageFact(_Common, frozen=True, kw_only=True, tag=FactType.COVERAGE.value):
    """How much of a file was read."""

    file: Id
    frontier: Count
    whole: bool
    ranges: Annotated[tuple[tuple[Count, Count], ...], msgspec.Meta(max_length=16)] = ()
    more: Count = 0
    size: Count | None = None
    one_version: bool = True
    action: Id | None = None
    deviations: Annotated[tuple[Deviation, ...], msgspec.Meta(max_length=8)] = ()


class DeliveryFact(_Common, frozen=True, kw_only=True, tag=FactType.DELIVERY.value):
    """Whether one thing that was promised is there."""

    item: Id
    kind: ItemKind
    state: ItemState
    code: Code | None = None
    size: Count | None = None
    exit_code: ExitCode | None = None
    action: Id | None = None


Fact: TypeAlias = StageFact | OccurrenceFact | SurfaceFact | CoverageFact | DeliveryFact
FORMS: Final = (StageFact, OccurrenceFact, SurfaceFact, CoverageFact, DeliveryFact)


_decoder: Final = msgspec.json.Decoder(Fact)
_encoder: Final = msgspec.json.Encoder()
# Whatever is written as JSON: numbers are not made, since one may be of any length.
_any: Final = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)
_HEAD: Final = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"facts"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*')
_NEXT: Final = re.compile(r"[ \t\r\n]*([],])[ \t\r\n]*")
_TAIL: Final = re.compile(r"[ \t\r\n]*\}[ \t\r\n]*")
# The calendar's two ends are infinities to the database.
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def split(body: bytes) -> list[bytes]:
    """Return the facts of `{"facts": […]}`, undecoded; Malformed where it is nothing else, or holds too many.

    Only where each ends is looked for: what is wrong within one, a byte that is no UTF-8 say, is said of that one. What
    hides where it ends (a wrong escape, a number that is none) makes the whole body no JSON.
    """
    try:
        found = list(_parts(body.decode("utf-8", "surrogateescape")))
    except (ValueError, RecursionError):
        raise Malformed(detail='the body is {"facts": [...]}') from None
    if len(found) > MOST_AT_ONCE:
        raise Malformed(detail=f"at most {MOST_AT_ONCE} facts a call")
    return found


def _parts(text: str) -> Iterator[bytes]:
    at = _past(_HEAD, text, 0).end()
    closed = text[at : at + 1] == "]"
    at += closed
    while not closed:
        _, end = _any.raw_decode(text, at)
        yield text[at:end].encode("utf-8", "surrogateescape")
        after = _past(_NEXT, text, end)
        closed, at = after[1] == "]", after.end()
    if _TAIL.fullmatch(text, at) is None:
        raise ValueError("more than facts")


def _past(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError("no list of facts")
    return found


def read(told: bytes) -> bytes | Reason:
    """Return a fact as the store writes it, or why it is none: too long, or not of the format."""
    if len(told) > NOTE_BYTES:
        return Reason.PART_TOO_LARGE
    try:
        # A name that is there twice has two readers and two meanings.
        documents.check(told)
        written = _encoder.encode(decode(told))
    except (ValueError, Malformed, RecursionError):
        return Reason.ENCODING_FAILED
    # Ours may be longer by an escape or a digit of the time.
    return written if len(written) <= NOTE_BYTES else Reason.PART_TOO_LARGE


def decode(body: bytes) -> Fact:
    """Read one fact, its time in UTC; ValueError unless it is one of format 1."""
    fact: Fact = _decoder.decode(body)
    if not _FIRST < fact.at < _LAST:
        raise ValueError("the time of a fact is one of the calendar")
    if isinstance(fact, StageFact) and fact.status not in STATUSES[fact.stage]:
        raise ValueError("that stage has no such status")
    if isinstance(fact, OccurrenceFact) and (fact.link is Link.BOUND) != (fact.action is not None):
        raise ValueError("an occurrence has an action exactly where it is bound")
    # An offset may lead out of the calendar.
    return msgspec.structs.replace(fact, at=fact.at.astimezone(UTC))


def type_of(fact: Fact) -> FactType:
    """Return what a fact is about."""
    return FactType(str(fact.__struct_config__.tag))
