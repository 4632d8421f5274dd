"""Calls that a model spelled out in a text: the whole batch, or nothing.

Three layers: `boundaries` finds where a batch may stand, a state machine for each dialect reads its calls, names and
parameters, and a JSON decoder reads objects. A batch is the last thing in its text.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import structs

from custody_toolchain.intake import boundaries, dsml, tags, tokens
from custody_toolchain.intake.boundaries import (
    DIALECTS,
    Opening,
    ends_at,
    first_place,
    in_thought,
    next_opening,
    only_fence,
    opening_at,
)
from custody_toolchain.intake.bounds import Limits
from custody_toolchain.intake.enclosing import in_element, in_item
from custody_toolchain.intake.exact_json import space_end
from custody_toolchain.intake.plans import actions_of
from custody_toolchain.intake.reading import Reading, Types
from custody_toolchain.intake.results import Action, Refused
from custody_toolchain.intake.words import Boundary, Dialect, Source, Truncated, Why

ELSEWHERE: Final = "markup-elsewhere"
NOT_PERMITTED: Final = "markup-not-permitted"
_MOST_FAILED: Final = 16  # each may have been looked for to the end of the text


_TAGS: Final = frozenset({boundaries.TOOL_CALL, boundaries.FUNCTION})
_BLOCKS: Final[dict[str, Callable[[Reading, int], int]]] = {
    boundaries.TOOL_CALL: tags.tool_call,
    boundaries.FUNCTION: tags.function,
    boundaries.MISTRAL: tokens.mistral,
    boundaries.LLAMA: tokens.llama,
    boundaries.KIMI: tokens.kimi,
    boundaries.DEEPSEEK: tokens.deepseek,
    boundaries.DSML: dsml.batch,
}


class Found(NamedTuple):
    """What a text holds: a batch or nothing, and remarks."""

    actions: tuple[Action, ...]
    notes: tuple[str, ...]


def batch_in(
    text: str, dialects: frozenset[Dialect], limits: Limits, types: Types, *, complete: bool, alone: bool
) -> Found:
    """Return the batch that a checked text ends with; Refused where one begins that is not whole."""
    fenced = only_fence(text) if Dialect.JSON_BLOCK in dialects else None
    if fenced is not None:
        return _fenced(text, fenced, limits, complete=complete)
    return _Search(text, dialects, limits, types, complete=complete, alone=alone).found()


class _Search:
    """Looks for the batch. Whole batches at other places are examples: beside one, nobody knows what is meant."""

    def __init__(
        self,
        text: str,
        dialects: frozenset[Dialect],
        limits: Limits,
        types: Types,
        *,
        complete: bool,
        alone: bool,
    ) -> None:
        self._text, self._dialects, self._limits, self._types = text, dialects, limits, types
        self._complete, self._alone = complete, alone
        self._families = _families(dialects)
        self._notes: dict[str, None] = {}
        self._failed = 0

    def found(self) -> Found:
        begin = first_place(self._text)
        if begin is None:
            return Found((), ())
        at: int | None = begin
        while at is not None:
            opening = self._next(at)
            if opening is None:
                break
            if opening.begins_a_line:
                reading, end = self._batch(opening, begin)
            else:
                reading, end = None, self._example(opening)
            if reading is not None:
                return Found(tuple(reading.actions), tuple(self._notes))
            at = end
        return Found((), tuple(self._notes))

    def _batch(self, opening: Opening, begin: int) -> tuple[Reading | None, int | None]:
        """Return the batch that begins there if it is a plan, else where to go on."""
        if self._alone and self._text[begin : opening.start].strip():
            self._notes[ELSEWHERE] = None
            return None, None
        if ELSEWHERE in self._notes or in_thought(self._text, begin, opening.start):
            raise Refused(Why.AMBIGUOUS, Boundary.TEXT, at=opening.start)
        if not self._complete:
            raise Refused(Why.CUT, Boundary.TEXT, at=len(self._text))
        reading = self._reading()
        end = _run(reading, opening, self._families)
        if ends_at(self._text, end):
            if any(inside(self._text, begin, opening.start) for inside in (in_element, in_item)):
                raise Refused(Why.AMBIGUOUS, Boundary.TEXT, at=opening.start)
            return reading, end
        self._notes[ELSEWHERE] = None
        return None, end

    def _example(self, opening: Opening) -> int | None:
        """Return where to go on behind a mark in the middle of a line: behind its batch, if there is a whole one."""
        end: int | None
        try:
            end = _run(self._reading(is_example=True), opening, self._families)
        except Refused:
            # The mark alone, as one speaks of it. Of very many of them no one looks for what they begin.
            self._failed += 1
            if self._failed < _MOST_FAILED:
                return opening.end
            end = None
        self._notes[ELSEWHERE] = None
        return end

    def _next(self, at: int) -> Opening | None:
        while (opening := next_opening(self._text, at)) is not None:
            if opening.family in self._families:
                return opening
            self._notes[NOT_PERMITTED] = None
            at = opening.end
        return None

    def _reading(self, *, is_example: bool = False) -> Reading:
        return Reading(self._text, self._dialects, self._limits, self._types, is_example=is_example)


def _families(dialects: frozenset[Dialect]) -> frozenset[str]:
    return frozenset(family for family, spoken in DIALECTS.items() if spoken & dialects)


def _run(reading: Reading, opening: Opening, families: frozenset[str]) -> int:
    """Read a block and those that follow it at once; return where the last one ends."""
    first, text = opening.family, reading.text
    while True:
        end = _BLOCKS[opening.family](reading, opening.start)
        after = opening_at(text, space_end(text, end))
        if after is None or after.family not in families:
            return end
        if not _goes_on(first, after.family):
            raise reading.refused(Why.AMBIGUOUS, Boundary.BLOCK, after.start)
        opening = after


def _goes_on(first: str, after: str) -> bool:
    if first in _TAGS:
        return after in _TAGS
    return after == first == boundaries.MISTRAL


def _fenced(text: str, inside: tuple[int, int], limits: Limits, *, complete: bool) -> Found:
    """Read the plan in a fence that is all of a text."""
    if not complete:
        raise Refused(Why.CUT, Boundary.TEXT, at=len(text))
    begin, end = inside
    try:
        plan = actions_of(text[begin:end], limits, Truncated.REFUSE)
    except Refused as refused:
        raise refused.within(Boundary.PLAN, offset=begin) from None
    return Found(tuple(_moved(action, begin) for action in plan.actions), ())


def _moved(action: Action, by: int) -> Action:
    begin, end = action.span or (0, 0)
    return structs.replace(
        action, source=Source.MARKUP, dialect=Dialect.JSON_BLOCK, span=(begin + by, end + by)
    )
