"""Sets of sequence numbers as ranges: what a session of millions recorded, in a few numbers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

# What every JSON reader still holds exactly.
LAST_SEQUENCE: Final = 2**53 - 1
# What one report may name; longer ones are split by the sender.
MOST_RANGES: Final = 64
_RANGE = re.compile(r"([1-9][0-9]{0,15})(?:-([1-9][0-9]{0,15}))?")
_RANGE_CHARACTERS: Final = 34


@dataclass(frozen=True, slots=True)
class SequenceSet:
    """An immutable set of numbers from 1; ranges are half-open, sorted, apart from each other."""

    ranges: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Refuse ranges that are not in order: every operation relies on it."""
        edges = [edge for each in self.ranges for edge in each]
        if any(one >= other for one, other in pairwise(edges)) or (edges and edges[0] < 1):
            raise ValueError("ranges start at 1, are sorted and do not touch")

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Self:
        """Gather half-open ranges in any order, overlapping or not; an empty one adds nothing."""
        merged: list[tuple[int, int]] = []
        for start, stop in sorted(each for each in ranges if each[0] < each[1]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
            else:
                merged.append((start, stop))
        return cls(tuple(merged))

    @classmethod
    def up_to(cls, last: int) -> Self:
        """Make 1 to `last`, both included; nothing for 0."""
        return cls.of([(1, last + 1)])

    @classmethod
    def from_text(cls, text: str, most: int = MOST_RANGES) -> Self:
        """Read `1-3,7`, both ends included; a ValueError for anything else, or for too much of it."""
        if len(text) > most * _RANGE_CHARACTERS or text.count(",") >= most:
            raise ValueError("too many ranges")
        return cls.of(_read_range(each) for each in text.split(","))

    @property
    def count(self) -> int:
        """How many numbers are in it."""
        return sum(stop - start for start, stop in self.ranges)

    def __contains__(self, number: int) -> bool:
        """Say whether the number is in it."""
        return any(start <= number < stop for start, stop in self.ranges)

    def __bool__(self) -> bool:
        """Say whether there is anything in it."""
        return bool(self.ranges)

    def to_text(self) -> str:
        """Write `1-3,7`; `from_text` reads it back. Nothing is the empty text, which no report carries."""
        return ",".join(_write_range(start, stop) for start, stop in self.ranges)

    def add(self, number: int) -> Self:
        """Add one number; one that is there changes nothing."""
        return self.of([*self.ranges, (number, number + 1)])

    def union(self, *others: Self) -> Self:
        """Take what is in any of them."""
        return self.of(each for one in (self, *others) for each in one.ranges)

    def minus(self, other: Self) -> Self:
        """Take what is in this and not in the other."""
        left: list[tuple[int, int]] = []
        holes = iter(other.ranges)
        hole = next(holes, None)
        for start, stop in self.ranges:
            at = start
            while hole is not None and hole[0] < stop:
                left.append((at, hole[0]))
                at = max(at, hole[1])
                if hole[1] > stop:
                    break
                hole = next(holes, None)
            left.append((at, stop))
        return self.of(left)

    def within(self, other: Self) -> Self:
        """Take what is in both."""
        return self.minus(self.minus(other))


def _read_range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text.strip(" "))
    if found is None:
        raise ValueError("a range is a number from 1, or two joined by a hyphen")
    first = int(found[1])
    last = int(found[2] or first)
    if not first <= last <= LAST_SEQUENCE:
        raise ValueError("a range ends after it starts, within 2^53")
    return first, last + 1


def _write_range(start: int, stop: int) -> str:
    return str(start) if stop == start + 1 else f"{start}-{stop - 1}"
