"""Dialects whose marks are special tokens of a model: Mistral, Llama, Kimi, and the older ones of DeepSeek."""

import re
from typing import Final

from custody_toolchain.intake.call_objects import Stated, bounded, object_in
from custody_toolchain.intake.exact_json import space_end
from custody_toolchain.intake.reading import Reading
from custody_toolchain.intake.results import Refused
from custody_toolchain.intake.words import Boundary, Dialect, Why

MISTRAL: Final = "[TOOL_CALLS]"
LLAMA: Final = "<|python_tag|>"
KIMI: Final = "<|tool_calls_section_begin|>"
DEEPSEEK: Final = r"<[\uff5c|]tool[\u2581_]calls[\u2581_]begin[\uff5c|]>"

_MISTRAL_NAME: Final = re.compile(r"([\w.-]+)(?:\[CALL_ID\]([\w-]+))?(?:\[ARGS\])?")
_LLAMA_ENDS: Final = ("<|eom_id|>", "<|eot_id|>")
_KIMI_CALL: Final = "<|tool_call_begin|>"
_KIMI_ARGUMENTS: Final = "<|tool_call_argument_begin|>"
_KIMI_CALL_ENDS: Final = "<|tool_call_end|>"
_KIMI_ENDS: Final = "<|tool_calls_section_end|>"
_KIMI_ID: Final = re.compile(r"(?:functions\.)?([^\s:<>|]+)(?::\d+)?")
_DEEPSEEK: Final = re.compile(DEEPSEEK)
_NAME: Final = re.compile(r"[^\s<>|\uff5c`]+")
_FENCE: Final = "```"


def mistral(reading: Reading, at: int) -> int:
    """Read what follows Mistral's mark: a list of calls, or one name with its arguments."""
    text, inner = reading.text, space_end(reading.text, at + len(MISTRAL))
    if text.startswith("[", inner):
        return _mistral_list(reading, inner)
    named = _MISTRAL_NAME.match(text, inner)
    if named is None:
        why = Why.UNCLOSED if inner >= len(text) else Why.UNEXPECTED_TEXT
        raise reading.refused(why, Boundary.BLOCK, inner)
    begin = space_end(text, named.end())
    arguments, end = _object(reading, begin)
    name, call_id = reading.name(named.group(1), inner), named.group(2)
    reading.add(Dialect.MISTRAL, Stated(name, arguments, call_id, {}), at, end)
    return end


def _mistral_list(reading: Reading, at: int) -> int:
    """Read the list element by element, so that each has its place."""
    text, before, begin = reading.text, len(reading.actions), space_end(reading.text, at + 1)
    while True:
        if not text.startswith("{", begin):
            why = Why.UNCLOSED if begin >= len(text) else Why.NOT_AN_OBJECT
            if text.startswith("]", begin) and len(reading.actions) == before:
                why = Why.EMPTY
            raise reading.refused(why, Boundary.BLOCK, begin)
        value, end = reading.json_from(begin)
        reading.add_object(Dialect.MISTRAL, value, begin, end)
        end = space_end(text, end)
        if text.startswith("]", end):
            return end + 1
        begin = space_end(text, reading.expect(",", end, Boundary.BLOCK))


def llama(reading: Reading, at: int) -> int:
    """Read what follows Llama's mark: objects with semicolons between them, to the end of the turn."""
    text, begin = reading.text, space_end(reading.text, at + len(LLAMA))
    while True:
        if not text.startswith("{", begin):
            # Code for an interpreter, say: what it would do cannot be read off it.
            why = Why.UNCLOSED if begin >= len(text) else Why.AMBIGUOUS
            raise reading.refused(why, Boundary.BLOCK, begin)
        value, end = reading.json_from(begin)
        reading.add_object(Dialect.LLAMA, value, begin, end)
        after = space_end(text, end)
        if not text.startswith(";", after):
            mark = next((mark for mark in _LLAMA_ENDS if text.startswith(mark, after)), None)
            return end if mark is None else after + len(mark)
        begin = space_end(text, after + 1)


def kimi(reading: Reading, at: int) -> int:
    """Read Kimi's section. What names a call there, `functions.search:0`, is also its id."""
    text, at, before = reading.text, space_end(reading.text, at + len(KIMI)), len(reading.actions)
    while not text.startswith(_KIMI_ENDS, at):
        if len(reading.actions) == before and text.startswith(KIMI, at):
            raise reading.refused(Why.UNKNOWN_NESTING, Boundary.BLOCK, at)
        begin = reading.expect(_KIMI_CALL, at, Boundary.BLOCK)
        stop = reading.closing(_KIMI_ARGUMENTS, begin, Boundary.CALL)
        given = text[begin:stop].strip()
        found = _KIMI_ID.fullmatch(given)
        if found is None:
            raise reading.refused(Why.UNKNOWN_MARK if given else Why.NAME_MISSING, Boundary.CALL, begin)
        name = reading.name(found.group(1), begin)
        value, end = _closed_object(reading, stop + len(_KIMI_ARGUMENTS), _KIMI_CALL_ENDS)
        reading.add(Dialect.KIMI, Stated(name, value, given, {}), at, end)
        at = space_end(text, end)
    if len(reading.actions) == before:
        raise reading.refused(Why.EMPTY, Boundary.BLOCK, at)
    return at + len(_KIMI_ENDS)


def deepseek(reading: Reading, at: int) -> int:
    """Read DeepSeek's older marks: a type, a name and fenced JSON, or a name and JSON."""
    text, opening = reading.text, _DEEPSEEK.match(reading.text, at)
    if opening is None:
        raise reading.refused(Why.UNKNOWN_MARK, Boundary.BLOCK, at)
    marks, before = _Marks(opening.group()), len(reading.actions)
    at = space_end(text, opening.end())
    while not text.startswith(marks.ends, at):
        begin = reading.expect(marks.call, at, Boundary.BLOCK)
        stop = reading.closing(marks.separates, begin, Boundary.CALL)
        if text[begin:stop].strip() == "function":
            name, value, end = _fenced(reading, stop + len(marks.separates), marks)
        else:
            name = _name(reading, begin, stop)
            value, end = _closed_object(reading, stop + len(marks.separates), marks.call_ends)
        reading.add(Dialect.DEEPSEEK, Stated(name, value, None, {}), at, end)
        at = space_end(text, end)
    if len(reading.actions) == before:
        raise reading.refused(Why.EMPTY, Boundary.BLOCK, at)
    return at + len(marks.ends)


class _Marks:
    """The marks of one batch, all spelled as its first."""

    def __init__(self, opening: str) -> None:
        self.call = opening.replace("calls", "call")
        self.call_ends = self.call.replace("begin", "end")
        self.ends = opening.replace("begin", "end")
        bar, low = opening[1], opening[len("<|tool")]
        self.separates = f"<{bar}tool{low}sep{bar}>"


def _fenced(reading: Reading, at: int, marks: _Marks) -> tuple[str, dict[str, object], int]:
    """Read a name, and behind it its arguments in a fence."""
    text = reading.text
    stop = reading.closing(_FENCE, at, Boundary.CALL)
    name = _name(reading, at, stop)
    begin = stop + len(_FENCE)
    begin += len("json") if text.startswith("json", begin) else 0
    value, end = _closed_object(reading, begin, _FENCE)
    return name, value, reading.expect(marks.call_ends, end, Boundary.CALL)


def _name(reading: Reading, at: int, stop: int) -> str:
    """Return a name that stands alone between two marks."""
    given = reading.text[at:stop].strip()
    if given and _NAME.fullmatch(given) is None:
        raise reading.refused(Why.UNEXPECTED_TEXT, Boundary.CALL, at, length=len(given))
    return reading.name(given, at)


def _closed_object(reading: Reading, at: int, mark: str) -> tuple[dict[str, object], int]:
    """Return the arguments that stand before a closing mark, and where that ends."""
    begin = space_end(reading.text, at)
    stop = reading.closing(mark, begin, Boundary.ARGUMENTS)
    value, end = reading.json_to(begin, stop)
    _checked(reading, value, begin, end)
    return value, reading.expect(mark, end, Boundary.ARGUMENTS)


def _object(reading: Reading, begin: int) -> tuple[dict[str, object], int]:
    """Return the arguments that begin at a place and end where their object ends."""
    if not reading.text.startswith("{", begin):
        why = Why.UNCLOSED if begin >= len(reading.text) else Why.UNEXPECTED_TEXT
        raise reading.refused(why, Boundary.ARGUMENTS, begin)
    value, end = reading.json_from(begin)
    _checked(reading, value, begin, end)
    return value, end


def _checked(reading: Reading, value: object, begin: int, end: int) -> None:
    try:
        bounded(object_in(_no_text(value), reading.limits), end - begin, reading.limits)
    except Refused as refused:
        raise refused.within(Boundary.ARGUMENTS, call=len(reading.actions)) from None


def _no_text(value: object) -> object:
    """Arguments that stand in a text are no text in a text."""
    return None if isinstance(value, str) else value
