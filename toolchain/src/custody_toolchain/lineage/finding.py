"""Where in a request's messages something is bound, and where a tool's result stands that is not."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from custody_toolchain.ids import ResultRef
from custody_toolchain.lineage.binding import Carried, Record, records, unchanged
from custody_toolchain.lineage.fields import fields_of, value_of

# In one message so many values are looked at, so deep.
MOST_VALUES: Final = 10_000
DEEPEST: Final = 16
# Results stand as a message, or as an item of a message's content: message, list, item.
_WHERE_RESULTS_STAND: Final = (0, 2)

_LEAVES: Final = frozenset({int, float, bool, bytes, type(None)})
# What the providers call a tool's result, and where each says of which call.
_CALL_BY_TYPE: Final = {
    "tool": "tool_call_id",
    "tool_result": "tool_use_id",
    "tool_call_response": "id",
    "function_call_output": "call_id",
    "custom_tool_call_output": "call_id",
    "computer_call_output": "call_id",
    "local_shell_call_output": "id",
    "shell_call_output": "call_id",
    "apply_patch_call_output": "call_id",
}
_NO_RESULT: Final = object()
_NOTHING: Final[frozenset[ResultRef]] = frozenset()
_CALL_BY_KEY: Final = {"functionResponse": "id", "function_response": "id", "toolResult": "toolUseId"}


class Found(msgspec.Struct, frozen=True, gc=False):
    """Something in the message at `position`; `carried` is None where nothing is known of it."""

    position: int
    carried: Carried | None = None
    clash: bool = False
    call_id: str | None = None


class _Block(msgspec.Struct, gc=False):
    """One result of a tool, as a provider marks it."""

    call_id: str | None
    known: bool


class _TooMuch(Exception):
    """A message has more values than are looked at."""


def find(messages: Iterable[Any]) -> tuple[list[Found], list[Record]]:
    """Return what stands in the messages, in their order, and the records by which it was known."""
    look = _Look()
    found, blocks = look.found, look.blocks
    for position, message in enumerate(messages):
        before = len(found)
        look.position, look.left = position, MOST_VALUES
        try:
            look.at(message, 0, None, _NOTHING)
        except _TooMuch:
            if all(each.known for each in blocks):
                found.append(Found(position))
        except Exception:  # noqa: BLE001 - another thread changes it, or it raises when it is looked at: unknown
            del found[before:]
            blocks.clear()
            found.append(Found(position))
        if blocks:
            found += [Found(position, None, False, each.call_id) for each in blocks if not each.known]  # noqa: FBT003
            blocks.clear()
    return found, look.by


class _Look:
    """A look at one message after the other."""

    __slots__ = ("blocks", "by", "found", "left", "position")

    def __init__(self) -> None:
        self.position = 0
        self.left = 0
        self.found: list[Found] = []
        self.by: list[Record] = []
        self.blocks: list[_Block] = []

    def at(self, thing: Any, depth: int, block: _Block | None, covered: frozenset[ResultRef]) -> None:
        """Look at a thing and into it; `covered` is what an object around it is bound to already."""
        if block is None and depth in _WHERE_RESULTS_STAND:
            call_id = _result_call(thing)
            if call_id is not _NO_RESULT:
                block = _Block(call_id if isinstance(call_id, str) else None, bool(covered))
                self.blocks.append(block)
        record = records.get(id(thing))
        if record is not None and record() is thing and self._take(record, thing, block, covered):
            covered = covered.union([each.result for each in record.carried])
        if depth < DEEPEST:
            self._into(thing, depth + 1, block, covered)

    def _into(self, thing: Any, depth: int, block: _Block | None, covered: frozenset[ResultRef]) -> None:
        inside = thing.values() if type(thing) is dict else _inside(thing)
        self.left -= len(inside)
        if self.left < 0:
            if covered:
                # What is inside a bound object is what the object is said to be.
                return
            raise _TooMuch
        for each in inside:
            kind = type(each)
            if kind is str:
                # The record of a text holds it: one that is found is that of this very text.
                record = records.get(id(each))
                if record is not None:
                    self._take(record, each, block, covered)
            elif kind not in _LEAVES:
                self.at(each, depth, block, covered)

    def _take(self, record: Record, thing: Any, block: _Block | None, covered: frozenset[ResultRef]) -> bool:
        """Take down what a bound object carries; False if it is no longer what it was."""
        self.by.append(record)
        if record.compared is not None and not unchanged(record, thing):
            if block is None:
                self.found.append(Found(self.position))
            return False
        call_id = None
        if block is not None:
            block.known = True
            call_id = block.call_id
        for each in record.carried:
            if not covered or each.result not in covered:
                self.found.append(Found(self.position, each, record.clash, call_id))
        return True


def _inside(thing: Any) -> Collection[Any]:
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, list | tuple):
        return thing
    return [getattr(thing, name, None) for name in fields_of(thing)]


def _result_call(thing: Any) -> Any:
    """Return which call's result this is (None or nonsense if that is not said), or that it is no result."""
    read = thing.get if isinstance(thing, dict) else partial(value_of, thing)
    role = read("role")
    if role == "tool" or role == "function":  # noqa: PLR1714 - half the time of `in`
        return read("tool_call_id")
    kind = read("type")
    if isinstance(kind, str) and kind in _CALL_BY_TYPE:
        return read(_CALL_BY_TYPE[kind])
    if isinstance(thing, dict) and _CALL_BY_KEY.keys().isdisjoint(thing):
        return _NO_RESULT
    for key, name in _CALL_BY_KEY.items():
        if (inner := read(key)) is not None:
            return value_of(inner, name)
    return _NO_RESULT
