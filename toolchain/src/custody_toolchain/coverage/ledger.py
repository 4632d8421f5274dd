"""Which bytes of which file were seen, and what was odd about the way."""

import secrets
from typing import Final

import msgspec

from custody_toolchain.coverage.intervals import Intervals
from custody_toolchain.coverage.pages import Page, Version, file_id, normalised
from custody_toolchain.facts import MOST_BYTES, MOST_RANGES, CoverageFact, Deviation, fact_id, now
from custody_toolchain.ids import checked_id, is_id
from custody_toolchain.locking import OneAtATime
from custody_toolchain.observing import Guarded, Report

_MOST_OFFSETS: Final = 4096
_encoder: Final = msgspec.json.Encoder()


class FileCoverage(msgspec.Struct, frozen=True):
    """How much of one file was read: byte ranges, the frontier without a gap from 0, and the end where it is known.

    `whole`: the frontier is the end. `one_version` False: the file changed between pages, so that what was read whole
    is this sequence of pages and no single version of the file. `complete` False: ranges were too many to keep.
    """

    file: str
    frontier: int
    end: int | None
    whole: bool
    ranges: tuple[tuple[int, int], ...]
    one_version: bool
    complete: bool
    pages: int
    deviations: tuple[Deviation, ...]

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """What was not read, up to the end where that is known, else up to the last byte that was read."""
        known = self.end if self.end is not None else max((stop for _, stop in self.ranges), default=0)
        bytes_seen = Intervals(len(self.ranges) + 1)
        for start, stop in self.ranges:
            bytes_seen.add(start, stop)
        return bytes_seen.gaps(known)


class Reading(msgspec.Struct, frozen=True):
    """What one page was: three sizes that are three, and what was odd about it.

    `expected` is where the tool had said to go on (None: it had said nothing); `clamped` how many of the bytes asked
    for were not given although the file went on.
    """

    coverage: FileCoverage
    asked: int
    granted: int
    clamped: int
    expected: int | None
    deviations: tuple[Deviation, ...]


class _File:
    """What is known of one file."""

    def __init__(self, name: str, most_ranges: int) -> None:
        self.name = name
        # Whether its next page is the first at a path that led to another file until then.
        self.replaces = False
        # The paths at which another file was found later.
        self.gone_from: set[str] = set()
        self.seen = Intervals(most_ranges)
        self.version = Version()
        self.end: int | None = None
        self.one_version = True
        self.pages = 0
        self.expected: int | None = None
        # Which offsets a tool told, oldest first; 0 needs no telling.
        self.told: dict[int, None] = {}
        self.deviations: dict[Deviation, None] = {}

    def follow(self, before: "_File", *, replaces: bool) -> None:
        """Be the file to which the path of another leads now: who goes on there does what the tool had said."""
        self.replaces = replaces
        self.expected = before.expected
        for offset in before.told:
            self.tell(offset)

    def take(self, page: Page) -> tuple[Deviation, ...]:
        """Count one page, and say what was odd about it."""
        end = self._end_with(page)
        odd = self._changes(page, end)
        if (odd or (self.replaces and not self.pages)) and page.offset == 0:
            # The new version is read from its beginning: nothing of the old one counts any more.
            self._begin_again()
            end = self._end_with(page)
        elif odd:
            self.one_version = False
        if self.replaces and Deviation.CHANGED not in odd:
            odd.insert(0, Deviation.CHANGED)
        self.replaces = False
        odd += self._steps(page)
        self.pages += 1
        self.version = _merged(self.version, page.version)
        self.seen.add(page.offset, page.offset + page.size)
        self.end = end
        self.expected = page.next_offset
        if page.next_offset is not None:
            self.tell(page.next_offset)
        self.deviations.update(dict.fromkeys(odd))
        return tuple(odd)

    def tell(self, offset: int) -> None:
        """Note an offset that a tool told."""
        self.told.pop(offset, None)
        self.told[offset] = None
        if len(self.told) > _MOST_OFFSETS:
            del self.told[next(iter(self.told))]

    def _begin_again(self) -> None:
        self.seen.clear()
        self.one_version = True
        self.pages = 0
        # Of the version that was, nothing is a change of this one; it is the same file all the same.
        self.version = Version(id=self.version.id)
        self.end = self.expected = None
        self.told.clear()

    def _end_with(self, page: Page) -> int | None:
        """Return where the file ends as far as is known with this page."""
        stop = page.offset + page.size
        # An empty page beyond what was seen says that the file ends there or earlier, and not where.
        said = page.eof and (page.size > 0 or page.offset == 0 or self._has(page.offset - 1))
        size = page.version.size
        if size is not None:
            return max(stop, size) if said and page.size > 0 else size
        if said:
            return stop
        known = self.end
        return known if known is None or stop <= known else None

    def _has(self, byte: int) -> bool:
        return self.seen.overlap(byte, byte + 1) > 0

    def _changes(self, page: Page, end: int | None) -> list[Deviation]:
        """Compare the file that this page is of with the file as it was known."""
        size, stop = page.version.size, page.offset + page.size
        contradicts = page.eof and size is not None and page.size > 0 and stop != size
        if not self.pages:
            return [Deviation.CHANGED] if contradicts else []
        shrunk = end is not None and (end < self.seen.end or (self.end is not None and end < self.end))
        moved = self.end is not None and end != self.end
        changed = shrunk or contradicts or moved or _differ(self.version, page.version)
        outgrown = self.end is not None and stop > self.end
        odd = [Deviation.CHANGED] if changed or outgrown else []
        return [*odd, Deviation.SHRUNK] if shrunk else odd

    def _steps(self, page: Page) -> list[Deviation]:
        """Compare where the page is with where the tool had said to go on."""
        odd = []
        if page.asked_offset != 0 and page.asked_offset not in self.told:
            odd.append(Deviation.SELF_COMPUTED)
        if page.offset > 0 and not self.pages:
            odd.append(Deviation.STARTED_IN_THE_MIDDLE)
        elif page.offset > 0 and not self._has(page.offset - 1):
            odd.append(Deviation.SKIPPED)
        if self.seen.overlap(page.offset, page.offset + page.size):
            odd.append(Deviation.REPEATED)
        if _clamped(page):
            odd.append(Deviation.CLAMPED)
        return odd

    def is_not(self, same: str | None) -> bool:
        """Say whether this file is known to be another than the one with this id."""
        return same is not None and self.version.id is not None and self.version.id != same

    def coverage(self) -> FileCoverage:
        return FileCoverage(
            file=self.name,
            frontier=self.seen.frontier,
            end=self.end,
            whole=self.end is not None and self.seen.frontier == self.end and self.pages > 0,
            ranges=self.seen.ranges,
            one_version=self.one_version,
            complete=self.seen.dropped == 0,
            pages=self.pages,
            deviations=tuple(self.deviations),
        )


def _merged(old: Version, new: Version) -> Version:
    told = {field: getattr(new, field) for field in new.__struct_fields__ if getattr(new, field) is not None}
    return msgspec.structs.replace(old, **told)


def _differ(old: Version, new: Version) -> bool:
    """Say whether something that is known of both is different."""
    both = ((getattr(old, field), getattr(new, field)) for field in old.__struct_fields__)
    return any(one is not None and other is not None and one != other for one, other in both)


def _clamped(page: Page) -> int:
    """Return how many bytes were asked for and not given, although the file goes on."""
    size, stop = page.version.size, page.offset + page.size
    at_end = page.eof or (size is not None and stop >= size)
    return 0 if at_end else max(0, page.asked_size - page.size)


class Coverage(OneAtATime):
    """A ledger of pages for one run.

    Promised: bytes are only counted where a tool gave them; a file is whole only when its frontier from 0 reaches its
    end; less is claimed than was read where bounds are reached, never more. Not promised: that what was given was
    looked at, or that a file stayed the same where nothing about its version is told. Pages may come from any thread,
    and a process that is forked meanwhile goes on with a copy of its own.
    """

    def __init__(
        self, run: str, *, report: Report | None = None, most_files: int = 1024, most_ranges: int = 1024
    ) -> None:
        # Tools that read at the same time tell of their pages from threads of their own.
        super().__init__()
        self._run = checked_id(run, "a run's id")
        self._guarded = Guarded(report)
        self._most_files = most_files
        self._most_ranges = most_ranges
        self._by_path: dict[str, _File] = {}
        self._by_id: dict[str, _File] = {}
        self._files: list[_File] = []
        self._session = secrets.token_hex(4)
        self._pages = 0
        self.files_dropped = 0

    @property
    def reports_failed(self) -> int:
        """How many times the report raised; no page was counted otherwise for it."""
        return self._guarded.failed

    def read(self, page: Page, *, file: str | None = None) -> Reading:
        """Count one page. `file` names the file in facts (an id of the caller's); None: a name made of run and path."""
        if file is not None:
            checked_id(file, "a file's id")
        with self._lock:
            known = self._file(page, file)
            expected = known.expected
            odd = known.take(page)
            coverage = known.coverage()
            self._pages += 1
            number = self._pages
        self._guarded.tell(lambda: self._fact(coverage, page.action, number))
        return Reading(coverage, page.asked_size, page.size, _clamped(page), expected, odd)

    def offer(self, path: str, offset: int) -> None:
        """Note that some tool named this offset (a search that found something there): going there is no invention."""
        with self._lock:
            (self._by_path.get(normalised(path)) or self._new(normalised(path), None)).tell(offset)

    def of(self, path: str) -> FileCoverage | None:
        """Return how much of a file was read; None if no page of it is known."""
        with self._lock:
            known = self._by_path.get(normalised(path))
            return known.coverage() if known is not None and known.pages else None

    @property
    def files(self) -> tuple[FileCoverage, ...]:
        """All files of which there is a page, each once, however many paths lead to it."""
        with self._lock:
            return tuple(known.coverage() for known in self._files if known.pages)

    def _file(self, page: Page, name: str | None) -> _File:
        """Find the file: by its id where one is told, else by its path."""
        path, same = normalised(page.path), page.version.id
        known = self._by_id.get(same) if same is not None else None
        before = self._by_path.get(path)
        if known is not None and path not in known.gone_from:
            if before is not None and before is not known:
                known.follow(before, replaces=before.is_not(same))
                self._displace(before, path, name)
            if path in self._by_path or len(self._by_path) < self._most_files:
                self._by_path[path] = known
            return known
        known = self._new(path, name, before) if before is None or before.is_not(same) else before
        if same is not None and self._by_path.get(path) is known:
            self._by_id[same] = known
        return known

    def _new(self, path: str, name: str | None, before: _File | None = None) -> _File:
        """Begin a file; the one to which the path led before is from now on known by its id alone."""
        known = _File(name or file_id(self._run, path), self._most_ranges)
        if before is not None:
            known.follow(before, replaces=True)
            self._displace(before, path, name)
            del self._by_path[path]
        if self._has_room():
            self._files.append(known)
            self._by_path[path] = known
        else:
            # Its pages are answered for one by one, and never add up to a whole file of several.
            self.files_dropped += 1
        return known

    def _displace(self, before: _File, path: str, name: str | None) -> None:
        """Note that a path leads to this file no more: if its id comes back there, that is another file's."""
        before.gone_from.add(path)
        if before.name == (name or file_id(self._run, path)):
            before.name = file_id(self._run, path, before.version.id)

    def _has_room(self) -> bool:
        """Say whether there is room for one more file; one to which no path leads any more makes room."""
        if len(self._files) < self._most_files:
            return True
        led_to = set(map(id, self._by_path.values()))
        left = next((known for known in self._files if id(known) not in led_to), None)
        if left is None:
            return False
        self._files.remove(left)
        self._by_id = {same: known for same, known in self._by_id.items() if known is not left}
        self.files_dropped += 1
        return True

    def _fact(self, coverage: FileCoverage, action: str | None, number: int) -> CoverageFact:
        """Make the fact of one page; of many long ranges as many as a fact has room for."""
        for most in range(MOST_RANGES, -1, -1):
            fact = CoverageFact(
                fact=fact_id("coverage", coverage.file, self._session, number),
                at=now(),
                file=coverage.file,
                frontier=coverage.frontier,
                whole=coverage.whole,
                ranges=coverage.ranges[:most],
                more=max(0, len(coverage.ranges) - most),
                size=coverage.end,
                one_version=coverage.one_version,
                action=action if is_id(action) else None,
                deviations=coverage.deviations,
            )
            if len(_encoder.encode(fact)) <= MOST_BYTES:
                break
        return fact
