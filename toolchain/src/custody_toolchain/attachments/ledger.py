"""One entry per attachment: what was received, what was extracted of it, what of that was given to the model."""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from time import monotonic
from typing import Final

import msgspec

from custody_toolchain.attachments.kinds import Agreement, agreement, sniffed
from custody_toolchain.facts import Form, code_of
from custody_toolchain.ids import checked_id
from custody_toolchain.locking import OneAtATime

_MOST: Final = 1024
_MOST_EACH: Final = 64
_MOST_FRAMES: Final = 4096


class Status(StrEnum):
    """What became of one step; each step of each attachment has its own."""

    PENDING = "pending"
    DONE = "done"
    PARTIAL = "partial"
    EMPTY = "empty"
    FAILED = "failed"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"


class State(msgspec.Struct, frozen=True):
    """A status with its reason (a closed word) and its time limit in seconds, None for no limit."""

    status: Status
    reason: str | None = None
    limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.status not in {Status.DONE, Status.PENDING} and self.reason is None:
            raise ValueError("what is not done has a reason")
        if self.reason is not None and code_of(self.reason) != self.reason:
            raise ValueError("a reason is a closed word: a-z, 0-9 and _ . -")


DONE: Final = State(Status.DONE)


class Received(msgspec.Struct, frozen=True):
    """What arrived: `where` is a word for the place (upload, mail, url), never an address or a path."""

    size_bytes: int
    claimed_type: str | None
    sniffed_type: str
    agreement: Agreement
    where: str
    state: State = DONE


class Pages(msgspec.Struct, frozen=True):
    """Which pages, from 1: `first` to `last`, both included, of `total` (None: not known)."""

    first: int
    last: int
    total: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last or (self.total is not None and self.last > self.total):
            raise ValueError("pages count from 1, and none comes after the last")

    @property
    def whole(self) -> bool:
        """Whether these are all pages; False also where nobody knows how many there are."""
        return self.first == 1 and self.last == self.total


class Frames(msgspec.Struct, frozen=True):
    """Which moments of a recording, in ms from its beginning, by which rule (`every_2s`, `scene_changes`)."""

    times_ms: tuple[int, ...]
    rule: str
    duration_ms: int | None = None

    def __post_init__(self) -> None:
        if len(self.times_ms) > _MOST_FRAMES:
            raise ValueError(f"at most {_MOST_FRAMES} frames are listed")
        if any(
            time < 0 or (self.duration_ms is not None and time > self.duration_ms) for time in self.times_ms
        ):
            raise ValueError("a frame is of a moment between the beginning and the end")
        if code_of(self.rule) != self.rule:
            raise ValueError("a sampling rule is a closed word: a-z, 0-9 and _ . -")


class Extraction(msgspec.Struct, frozen=True):
    """One representation that a tool made of an attachment, or failed to.

    `representation` is a word (text, page_images, frames, transcript, table). EMPTY with the reason `needs_ocr` is a
    scan in which there is no text; it is not a document that says nothing.
    """

    id: str
    representation: str
    tool: str
    state: State
    pages: Pages | None = None
    frames: Frames | None = None
    size_bytes: int | None = None

    @property
    def whole(self) -> bool:
        """Whether this represents the whole: never for sampled frames, and only of a step that is done."""
        if self.state.status is not Status.DONE or self.frames is not None:
            return False
        return self.pages is None or self.pages.whole


class Given(msgspec.Struct, frozen=True):
    """What of one extraction stood in one request, in which form, and which pages of it (None: all that it has)."""

    extraction: str
    request: str
    form: Form
    state: State = DONE
    pages: Pages | None = None


class Attachment(msgspec.Struct, frozen=True):
    """All that is known of one attachment: `extractions` as they are now, `given_of` as each was when it was given.

    `given` are the newest 64, oldest first; `given_dropped` counts those before.
    """

    id: str
    received: Received
    extractions: tuple[Extraction, ...] = ()
    given: tuple[Given, ...] = ()
    given_of: tuple[Extraction, ...] = ()
    given_dropped: int = 0

    def seen_whole(self, request: str) -> bool:
        """Whether this request held a whole representation, in full. Pages must be all; sampled frames never are.

        False also where what it held is not listed any more.
        """
        now = {extraction.id: extraction for extraction in self.extractions}
        return any(
            self._is_whole(given, then) and self._is_whole(given, now[given.extraction])
            for given, then in zip(self.given, self.given_of, strict=True)
            if given.request == request
        )

    def _is_whole(self, given: Given, extraction: Extraction) -> bool:
        if given.form is not Form.FULL or given.state.status is not Status.DONE or not extraction.whole:
            return False
        return given.pages is None or given.pages.whole


class _Entry:
    def __init__(self, received: Received) -> None:
        self.received = received
        self.extractions: dict[str, Extraction] = {}
        # What stood in requests, and the extraction as it was then; the newest.
        self.given: deque[tuple[Given, Extraction]] = deque(maxlen=_MOST_EACH)
        self.times_given = 0


class Attachments(OneAtATime):
    """A ledger for one run.

    Promised: received, extracted and given are three things with a status each; what a bound or a time limit cuts off
    says so. Not promised: that what was given was looked at. It opens nothing and keeps no content.
    Steps may be noted from any thread.
    """

    def __init__(self, *, most: int = _MOST, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._most = most
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._deadlines: dict[tuple[str, str], float] = {}

    def received(
        self,
        attachment: str,
        *,
        size_bytes: int,
        head: bytes,
        where: str,
        claimed_type: str | None = None,
        state: State = DONE,
    ) -> Received:
        """Note an attachment and what its first bytes show; ValueError for one that is known, or one too many."""
        checked_id(attachment, "an attachment's id")
        if code_of(where) != where or size_bytes < 0:
            raise ValueError("where is a closed word, and a size is 0 bytes or more")
        found = sniffed(head)
        received = Received(size_bytes, claimed_type, found, agreement(claimed_type, found), where, state)
        with self._lock:
            if attachment in self._entries or len(self._entries) >= self._most:
                raise ValueError("that attachment is known already, or there are too many")
            self._entries[attachment] = _Entry(received)
        return received

    def extracted(self, attachment: str, extraction: Extraction) -> None:
        """Note what a tool made of it; told again under the same id, the last stands, but not over a time-out."""
        checked_id(extraction.id, "an extraction's id")
        with self._lock:
            entry = self._entry(attachment)
            known = self._settled(attachment, extraction.id)
            if known is None and len(entry.extractions) >= _MOST_EACH:
                raise ValueError("an attachment has too many extractions")
            if known is not None and known.state.status is Status.TIMED_OUT:
                raise ValueError("that extraction was given up at its time limit")
            entry.extractions[extraction.id] = extraction
            self._deadlines.pop((attachment, extraction.id), None)
            if extraction.state.status is Status.PENDING and extraction.state.limit_s is not None:
                self._deadlines[attachment, extraction.id] = self._clock() + extraction.state.limit_s

    def given(self, attachment: str, given: Given) -> None:
        """Note what stood in a request; ValueError unless it was extracted, and only pages that the extraction has.

        Of each attachment the newest 64 are kept; those before are counted.
        """
        with self._lock:
            entry = self._entry(attachment)
            extraction = self._settled(attachment, given.extraction)
            if extraction is None or extraction.state.status not in {Status.DONE, Status.PARTIAL}:
                raise ValueError("what was not extracted was not given")
            if given.pages is not None and not _within(given.pages, extraction.pages):
                raise ValueError("pages that were not extracted were not given")
            entry.given.append((given, extraction))
            entry.times_given += 1

    def of(self, attachment: str) -> Attachment | None:
        """Return all that is known of an attachment; what is past its time limit is `timed_out`."""
        with self._lock:
            entry = self._entries.get(attachment)
            if entry is None:
                return None
            settled = [self._settled(attachment, extraction) for extraction in entry.extractions]
            extractions = tuple(extraction for extraction in settled if extraction is not None)
            return Attachment(
                attachment,
                entry.received,
                extractions,
                given=tuple(given for given, _ in entry.given),
                given_of=tuple(extraction for _, extraction in entry.given),
                given_dropped=entry.times_given - len(entry.given),
            )

    @property
    def all(self) -> tuple[Attachment, ...]:
        """All attachments, in the order in which they were received."""
        with self._lock:
            known = (self.of(attachment) for attachment in self._entries)
            return tuple(attachment for attachment in known if attachment is not None)

    def proved(self, media_type: str) -> bool:
        """Say whether something was really extracted here from a file of this sniffed type.

        That an extension stands in a list of supported ones proves nothing.
        """
        with self._lock:
            return any(
                extraction.state.status in {Status.DONE, Status.PARTIAL}
                for entry in self._entries.values()
                if entry.received.sniffed_type == media_type
                for extraction in entry.extractions.values()
            )

    def _entry(self, attachment: str) -> _Entry:
        entry = self._entries.get(attachment)
        if entry is None:
            raise ValueError("that attachment was not received")
        return entry

    def _settled(self, attachment: str, extraction: str) -> Extraction | None:
        """Return an extraction, as timed out if it is still pending after its limit."""
        entry = self._entries[attachment]
        known = entry.extractions.get(extraction)
        deadline = self._deadlines.get((attachment, extraction))
        if known is None or deadline is None or self._clock() < deadline:
            return known
        state = State(Status.TIMED_OUT, "time_limit", known.state.limit_s)
        entry.extractions[extraction] = msgspec.structs.replace(known, state=state)
        del self._deadlines[attachment, extraction]
        return entry.extractions[extraction]


def _within(part: Pages, of: Pages | None) -> bool:
    return of is None or (of.first <= part.first and part.last <= of.last)
