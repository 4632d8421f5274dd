"""A program that guesses contents from files, without any key: it learns from parts whose content it knows.

What it looks at is whatever lies near a part's ids in any file, how far its ids lie apart, how often they are there,
every field of every line of a log that names it, and what each counter did when the part was taken. It keeps what
tells the known ones apart, by leaving one out, and lets the best of that vote on the others.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from tests.support.scan import files_of

_BEFORE: Final = 96
_AFTER: Final = 224
_PLACES: Final = 8
_VOTERS: Final = 9
_FIELD: Final = re.compile(rb'"(\w+)":\s*("[^"]*"|[-\d.]+|\w+)')

Features = dict[tuple[object, ...], float]


@dataclass
class Suspect:
    """A part: its ids, and what the counters did meanwhile; `answer` is what is asked for."""

    evidence: UUID
    run: str
    answer: bool
    counted: Mapping[str, float] = field(default_factory=dict)


def guessed(
    known: Sequence[Suspect], asked: Sequence[Suspect], places: Mapping[str, Sequence[Path]]
) -> float:
    """Return in which share of those that are asked for the guess is right."""
    seen = _features([*known, *asked], places)
    learnt, blind = seen[: len(known)], seen[len(known) :]
    voters = _best(learnt, [each.answer for each in known])
    right = sum(_vote(voters, found) == each.answer for found, each in zip(blind, asked, strict=True))
    return right / len(asked)


# --- what is seen


def _features(suspects: Sequence[Suspect], places: Mapping[str, Sequence[Path]]) -> list[Features]:
    found: list[Features] = [
        {("counter", name): value for name, value in each.counted.items()} for each in suspects
    ]
    spellings = {
        "raw": {each.evidence.bytes: at for at, each in enumerate(suspects)},
        "hex": {each.evidence.hex.encode(): at for at, each in enumerate(suspects)},
        "text": {str(each.evidence).encode(): at for at, each in enumerate(suspects)},
        "run": {each.run.encode(): at for at, each in enumerate(suspects)},
    }
    for place, directories in places.items():
        times: Counter[tuple[int, str]] = Counter()
        last: dict[tuple[int, str], int] = {}
        for _, data in files_of(*directories):
            for name, ids in spellings.items():
                for at, suspect in _places(data, ids):
                    key, number = (suspect, name), times[suspect, name]
                    times[key] += 1
                    if number < _PLACES:
                        found[suspect] |= _around(data, at, (place, name, number))
                        found[suspect][place, name, number, "apart"] = at - last.get(key, at)
                    last[key] = at
        for (suspect, name), count in times.items():
            found[suspect][place, name, "times"] = count
    return found


def _places(data: bytes, ids: Mapping[bytes, int]) -> Iterator[tuple[int, int]]:
    """Where any of these lies; all begin alike, which makes it quick."""
    first, last = min(ids), max(ids)
    size = len(first)
    begin = first[: next(at for at in range(size) if first[at] != last[at])]
    for match in re.finditer(re.escape(begin), data):
        suspect = ids.get(data[match.start() : match.start() + size])
        if suspect is not None:
            yield match.start(), suspect


def _around(data: bytes, at: int, where: tuple[object, ...]) -> Features:
    first = max(at - _BEFORE, 0)
    near: Features = {
        (*where, place - at): data[place] for place in range(first, min(at + _AFTER, len(data)))
    }
    line = data[data.rfind(b"\n", max(at - 4096, 0), at) + 1 : data.find(b"\n", at, at + 4096)]
    if line.startswith(b"{"):
        near[*where, "line"] = len(line)
        near |= {(*where, name): _number(value) for name, value in _FIELD.findall(line)}
    return near


def _number(value: bytes) -> float:
    try:
        return float(value)
    except ValueError:
        return float(hash(value) % 1_000_003)


# --- what is made of it


@dataclass
class _Voter:
    """One thing that is seen, and what it says of each value, or of the values above a bound."""

    feature: tuple[object, ...]
    says: Mapping[float, bool]
    bound: float | None = None
    above: bool = True

    def of(self, found: Features) -> bool | None:
        value = found.get(self.feature)
        if value is None:
            return None
        return self.says.get(value) if self.bound is None else (value > self.bound) == self.above


def _vote(voters: Sequence[tuple[float, _Voter]], found: Features) -> bool:
    total = 0.0
    for right, voter in voters:
        said = voter.of(found)
        total += 0.0 if said is None else (right - 0.5) ** 3 * (1 if said else -1)
    return total > 0


def _best(seen: Sequence[Features], answers: Sequence[bool]) -> list[tuple[float, _Voter]]:
    values: dict[tuple[object, ...], list[tuple[float, bool]]] = defaultdict(list)
    for found, answer in zip(seen, answers, strict=True):
        for name, value in found.items():
            values[name].append((value, answer))
    voters = [
        voter
        for name, pairs in values.items()
        if len({value for value, _ in pairs}) > 1
        for voter in (_by_value(name, pairs, len(answers)), _by_bound(name, pairs, len(answers)))
    ]
    return sorted(voters, key=lambda each: each[0], reverse=True)[:_VOTERS]


def _by_value(name: tuple[object, ...], pairs: Iterable[tuple[float, bool]], of: int) -> tuple[float, _Voter]:
    """What each value says; how right that is, is asked of each without itself. Who does not have it is a coin."""
    counts: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for value, answer in pairs:
        counts[value][answer] += 1
    right = sum(yes * (yes - 1 > no) + no * (no - 1 > yes) for no, yes in counts.values())
    there = sum(map(sum, counts.values()))
    return (right + (of - there) / 2) / of, _Voter(
        name, {each: yes > no for each, (no, yes) in counts.items()}
    )


def _by_bound(name: tuple[object, ...], pairs: Sequence[tuple[float, bool]], of: int) -> tuple[float, _Voter]:
    ordered = sorted(pairs)
    all_yes = sum(answer for _, answer in ordered)
    below_yes, best = 0, (0, 0.0, True)
    for number, (value, answer) in enumerate(ordered[:-1], 1):
        below_yes += answer
        if ordered[number][0] == value:
            continue
        right = (number - below_yes) + (all_yes - below_yes)
        best = max(best, (right, value, True), (len(ordered) - right, value, False))
    right, bound, above = best
    return (right - 1 + (of - len(ordered)) / 2) / of, _Voter(name, {}, bound, above)
