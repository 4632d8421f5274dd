"""Where in a text a plan may stand: marks at the beginning of a line, outside of code blocks, quotations and thoughts.

Nothing is parsed here. A mark in a code block or behind `>` is passed over; of any other it is said whether it begins a
line. Of one that does not, and of one that is indented as code, what follows is no plan.
"""

import re
from typing import Final

from msgspec import Struct

from custody_toolchain.intake import dsml, tokens
from custody_toolchain.intake.words import Dialect

# Marks that go together in one batch, by the names of the groups below: plain texts, which are looked up fast.
TOOL_CALL: Final = "tool_call"
FUNCTION: Final = "function"
MISTRAL: Final = "mistral"
LLAMA: Final = "llama"
KIMI: Final = "kimi"
DEEPSEEK: Final = "deepseek"
DSML: Final = "dsml"
_FENCE: Final = "fence"


class Opening(Struct, gc=False):
    """A mark, and whether a plan may begin with it."""

    family: str
    start: int
    end: int
    begins_a_line: bool = True


DIALECTS: Final = {
    TOOL_CALL: frozenset({Dialect.HERMES, Dialect.QWEN_XML}),
    FUNCTION: frozenset({Dialect.QWEN_XML}),
    MISTRAL: frozenset({Dialect.MISTRAL}),
    LLAMA: frozenset({Dialect.LLAMA}),
    KIMI: frozenset({Dialect.KIMI}),
    DEEPSEEK: frozenset({Dialect.DEEPSEEK}),
    DSML: frozenset({Dialect.DSML}),
}
# Each begins with a character of its own or `<`, so that all others are passed over quickly.
_MARK: Final = re.compile(
    rf"(?P<fence>```+|~~~+)|(?P<tool_call><tool_call>)|(?P<function><function=)|(?P<mistral>\[TOOL_CALLS\])"
    rf"|(?P<llama><\|python_tag\|>)|(?P<kimi><\|tool_calls_section_begin\|>)|(?P<deepseek>{tokens.DEEPSEEK})"
    rf"|(?P<dsml>{dsml.BEGINS})"
)
_FENCE_LINE: Final = re.compile(r"^ {0,3}(```+|~~~+)[ \t]*$", re.MULTILINE)
_THINKS: Final = re.compile(r"\s*<think(?:ing)?>")
_THINKS_LATER: Final = re.compile(r"^ {0,3}<think(?:ing)?>", re.MULTILINE)
_THOUGHT: Final = re.compile(r"</think(?:ing)?>")
_QUOTES: Final = (">", " >", "  >", "   >")
_LONGEST_INDENT: Final = 3  # four spaces make a code block
_END: Final = re.compile(
    r"(?:\s|<\|(?:im_end|eot_id|eom_id|endoftext)\|>|</s>|<[\uff5c|]end[\u2581_]of[\u2581_]sentence[\uff5c|]>)*+\Z"
)


def first_place(text: str) -> int | None:
    """Return where what is no thought begins; None where all of it is one that was not closed."""
    if not _THINKS.match(text):
        return 0
    closed = _THOUGHT.search(text)
    return None if closed is None else closed.end()


def in_thought(text: str, begin: int, at: int) -> bool:
    """Tell whether a thought that began with a line behind `begin` is still open at a place."""
    opened = None
    for opened in _THINKS_LATER.finditer(text, begin, at):  # noqa: B007 - the last one
        pass
    return opened is not None and _THOUGHT.search(text, opened.end(), at) is None


def next_opening(text: str, at: int) -> Opening | None:
    """Return the next mark that is neither in a code block nor in a quotation. `at` is outside of both."""
    line = looked = at
    while (found := _MARK.search(text, at)) is not None:
        # From one mark to the next, so that a long line with many of them is looked through once.
        line = max(line, text.rfind("\n", looked, found.start()) + 1)
        looked = found.start()
        begins = begins_a_line(text, found.start())
        if found.lastgroup == _FENCE:
            at = fence_end(text, found) if begins else found.end()
        elif not begins and text.startswith(_QUOTES, line):
            at = found.end()
        else:
            return Opening(found.lastgroup or "", found.start(), found.end(), begins)
    return None


def opening_at(text: str, at: int) -> Opening | None:
    """Return the mark that stands exactly there, as a further block of a batch does."""
    found = _MARK.match(text, at)
    if found is None or found.lastgroup == _FENCE:
        return None
    return Opening(found.lastgroup or "", found.start(), found.end())


def ends_at(text: str, at: int) -> bool:
    """Tell whether nothing but space and marks of a turn's end stand behind a place."""
    return _END.match(text, at) is not None


def only_fence(text: str) -> tuple[int, int] | None:
    """Return where the inside of a fence of JSON begins and ends, if the fence is the whole text."""
    begin = len(text) - len(text.lstrip())
    line_end = text.find("\n", begin)
    if line_end < 0 or text[begin:line_end].rstrip() != "```json":
        return None
    end = _FENCE_LINE.search(text, line_end)
    if end is None or end.group(1) != "```" or text[end.end() :].strip():
        return None
    return line_end + 1, end.start()


def begins_a_line(text: str, at: int) -> bool:
    """Tell whether only up to three spaces stand before a place in its line, or a thought's end."""
    begin = at
    while begin > 0 and text[begin - 1] == " ":
        begin -= 1
        if at - begin > _LONGEST_INDENT:
            return False
    return begin == 0 or text[begin - 1] == "\n" or text.endswith(("</think>", "</thinking>"), 0, begin)


def fence_end(text: str, opening: re.Match[str]) -> int:
    """Return where a code block ends: at a line of its own mark, at least as long; else with the text."""
    mark, line_end = opening.group(), text.find("\n", opening.end())
    if line_end < 0:
        return len(text)
    if mark[0] == "`" and "`" in text[opening.end() : line_end]:
        return opening.end()  # a span in its line, no block
    for found in _FENCE_LINE.finditer(text, line_end):
        if found.group(1)[0] == mark[0] and len(found.group(1)) >= len(mark):
            return found.end()
    return len(text)
