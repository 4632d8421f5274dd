"""Sets of numbers as ranges, in bounded memory: what a session of millions lost, in a few numbers."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

MOST: Final = 256
"""Ranges of one set. Beyond it the smallest hole is closed: what was stored in a hole counts before the gap over it."""


class Ranges:
    """A set of numbers from 1, as half-open ranges that are sorted and do not touch."""

    __slots__ = ("_starts", "_stops")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in ranges:
            self.add(start, stop)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(tuple(self._starts), tuple(self._stops), strict=True)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def count(self) -> int:
        """How many numbers are in it."""
        return sum(self._stops) - sum(self._starts)

    def add(self, start: int, stop: int) -> None:
        """Add `start` up to, and without, `stop`; what is there already changes nothing."""
        starts, stops = self._starts, self._stops
        if start >= stop:
            return
        if not stops or start > stops[-1]:
            starts.append(start)
            stops.append(stop)
        elif start == stops[-1]:
            stops[-1] = stop
        else:
            self._merge(start, stop)
        if len(starts) > MOST:
            self._close_a_hole()

    def remove(self, other: "Ranges") -> None:
        """Take out what is in the other."""
        left: list[tuple[int, int]] = []
        holes = list(other)
        for start, stop in self:
            at = start
            for from_, to in holes:
                if from_ >= stop:
                    break
                if to > at:
                    left.append((at, from_))
                    at = max(at, to)
            left.append((at, stop))
        self._starts = [start for start, stop in left if start < stop]
        self._stops = [stop for start, stop in left if start < stop]

    def first(self, most: int) -> "Ranges":
        """Return its first ranges, at most so many."""
        found = Ranges()
        found._starts, found._stops = self._starts[:most], self._stops[:most]
        return found

    def to_text(self) -> str:
        """Write `1-3,7`, both ends included."""
        return ",".join(str(start) if stop == start + 1 else f"{start}-{stop - 1}" for start, stop in self)

    def _merge(self, start: int, stop: int) -> None:
        starts, stops = self._starts, self._stops
        # The first range that ends at or after the start, and the last that begins at or before the stop.
        first = bisect_right(stops, start - 1)
        last = bisect_right(starts, stop) - 1
        if first > last:
            starts.insert(first, start)
            stops.insert(first, stop)
            return
        starts[first : last + 1] = [min(start, starts[first])]
        stops[first : last + 1] = [max(stop, stops[last])]

    def _close_a_hole(self) -> None:
        starts, stops = self._starts, self._stops
        smallest = min(range(1, len(starts)), key=lambda at: starts[at] - stops[at - 1])
        del starts[smallest], stops[smallest - 1]
