"""How tools differ from those that were admitted, each difference by its exact name and place."""

import json
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from custody_toolchain.facts import Change, Difference
from custody_toolchain.surface.descriptors import Descriptor

Key: TypeAlias = tuple[str, int]

MOST_PLACES: Final = 64


def differences(admitted: Sequence[Descriptor], presented: Sequence[Descriptor]) -> list[Difference]:
    """Return all differences; none exactly where both are the same. Of one tool, at most 64 places are named."""
    before, after = _keyed(admitted), _keyed(presented)
    added = {key: None for key in after if key not in before}
    pairs = {key: key for key in before if key in after}
    found: list[Difference] = []
    # By content, so that very many that went and came are not all held against each other.
    alike: defaultdict[str | None, deque[Key]] = defaultdict(deque)
    for key in added:
        alike[_but_name(after[key])].append(key)
    alike.pop(None, None)
    for key in (key for key in before if key not in after):
        if candidates := alike.get(_but_name(before[key])):
            renamed = pairs[key] = candidates.popleft()
            del added[renamed]
            found.append(Difference(Change.RENAMED, key[0], now=renamed[0]))
        else:
            found.append(Difference(Change.REMOVED, key[0]))
    found += [Difference(Change.ADDED, key[0]) for key in added]
    for key in before:
        if key in pairs:
            found += _in_one(before[key], after[pairs[key]])
    places = {key: place for place, key in enumerate(after)}
    in_order = [key for key in before if key in pairs]
    found += [
        Difference(Change.REORDERED, in_order[at][0])
        for at in _moved([places[pairs[key]] for key in in_order])
    ]
    return found


def _keyed(descriptors: Sequence[Descriptor]) -> dict[Key, Descriptor]:
    """Name each by its name and which of that name it is."""
    counts: Counter[str] = Counter()
    keyed: dict[Key, Descriptor] = {}
    for each in descriptors:
        counts[each.name] += 1
        keyed[each.name, counts[each.name]] = each
    return keyed


def _but_name(descriptor: Descriptor) -> str | None:
    """Return a text that is the same for what is the same but for its name; None where something is no JSON."""
    form = {key: value for key, value in descriptor.form.items() if key != "name"}
    try:
        return json.dumps(form, sort_keys=True)
    except TypeError:
        return None


def _in_one(before: Descriptor, after: Descriptor) -> Iterator[Difference]:
    places = list(islice(_places(before, after), MOST_PLACES))
    if not places and before.layout == after.layout:
        # Nothing that has a place of its own: what is around it.
        places = [f"/tool{at}" for at in islice(unlike(_nameless(before), _nameless(after), ""), MOST_PLACES)]
    if any(at.startswith("/description") for at in places):
        yield Difference(Change.DESCRIPTION, before.name)
    for at in places:
        if not at.startswith("/description"):
            yield Difference(Change.SCHEMA, before.name, at=at)


def _nameless(descriptor: Descriptor) -> Any:
    """Return a descriptor as it was written, but for its name."""
    wrapper = descriptor.layout[0]
    if wrapper is not None:
        return {**descriptor.raw, wrapper: {**descriptor.raw[wrapper], "name": None}}
    return {**descriptor.raw, "name": None} if "name" in descriptor.form else descriptor.raw


def _places(before: Descriptor, after: Descriptor) -> Iterator[str]:
    for key in sorted(before.form.keys() | after.form.keys()):
        if key not in before.form or key not in after.form:
            yield f"/{key}"
        elif key != "name":
            yield from unlike(before.form[key], after.form[key], f"/{key}")


def unlike(one: Any, other: Any, at: str) -> Iterator[str]:
    """Give the JSON pointers at which two plain trees differ; in lists of different lengths, only the first one.

    True is not 1, 1 is not 1.0, and 0.0 is not -0.0; the order of keys is nothing, the order in a list is something.
    """
    if type(one) is not type(other):
        yield at
    elif isinstance(one, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            place = f"{at}/{_escaped(key)}"
            if key in one and key in other:
                yield from unlike(one[key], other[key], place)
            else:
                yield place
    elif isinstance(one, list):
        places = (
            place
            for index, each in enumerate(one[: len(other)])
            for place in unlike(each, other[index], f"{at}/{index}")
        )
        if len(one) == len(other):
            yield from places
        else:
            yield next(places, f"{at}/{min(len(one), len(other))}")
    elif not _same_value(one, other):
        yield at


def same(one: Any, other: Any) -> bool:
    """Say whether something is the same as a plain tree. It may be anything, and is looked at only as deep as that."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        # The other's keys are looked up, and not in it: only a plain text is what it says that it is.
        return len(one) == len(other) and all(
            type(key) is str and key in one and same(one[key], value) for key, value in other.items()
        )
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    return _same_value(one, other)


def _same_value(one: Any, other: Any) -> bool:
    """Compare two of the same plain type; the text of a number knows 0.0 from -0.0."""
    return repr(one) == repr(other) if type(one) is float else bool(one == other)


def _escaped(key: Any) -> str:
    return key.replace("~", "~0").replace("/", "~1") if isinstance(key, str) else "?"


def _moved(places: Sequence[int]) -> list[int]:
    """Return the fewest that were moved: all but a longest row of those that still follow each other."""
    ends: list[int] = []
    # Of the row that ends at each: its length, and what is before its end.
    tails: list[int] = []
    before: list[int | None] = []
    for at, place in enumerate(places):
        length = bisect_left(ends, place)
        before.append(tails[length - 1] if length else None)
        ends[length : length + 1] = [place]
        tails[length : length + 1] = [at]
    kept: set[int] = set()
    last = tails[-1] if tails else None
    while last is not None:
        kept.add(last)
        last = before[last]
    return [at for at in range(len(places)) if at not in kept]
