"""A set of bytes as ranges `[start, stop)`: sorted, apart, merged where they touch."""

from bisect import bisect_left, bisect_right


class Intervals:
    """Bytes of one file that were seen; at most `most` ranges, so that what is kept is bounded.

    A range that finds no room any more is not added, and counted: less is claimed then than was read, never more.
    """

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._starts: list[int] = []
        self._stops: list[int] = []
        self.dropped = 0

    def add(self, start: int, stop: int) -> None:
        """Add the bytes from `start` up to, not including, `stop`; ValueError unless 0 <= start <= stop."""
        if not 0 <= start <= stop:
            raise ValueError("a range begins at 0 or later, and ends no earlier than it begins")
        if start == stop:
            return
        first, last = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if first == last and len(self._starts) >= self._most:
            self.dropped += 1
            return
        if first < last:
            start, stop = min(start, self._starts[first]), max(stop, self._stops[last - 1])
        self._starts[first:last], self._stops[first:last] = [start], [stop]

    def overlap(self, start: int, stop: int) -> int:
        """Return how many bytes of `[start, stop)` are in the set."""
        first, last = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        return sum(min(stop, self._stops[at]) - max(start, self._starts[at]) for at in range(first, last))

    def clear(self) -> None:
        """Forget all bytes."""
        self._starts, self._stops, self.dropped = [], [], 0

    @property
    def frontier(self) -> int:
        """Up to where the bytes are there without a gap, from 0 on."""
        return self._stops[0] if self._starts and self._starts[0] == 0 else 0

    @property
    def end(self) -> int:
        """Where the last range ends; 0 if there is none."""
        return self._stops[-1] if self._stops else 0

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return sum(self._stops) - sum(self._starts)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """All ranges, in order."""
        return tuple(zip(self._starts, self._stops, strict=True))

    def gaps(self, stop: int) -> tuple[tuple[int, int], ...]:
        """Return what is missing of `[0, stop)`."""
        found, at = [], 0
        for begins, ends in self.ranges:
            if at < min(begins, stop):
                found.append((at, min(begins, stop)))
            at = max(at, ends)
        return tuple([*found, (at, stop)] if at < stop else found)
