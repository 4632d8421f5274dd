"""Calls and thoughts that a model spelled out in its text, because nobody between it and us understood its own dialect.

They are found and named by their offsets, never moved: the text stays what the model said. Where a call can be
read out of one, it is listed beside it, with origin `markup`.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from custody_client.streams.exact import exact


class Found(NamedTuple):
    """A stretch of text in a dialect, and the calls in it: name, arguments."""

    dialect: str
    start: int
    end: int
    complete: bool
    calls: list[tuple[str, str]]


Calls = list[tuple[str, str]]

_BAR: Final = r"[\uff5c|\u2016]{1,2}\s?"
_MARK: Final = rf"{_BAR}DSML\s?{_BAR}"
_DSML_OPENING: Final = re.compile(rf"<{_MARK}(function_calls|tool_calls|calls|invoke)\b[^<>]*>")
_DSML_INVOKE: Final = re.compile(rf'<{_MARK}invoke\s+name="([^"<>]*)"[^<>]*>')
_DSML_INVOKED: Final = re.compile(rf"</{_MARK}invoke>")
_DSML_PARAMETER: Final = re.compile(
    rf'<{_MARK}parameter\s+name="([^"<>]*)"(?:\s+string="(true|false)")?[^<>]*>'
)
_DSML_PARAMETER_END: Final = re.compile(rf"</{_MARK}parameter>")
_XML_FUNCTION: Final = re.compile(r"<function=([^<>\s]+)>")
_XML_FUNCTION_END: Final = re.compile(r"</function>|\Z")
_XML_PARAMETER: Final = re.compile(r"<parameter=([^<>\s]+)>")
_XML_PARAMETER_END: Final = re.compile(r"</parameter>")
_DEEPSEEK_CALL: Final = re.compile(r"<[\uff5c|]tool[\u2581_]call[\u2581_]begin[\uff5c|]>")
_DEEPSEEK_NAMED: Final = re.compile(r"<[\uff5c|]tool[\u2581_]sep[\uff5c|]>")
_DEEPSEEK_END: Final = re.compile(r"<[\uff5c|]tool[\u2581_]call[\u2581_]end[\uff5c|]>")
_KIMI_CALL: Final = re.compile(r"<\|tool_call_begin\|>")
_KIMI_END: Final = re.compile(r"<\|tool_call_end\|>")
_MISTRAL_NAME: Final = re.compile(r"\s*([\w.-]{1,128})(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\])?\s*(?=\{)")
_LLAMA_END: Final = re.compile(r"<\|eo[mt]_id\|>")
_FENCE: Final = re.compile(r"```json[ \t]*\n")
_FENCE_END: Final = re.compile(r"\n[ \t]*```")
_ANY: Final = re.compile(r"<[|\uff5c\u2016tf/]|\[TOOL_CALLS\]|```json")


def _digits(_: str) -> int:
    """Stand for a number of any length: what is wanted of JSON here is names, texts and where it ends."""
    return 0


_json: Final = json.JSONDecoder(parse_int=_digits, parse_float=_digits)


def found_in(text: str, limit: int) -> list[Found]:
    """Return what is spelled out in a text, by where it begins; not more than `limit`."""
    if not _ANY.search(text):
        return []
    found: list[Found] = []
    for finder in _FINDERS:
        for one in finder(text):
            if not any(other.start <= one.start < other.end for other in found):
                found.append(one)
            if len(found) >= limit:
                break
    return sorted(found, key=lambda one: one.start)[:limit]


def _enclosed(
    text: str, begins: re.Pattern[str], ends: re.Pattern[str]
) -> Iterator[tuple[re.Match[str], str, int]]:
    """Give each opening mark, what stands up to its closing one, and where that ends; what stays open is left out.

    In one pass: a pattern that looked for both would begin again at each mark that is never closed.
    """
    at = 0
    while (begin := begins.search(text, at)) is not None:
        end = ends.search(text, begin.end())
        if end is None:
            return
        at = end.end()
        yield begin, text[begin.end() : end.start()], at


def _between(
    dialect: str, opening: str, closing: str, read: Callable[[str], Calls]
) -> Callable[[str], Iterator[Found]]:
    """Make a finder of what stands between two marks; without the second, of all that follows the first."""
    begins, ends = re.compile(opening), re.compile(closing)

    def finder(text: str) -> Iterator[Found]:
        at = 0
        while (begin := begins.search(text, at)) is not None:
            end = ends.search(text, begin.end())
            at = len(text) if end is None else end.end()
            inner = text[begin.end() : at if end is None else end.start()]
            yield Found(dialect, begin.start(), at, end is not None, read(inner))

    return finder


def _dsml(text: str) -> Iterator[Found]:
    """Find DSML: a block of invocations, invocations without their block, or an opening mark alone."""
    at = 0
    while (begin := _DSML_OPENING.search(text, at)) is not None:
        closing = rf"</{_MARK}{begin.group(1)}>"
        end = re.compile(closing).search(text, begin.end())
        if end is None and _DSML_INVOKE.search(text, begin.end()) is None and begin.group(1) != "invoke":
            at = begin.end()  # a stray mark: what follows is text again
        else:
            at = len(text) if end is None else end.end()
        yield Found("dsml", begin.start(), at, end is not None, _dsml_calls(text[begin.start() : at]))


def _dsml_calls(inner: str) -> Calls:
    found = _enclosed(inner, _DSML_INVOKE, _DSML_INVOKED)
    return [(begin.group(1), _object(_dsml_parameters(body))) for begin, body, _ in found]


def _dsml_parameters(body: str) -> Iterator[tuple[str, str]]:
    """Give names, and values as JSON: a text as a string, anything else as it stands."""
    for begin, value, _ in _enclosed(body, _DSML_PARAMETER, _DSML_PARAMETER_END):
        name, is_text = begin.groups()
        yield name, value if is_text == "false" else json.dumps(value, ensure_ascii=False)


def _object(pairs: Iterator[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{value}" for name, value in pairs) + "}"


def _xml_calls(inner: str) -> Calls:
    found = _enclosed(inner, _XML_FUNCTION, _XML_FUNCTION_END)
    return [(begin.group(1), _object(_xml_parameters(body))) for begin, body, _ in found]


def _xml_parameters(body: str) -> Iterator[tuple[str, str]]:
    """Give names, and values as JSON: as they stand if that is JSON, else as strings."""
    for begin, value, _ in _enclosed(body, _XML_PARAMETER, _XML_PARAMETER_END):
        bare = value.removeprefix("\n").removesuffix("\n")
        yield begin.group(1), bare if _json_end(bare) == len(bare) else json.dumps(bare, ensure_ascii=False)


def _tagged_calls(inner: str) -> Calls:
    """Read what stands in `<tool_call>`: JSON, or Qwen's XML."""
    return _xml_calls(inner) if "<function=" in inner else _json_calls(inner)


def _json_calls(inner: str) -> Calls:
    """Read one call, a list of them, or several with separators between."""
    calls: Calls = []
    at = 0
    while (begin := inner.find("{", at)) >= 0:
        end = _json_end(inner, begin)
        if end is None:
            break
        call = _json_call(inner[begin:end])
        calls += [] if call is None else [call]
        at = end
    return calls


def _json_call(text: str) -> tuple[str, str] | None:
    value = json.loads(text, parse_int=_digits, parse_float=_digits)
    function = value.get("function") if isinstance(value.get("function"), dict) else None
    path: tuple[str, ...] = () if function is None else ("function",)
    inside = value if function is None else function
    key = next((key for key in ("arguments", "parameters", "args") if key in inside), None)
    name = inside.get("name")
    if key is None or not isinstance(name, str):
        return None
    if isinstance(inside[key], str):
        return name, inside[key]
    return name, exact(text.encode("utf-8", "replace"), (*path, key), inside[key]).decode()


def _json_end(text: str, begin: int = 0) -> int | None:
    """Return where the JSON value that begins there ends."""
    try:
        return _json.raw_decode(text, begin)[1]
    except (ValueError, RecursionError):
        return None


def _mistral(text: str) -> Iterator[Found]:
    """Find Mistral's mark, after which stands a list of calls, or a name and its arguments."""
    at = 0
    while (begin := text.find("[TOOL_CALLS]", at)) >= 0:
        inner = begin + len("[TOOL_CALLS]")
        named = _MISTRAL_NAME.match(text, inner)
        value = named.end() if named else inner + len(text[inner:]) - len(text[inner:].lstrip())
        end = _json_end(text, value)
        at = len(text) if end is None else end
        calls: Calls = []
        if end is not None:
            calls = [(named.group(1), text[value:end])] if named else _json_calls(text[value:end])
        yield Found("mistral", begin, at, end is not None, calls)


def _llama(text: str) -> Iterator[Found]:
    """Find Llama's mark: what follows it, up to the end of its turn or of the text, is for a tool."""
    begin = text.find("<|python_tag|>")
    if begin < 0:
        return
    inner = begin + len("<|python_tag|>")
    end = _LLAMA_END.search(text, inner)
    calls = _json_calls(text[inner : len(text) if end is None else end.start()])
    yield Found(
        "llama", begin, len(text) if end is None else end.end(), end is not None or bool(calls), calls
    )


def _deepseek_calls(inner: str) -> Calls:
    """Read DeepSeek's older marks: type, name and fenced JSON; later ones name and JSON."""
    calls: Calls = []
    for _, body, _ in _enclosed(inner, _DEEPSEEK_CALL, _DEEPSEEK_END):
        before, after = [*_DEEPSEEK_NAMED.split(body, maxsplit=1), ""][:2]
        begin = after.find("{")
        end = None if begin < 0 else _json_end(after, begin)
        name = after[:begin].split("\n")[0].strip() if before.strip() == "function" else before.strip()
        if end is not None and name:
            calls.append((name, after[begin:end]))
    return calls


def _kimi_calls(inner: str) -> Calls:
    """Read Kimi's marks; a name is written `functions.name:number`."""
    calls: Calls = []
    for _, body, _ in _enclosed(inner, _KIMI_CALL, _KIMI_END):
        name, mark, arguments = body.partition("<|tool_call_argument_begin|>")
        if mark:
            calls.append((name.strip().removeprefix("functions.").partition(":")[0], arguments.strip()))
    return calls


def _fenced(text: str) -> Iterator[Found]:
    """Find fenced JSON that is a call; other JSON is nothing special."""
    for begin, body, end in _enclosed(text, _FENCE, _FENCE_END):
        calls = _json_calls(body) if body.lstrip()[:1] in {"{", "["} else []
        if calls:
            yield Found("json-block", begin.start(), end, True, calls)  # noqa: FBT003 -- a field, not a switch


def _none(_: str) -> Calls:
    return []


_FINDERS: Final = (
    _dsml,
    _between(
        "deepseek",
        r"<[\uff5c|]tool[\u2581_]calls[\u2581_]begin[\uff5c|]>",
        r"<[\uff5c|]tool[\u2581_]calls[\u2581_]end[\uff5c|]>",
        _deepseek_calls,
    ),
    _between("kimi", r"<\|tool_calls_section_begin\|>", r"<\|tool_calls_section_end\|>", _kimi_calls),
    _between("hermes", r"<tool_call>", r"</tool_call>", _tagged_calls),
    _between(
        "qwen-xml", r"<function(?=[=\s>]|$)", r"</function>", lambda inner: _xml_calls("<function" + inner)
    ),
    _mistral,
    _llama,
    _fenced,
    _between("think", r"<think(?:ing)?>", r"</think(?:ing)?>", _none),
)
