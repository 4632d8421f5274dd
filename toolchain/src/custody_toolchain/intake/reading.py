"""One text while calls are read out of it: what the state machines of all dialects share."""

from collections.abc import Mapping
from typing import Any, Final

from custody_toolchain.intake.bounds import Limits, name_of
from custody_toolchain.intake.call_objects import Stated, stated
from custody_toolchain.intake.exact_json import (
    check_depth,
    check_values,
    end_of,
    may_hold_halves,
    space_end,
    value_at,
    value_of,
    value_within,
)
from custody_toolchain.intake.results import Action, Refused
from custody_toolchain.intake.words import Boundary, Dialect, Source, Why

Types = Mapping[str, Mapping[str, str]]
"""By tool and parameter: `json` or `text`. Only dialects that have no types of their own ask."""

_JSON: Final = "json"


class Reading:
    """A text, what is permitted in it, and the actions found so far. Places are offsets in code points.

    `is_example`: what is read is one of maybe very many in the text, so that no look at it may go to the text's end.
    """

    def __init__(
        self,
        text: str,
        dialects: frozenset[Dialect],
        limits: Limits,
        types: Types,
        *,
        is_example: bool = False,
    ) -> None:
        self.text, self.limits, self.types = text, limits, types
        self._is_example = is_example
        self.hermes, self.qwen_xml = Dialect.HERMES in dialects, Dialect.QWEN_XML in dialects
        self.actions: list[Action] = []
        self._ids: set[str] = set()
        self._depth_checked = False

    def refused(self, why: Why, boundary: Boundary, at: int, **more: Any) -> Refused:
        """Return what gives up the whole batch; the call in question is the next one."""
        return Refused(why, boundary, at=at, **more).within(boundary, call=len(self.actions))

    def expect(self, mark: str, at: int, boundary: Boundary) -> int:
        """Return where a mark ends that stands at `at`, but for space; Refused if it does not."""
        at = space_end(self.text, at)
        if self.text.startswith(mark, at):
            return at + len(mark)
        if at >= len(self.text) or mark.startswith(self.text[at : at + len(mark)]):
            raise self.refused(Why.UNCLOSED, boundary, at)
        raise self.refused(Why.UNEXPECTED_TEXT, boundary, at)

    def closing(self, mark: str, at: int, boundary: Boundary) -> int:
        """Return where the next such mark begins; Refused if there is none."""
        stop = self.text.find(mark, at)
        if stop < 0:
            raise self.refused(Why.UNCLOSED, boundary, at)
        return stop

    def json_to(self, at: int, stop: int) -> tuple[Any, int]:
        """Return the JSON value between two places, and where it ends: behind `stop` if that is inside a string."""
        try:
            return value_within(self.text, at, stop, self.limits)
        except Refused as refused:
            raise refused.within(Boundary.ARGUMENTS, call=len(self.actions)) from None

    def json_from(self, at: int) -> tuple[Any, int]:
        """Return the object that begins at a place, and where it ends.

        For dialects in which nothing but JSON and marks follows: its depth is checked once, to the end of the text.
        Of an example it is checked to its own end, which takes longer for each.
        """
        text, limits = self.text, self.limits
        try:
            if self._is_example:
                end_of(text, at, limits)
            elif not self._depth_checked:
                check_depth(text[at:], limits.depth)
                self._depth_checked = True
            value, end = value_at(text, at)
            if may_hold_halves(text[at:end]):
                check_values(value, limits)
        except Refused as refused:
            raise refused.within(Boundary.ARGUMENTS, call=len(self.actions)) from None
        return value, end

    def add_object(self, dialect: Dialect, value: object, begin: int, end: int) -> None:
        """Add the call that a decoded object states."""
        try:
            call = stated(value, end - begin, self.limits)
        except Refused as refused:
            raise refused.within(Boundary.CALL, call=len(self.actions)) from None
        self.add(dialect, call, begin, end)

    def add(
        self, dialect: Dialect, call: Stated, begin: int, end: int, untyped: tuple[str, ...] = ()
    ) -> None:
        """Add a call that is whole."""
        ordinal = len(self.actions)
        if ordinal >= self.limits.actions:
            raise self.refused(Why.TOO_MANY_ACTIONS, Boundary.BLOCK, begin, length=ordinal + 1)
        if call.call_id is not None:
            if call.call_id in self._ids:
                raise self.refused(Why.ID_REPEATED, Boundary.CALL, begin)
            self._ids.add(call.call_id)
        self.actions.append(
            Action(
                ordinal=ordinal,
                name=call.name,
                arguments=call.arguments,
                source=Source.MARKUP,
                call_id=call.call_id,
                dialect=dialect,
                span=(begin, end),
                opaque=call.opaque,
                untyped=untyped,
            )
        )

    def name(self, given: str, at: int) -> str:
        """Return the name of a tool."""
        try:
            return name_of(given, self.limits)
        except Refused as refused:
            refused.at = at
            raise refused.within(Boundary.CALL, call=len(self.actions)) from None


class Parameters:
    """Parameters of one call in a dialect that marks each of them."""

    def __init__(self, reading: Reading, tool: str) -> None:
        self._reading, self._types = reading, reading.types.get(tool, {})
        self.values: dict[str, Any] = {}
        self.untyped: list[str] = []

    def add(self, name: str, text: str, at: int, *, is_json: bool) -> None:
        """Add one that is closed; `at` is where its value begins."""
        reading, ordinal = self._reading, len(self.values)
        if not name:
            raise reading.refused(Why.NAME_MISSING, Boundary.PARAMETER, at, parameter=ordinal)
        if len(name) > reading.limits.name_characters:
            raise reading.refused(
                Why.NAME_TOO_LONG, Boundary.PARAMETER, at, parameter=ordinal, length=len(name)
            )
        if name in self.values:
            raise reading.refused(
                Why.PARAMETER_REPEATED, Boundary.PARAMETER, at, parameter=ordinal, name=name
            )
        if self._too_long(text):
            length = len(text)
            raise reading.refused(
                Why.PARAMETER_TOO_LONG, Boundary.PARAMETER, at, parameter=ordinal, length=length, name=name
            )
        self.values[name] = self._decoded(name, text, at) if is_json else text

    def add_untyped(self, name: str, text: str, at: int) -> None:
        """Add one of a dialect without types: text, unless it was declared to be JSON."""
        declared = self._types.get(name)
        self.add(name, text, at, is_json=declared == _JSON)
        if declared is None:
            self.untyped.append(name)

    def _too_long(self, text: str) -> bool:
        most = self._reading.limits.parameter_bytes
        return len(text) > most or (4 * len(text) > most and len(text.encode()) > most)

    def _decoded(self, name: str, text: str, at: int) -> Any:
        reading = self._reading
        try:
            return value_of(text, reading.limits)
        except Refused as refused:
            refused.parameter, refused.name = len(self.values), name
            raise refused.within(Boundary.PARAMETER, call=len(reading.actions), offset=at) from None
