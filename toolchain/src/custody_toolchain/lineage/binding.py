"""Which object of this process represents which result.

Objects are known by identity. One that can be weakly referenced is, and is forgotten with its death. A text cannot be:
a fresh copy of it is bound and held, so that no other object can get its id, until its `Pins` let it go.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypeAlias
from weakref import ref

import msgspec

from custody_toolchain.facts import View
from custody_toolchain.ids import ResultRef
from custody_toolchain.lineage.fields import fields_of

# So many values of an object are compared, to see whether it was changed after it was bound.
MOST_COMPARED: Final = 256
# Shorter ones are shared by the whole process: no copy of them is fresh.
SHORTEST_TEXT: Final = 2


lock: Final = threading.RLock()
"""Over all that lineage writes. Held while the process forks, so that the child has everything whole."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_child=lock.release, after_in_parent=lock.release)


class BoundDict(dict[Any, Any]):
    """A dict that can be weakly referenced; its copies and pickles are plain ones."""

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> Any:
        return dict, (), None, None, iter(self.items())


class BoundList(list[Any]):
    """A list that can be weakly referenced; its copies and pickles are plain ones."""

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> Any:
        return list, (), None, iter(self)


class Book:
    """What is known of the results of one run: the newest version of each action's, and which are several in one."""

    def __init__(self, most_actions: int) -> None:
        self._most_actions = most_actions
        self._newest: dict[str, int] = {}
        self._marks: dict[ResultRef, object] = {}
        self._several: set[ResultRef] = set()

    def note(self, result: ResultRef, mark: object) -> bool:
        """Take a result down; False if no more actions can be kept in mind."""
        # Most results need not wait for the lock: `setdefault` is one step, taken whole or not at all.
        if (
            mark is None
            and len(self._newest) < self._most_actions
            and self._newest.setdefault(result.action, result.version) >= result.version
        ):
            return True
        with lock:
            newest = self._newest.get(result.action)
            if newest is None and len(self._newest) >= self._most_actions:
                return False
            if newest is None or newest < result.version:
                self._newest[result.action] = result.version
            if mark is not None and self._marks.setdefault(result, mark) != mark:
                self._several.add(result)
        return True

    def several(self, result: ResultRef) -> bool:
        """Say whether different results were made under this one identity."""
        return bool(self._several) and result in self._several

    def replaced(self, result: ResultRef) -> bool:
        """Say whether a newer version exists."""
        return self._newest.get(result.action, 0) > result.version


class Carried(msgspec.Struct, frozen=True, gc=False):
    """What an object represents, and who knows more of it."""

    result: ResultRef
    view: View
    book: Book


class _Weak(ref[Any]):
    """The record of an object that lives and dies by itself."""

    __slots__ = ("at", "carried", "clash", "compared")

    at: int
    carried: tuple[Carried, ...]
    # The object was given out as two different actions' results.
    clash: bool
    compared: list[Any] | None


class _Held(msgspec.Struct, eq=False, gc=False):
    """The record of a text, which lives as long as this does."""

    thing: str
    at: int
    carried: tuple[Carried, ...]
    # As it was counted: what the text takes changes under us.
    size: int
    clash: bool = False
    compared: list[Any] | None = None

    def __call__(self) -> str:
        return self.thing


Record: TypeAlias = _Weak | _Held

records: Final[dict[int, Record]] = {}
"""All records of the process by their objects' ids: an object of another run is known to be one."""


def record_of(thing: object) -> Record | None:
    """Return the record of this very object; None if it has none."""
    record = records.get(id(thing))
    return record if record is not None and record() is thing else None


def unchanged(record: Record, thing: object) -> bool:
    """Say whether a bound object is still what was bound, as far as it is looked at."""
    return record.compared is None or record.compared == compared(thing)


def carried_by(thing: object) -> tuple[Carried, ...]:
    """Return what an object represents; nothing if it is not bound, was changed since, or means two results."""
    record = record_of(thing)
    return record.carried if record is not None and not record.clash and unchanged(record, thing) else ()


def bind_weakly(thing: object, carried: tuple[Carried, ...]) -> Any:
    """Bind an object, or a copy of a dict or list, and return it; None if it cannot be weakly referenced."""
    if type(thing) is dict or type(thing) is list:
        thing = BoundDict(thing) if type(thing) is dict else BoundList(thing)
    try:
        record = _Weak(thing, _gone)
    except TypeError:
        return None
    record.at, record.carried, record.clash = id(thing), carried, False
    record.compared = compared(thing)
    with lock:
        before = record_of(thing)
        if before is None or not _clash(before, carried):
            record.clash = before is not None and before.clash
            records[record.at] = record
            return thing
        if type(thing) is not BoundDict and type(thing) is not BoundList:
            # The runtime's own object stands for both from now on, and so for none.
            before.clash = True
            return thing
    # One that is ours is copied instead.
    return bind_weakly(type(thing)(thing), carried)


def _clash(before: Record, carried: tuple[Carried, ...]) -> bool:
    """Say whether an object that is bound already is now said to be another action's result."""
    return [(each.result.run, each.result.action) for each in before.carried] != [
        (each.result.run, each.result.action) for each in carried
    ]


def _gone(record: Any, all_records: dict[int, Any] = records) -> None:
    """Forget an object that died. Called in the middle of anything, so it takes no lock."""
    at: int = record.at
    if all_records.get(at) is record:
        all_records.pop(at, None)


class Pins:
    """The texts of one run that are held, those longest not seen let go first once they are too many or too large.

    Counted is the most that a text can take: its characters, and the UTF-8 that CPython keeps beside them once an
    encoder was given it, whether one was or not. A text of ASCII has no second copy.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._held: OrderedDict[int, _Held] = OrderedDict()

    def hold(self, text: str, carried: tuple[Carried, ...]) -> str | None:
        """Bind a fresh copy of a text and return it; None if there can be none, or none so large."""
        if not SHORTEST_TEXT <= len(text) <= self._most_bytes:
            return None
        # Never the text itself: it may be a constant, which all who name it share.
        fresh = "".join((text, "")) if type(text) is str else str.__str__(text)  # noqa: FLY002 - a copy
        size = _most_of(fresh)
        if size > self._most_bytes:
            return None
        at = id(fresh)
        record = _Held(fresh, at, carried, size)
        with lock:
            self._held[at] = records[at] = record
            self._bytes += size
            while self._held and (len(self._held) > self._most or self._bytes > self._most_bytes):
                self._let_go(*self._held.popitem(last=False))
        return fresh

    def seen(self, found: Iterable[Record]) -> None:
        """Put texts behind the others: a request was prepared that has them."""
        with lock:
            for record in found:
                if record.at in self._held:
                    self._held.move_to_end(record.at)

    def _let_go(self, at: int, record: _Held) -> None:
        self._bytes -= record.size
        records.pop(at, None)

    def clear(self) -> None:
        """Let all texts go."""
        with lock:
            while self._held:
                self._let_go(*self._held.popitem())


def _most_of(fresh: str) -> int:
    """Return the most bytes that a text will take, of which no UTF-8 is kept yet."""
    size = fresh.__sizeof__()
    # A character of one byte is two in UTF-8, one of two is three, one of four is four.
    return size if fresh.isascii() else size + min(2 * size, 4 * len(fresh))


def compared(thing: object) -> list[Any] | None:
    """Return the first values in an object, with their types: True is not 1. None for what cannot change."""
    if isinstance(thing, str):
        return None
    seen: list[Any] = []
    waiting = [thing]
    try:
        while waiting and len(seen) < MOST_COMPARED:
            _compare(waiting.pop(), seen, waiting)
    except Exception:  # noqa: BLE001 - whatever it does when it is looked at, what it holds cannot be said
        return [object()]
    return seen


def _compare(each: Any, seen: list[Any], waiting: list[Any]) -> None:
    kind = type(each)
    if kind is str:
        seen.append(each)
    elif kind in _PLAIN:
        seen += (kind, each)
    elif isinstance(each, dict):
        seen += (kind, len(each))
        for key, value in islice(each.items(), MOST_COMPARED):
            seen.append(key if type(key) is str else type(key))
            waiting.append(value)
    elif isinstance(each, list | tuple):
        seen += (kind, len(each))
        waiting.extend(islice(each, MOST_COMPARED))
    elif names := fields_of(each):
        seen += (kind, len(names))
        waiting.extend(getattr(each, name, None) for name in names)
    else:
        # Nothing is known of what is inside. Its id, not itself: a record must hold nothing that may lead back.
        seen += (kind, id(each))


_PLAIN: Final = frozenset({int, float, bool, bytes, type(None)})
