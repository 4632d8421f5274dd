"""One side of an attempt as somebody may see it: its content, or why it is not there, never an empty box.

Each content is one guarded read, recorded before its bytes are known here. Whoever's role never reads content is told
so without asking for it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from console import words
from console.guards import Signed
from console.words import Words
from policies.availability import content_role
from policies.kinds import Capture, Kind
from policies.reasons import Reason
from store.errors import Corrupt, Malformed, NotFound, Refused, Unavailable
from store.queue import RunKey
from store.services.content import ContentView
from store.services.paging import Reader
from store.services.part_views import PartView, TimesView
from store.services.readback import PartIdentity
from store.services.run_views import GapItem
from store.wiring import Services

_QUEUED: Final = Words(
    "Queued",
    "It was accepted and waits to be written. Queued is not stored.",
    "Look again in a moment.",
)
_NOT_TOLD: Final = Words(
    "Not received",
    "Nothing of it was stored, nothing of it waits, and nobody has said that it is missing.",
    "The closing of the run counts what nobody told of. That it is not here does not say that it never was.",
)
_NOT_KNOWN: Final = Words(
    "Not known now",
    "Nothing of it is stored, and the write queue does not answer: whether it waits there cannot be told.",
    "This is an outage, not a refusal: look again in a moment.",
)
_PURPOSE: Final = Words(
    "A purpose is needed",
    "Nothing was read yet: this read must say what it is for.",
    "Say it above; it is recorded with each read of this session.",
)
# What stands there while a read waits to be told what it is for.
PURPOSE: Final = "purpose"
_SAID_BY: Final = {"store": "the store", "client": "the runtime's client", "count": "counting"}
_ALARMING: Final = frozenset({Reason.KEY_LOST, Reason.INTEGRITY_MISMATCH})


@dataclass(frozen=True, slots=True)
class State:
    """What stands in the place of content; `word` is the closed word, or one of ours where there is no reason."""

    word: str
    said: Words
    tone: str
    times: list[tuple[str, datetime]]
    gap: GapItem | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One kind of one attempt. There is content or a state, never both; a part is there once it was stored."""

    kind: Kind
    part: PartView | None
    content: ContentView | None = None
    state: State | None = None

    @property
    def told(self) -> bool:
        """Say whether anything at all is known of it."""
        return self.state is None or self.state.said not in (_NOT_TOLD, _NOT_KNOWN)


class Reading(StrEnum):
    """What a page did about the content that it is about, as its banner says it."""

    # Some of it is shown. Also of a page that asks for nothing before somebody says what for.
    SHOWN = "shown"
    REFUSED = "refused"
    # There was nothing to read.
    NOTHING = "nothing"


def reading_of(sides: Iterable[Side]) -> Reading:
    """Return what came of reading some sides; one that was read is shown, whatever became of the others."""
    found = list(sides)
    if any(side.content is not None for side in found):
        return Reading.SHOWN
    return Reading.REFUSED if any(side.part is not None for side in found) else Reading.NOTHING


async def side_of(opened: Services, who: Signed, named: PartIdentity) -> Side:
    """Return one side, read where this reader may read it."""
    try:
        part = await opened.readback.part_by_identity(who.reader, named)
    except NotFound:
        return Side(named.kind, None, state=await _missing(opened, who.reader, named))
    if not content_role(who.role):
        state = await _refused(opened, who.reader, part, part.availability.reason or Reason.PERMISSION_DENIED)
        return Side(named.kind, part, state=state)
    if needs_purpose(who):
        return Side(named.kind, part, state=_wanting(part))
    return await _read(opened, who, part)


def needs_purpose(who: Signed) -> bool:
    """Say whether the scope demands a purpose that was not said yet."""
    return content_role(who.role) and who.purpose is None and who.in_scope.policy.purpose_required


async def _read(opened: Services, who: Signed, part: PartView) -> Side:
    try:
        content = await opened.content.read(who.reader, part.evidence, who.purpose)
    except Malformed:
        # Expired and held: a custodian reads that with a purpose only.
        return Side(part.kind, part, state=_wanting(part))
    except (Refused, Corrupt, NotFound) as refusal:
        return Side(part.kind, part, state=await _refused(opened, who.reader, part, refusal.reason))
    return Side(part.kind, part, content=content)


def _wanting(part: PartView) -> State:
    return State(PURPOSE, _PURPOSE, "warn", [("Now", part.observed_at)])


async def _refused(opened: Services, reader: Reader, part: PartView, reason: Reason) -> State:
    tone = "bad" if reason in _ALARMING else "warn" if reason is Reason.PERMISSION_DENIED else ""
    known = _since(reason, await opened.readback.times(reader, part.evidence))
    return State(reason.value, words.at_read(reason), tone, [*known, ("Looked at", part.observed_at)])


def _since(reason: Reason, times: TimesView) -> Iterator[tuple[str, datetime]]:
    """Yield when what stands against the read began; nothing of it to whom the part is not shown."""
    known: dict[Reason, list[tuple[str, datetime | None]]] = {
        Reason.RETENTION_EXPIRED: [
            ("Kept until", times.retain_until),
            ("Expired with its bucket", times.expired_at),
        ],
        Reason.EXPIRED_HELD: [("Kept until", times.retain_until)],
        Reason.SOURCE_UNAVAILABLE: [("Source revoked", times.revoked_at)],
        Reason.DEPENDENCY_CHANGED: [("Version withdrawn", times.withdrawn_at)],
    }
    at = known.get(reason, [])
    if reason is not Reason.PERMISSION_DENIED:
        at = [*at, ("Destruction began", times.purging_at), ("Destroyed", times.purged_at)]
    yield from ((name, instant) for name, instant in at if instant is not None)


async def _missing(opened: Services, reader: Reader, named: PartIdentity) -> State:
    """Say why nothing is stored: it waits, it was refused or lost, or nobody told of it."""
    run = RunKey(reader.scope, named.run)
    try:
        waiting = await opened.outcomes.of_identity(run, named.exchange, named.attempt, named.kind)
    except Unavailable as outage:
        # What is stored is read all the same, and so is what was recorded as missing.
        if outage.reason is not Reason.QUEUE_UNAVAILABLE:
            raise
        return await _recorded(opened, reader, named) or State(outage.reason.value, _NOT_KNOWN, "warn", [])
    if waiting is not None and waiting.capture is Capture.QUEUED:
        said = _QUEUED if waiting.overdue is None else words.of_mark(waiting.overdue)
        word, tone = ("queued", "") if waiting.overdue is None else (waiting.overdue.value, "warn")
        return State(word, said, tone, [("Accepted", waiting.received_at)])
    return await _recorded(opened, reader, named) or State("not_received", _NOT_TOLD, "", [])


async def _recorded(opened: Services, reader: Reader, named: PartIdentity) -> State | None:
    """Say why nothing is stored, where that was recorded."""
    gap = await opened.run_reads.gap(reader, named)
    if gap is None:
        return None
    of_gap = words.of(Reason(gap.reason))
    said = Words(f"Not stored: {of_gap.name}", of_gap.sentence, of_gap.advice)
    times = [("First", gap.first_at)] if gap.times == 1 else [("First", gap.first_at), ("Last", gap.last_at)]
    return State(Reason.NOT_STORED.value, said, "warn", times, gap)


def said_by(gap: GapItem) -> str:
    """Return who told of a gap."""
    return "nobody" if gap.said_by is None else _SAID_BY[gap.said_by]
