"""`<tool_call>`: JSON as Hermes and Qwen write it, or the XML of Qwen3-Coder, whose functions also come bare."""

import re
from typing import Final

from custody_toolchain.intake.call_objects import Stated
from custody_toolchain.intake.exact_json import space_end
from custody_toolchain.intake.reading import Parameters, Reading
from custody_toolchain.intake.words import Boundary, Dialect, Why

OPENS: Final = "<tool_call>"
FUNCTION: Final = "<function="
_CLOSES: Final = "</tool_call>"
_FUNCTION: Final = re.compile(r"<function=([^<>\s]*)>")
_FUNCTION_CLOSES: Final = "</function>"
_PARAMETER: Final = re.compile(r"<parameter=([^<>\s]*)>")
_PARAMETER_CLOSES: Final = "</parameter>"
_MARK: Final = re.compile(r"</?tool_call>|<(?:function|parameter)=|</(?:function|parameter)>")


def tool_call(reading: Reading, at: int) -> int:
    """Read the one call of the tag that begins at `at`, and return where it ends."""
    text, inner = reading.text, space_end(reading.text, at + len(OPENS))
    if text.startswith("{", inner):
        if not reading.hermes:
            raise reading.refused(Why.NOT_PERMITTED, Boundary.BLOCK, inner)
        stop = reading.closing(_CLOSES, inner, Boundary.BLOCK)
        value, end = reading.json_to(inner, stop)
        end = reading.expect(_CLOSES, end, Boundary.BLOCK)
        reading.add_object(Dialect.HERMES, value, at, end)
        return end
    if text.startswith(FUNCTION, inner):
        if not reading.qwen_xml:
            raise reading.refused(Why.NOT_PERMITTED, Boundary.BLOCK, inner)
        parameters = _function(reading, inner)
        end = reading.expect(_CLOSES, parameters.end, Boundary.BLOCK)
        parameters.added(reading, at, end)
        return end
    if text.startswith(OPENS, inner):
        raise reading.refused(Why.UNKNOWN_NESTING, Boundary.BLOCK, inner)
    if text.startswith(_CLOSES, inner):
        raise reading.refused(Why.EMPTY, Boundary.BLOCK, inner)
    if inner >= len(text) or FUNCTION.startswith(text[inner : inner + len(FUNCTION)]):
        raise reading.refused(Why.UNCLOSED, Boundary.BLOCK, at)
    raise reading.refused(Why.UNEXPECTED_TEXT, Boundary.BLOCK, inner)


def function(reading: Reading, at: int) -> int:
    """Read the bare `<function=…>` that begins at `at`, and return where it ends."""
    parameters = _function(reading, at)
    parameters.added(reading, at, parameters.end)
    return parameters.end


class _Function(Parameters):
    """One function and its parameters; `end` is where it is closed."""

    def __init__(self, reading: Reading, tool: str) -> None:
        super().__init__(reading, tool)
        self.tool, self.end = tool, 0

    def added(self, reading: Reading, begin: int, end: int) -> None:
        call = Stated(self.tool, self.values, None, {})
        reading.add(Dialect.QWEN_XML, call, begin, end, tuple(self.untyped))


def _function(reading: Reading, at: int) -> _Function:
    text, opening = reading.text, _FUNCTION.match(reading.text, at)
    if opening is None:
        is_open = text.find(">", at) < 0
        raise reading.refused(Why.UNCLOSED if is_open else Why.UNKNOWN_MARK, Boundary.CALL, at)
    parameters = _Function(reading, reading.name(opening.group(1), at))
    at = space_end(text, opening.end())
    while not text.startswith(_FUNCTION_CLOSES, at):
        at = space_end(text, _parameter(reading, parameters, at))
    parameters.end = at + len(_FUNCTION_CLOSES)
    return parameters


def _parameter(reading: Reading, parameters: Parameters, at: int) -> int:
    text, ordinal = reading.text, len(parameters.values)
    opening = _PARAMETER.match(text, at)
    if opening is None:
        raise reading.refused(_why_none(text, at), Boundary.CALL, at, parameter=ordinal)
    closing = _MARK.search(text, opening.end())
    if closing is None:
        raise reading.refused(Why.UNCLOSED, Boundary.PARAMETER, at, parameter=ordinal)
    if closing.group() != _PARAMETER_CLOSES:
        raise reading.refused(Why.UNKNOWN_NESTING, Boundary.PARAMETER, closing.start(), parameter=ordinal)
    begin, end = opening.end(), closing.start()
    # The template of these models puts one line break on each side.
    begin += text.startswith("\n", begin, end)
    end -= text.endswith("\n", begin, end)
    parameters.add_untyped(opening.group(1), text[begin:end], begin)
    return closing.end()


def _why_none(text: str, at: int) -> Why:
    """Say why there is no parameter where one or the function's end should be."""
    if _MARK.match(text, at):
        return Why.UNKNOWN_NESTING if text.find(">", at) >= 0 else Why.UNCLOSED
    rest = text[at : at + len(_PARAMETER_CLOSES)]
    begun = (_FUNCTION_CLOSES.startswith(rest), "<parameter=".startswith(rest))
    return Why.UNCLOSED if any(begun) else Why.UNEXPECTED_TEXT
