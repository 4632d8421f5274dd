"""Whether a place in a text stands in something that was opened before it: an element, a comment, an item of a list.

What stands there is shown, not meant. Of markup only so much is read as it takes to see what is still open.
"""

import re
from typing import Final

from custody_toolchain.intake.boundaries import begins_a_line, fence_end

_PIECE: Final = re.compile(
    r"(?P<fence>```+|~~~+)|(?P<comment>(?<!`)<!--)"
    r"|<(?P<closes>/?)(?P<name>[A-Za-z][\w.-]*+(?::[A-Za-z][\w.-]*+)?)(?=[\s/>])(?P<rest>[^<>]*+)(?:>|\Z)"
)
_COMMENT_CLOSES: Final = "-->"
# Elements without content, and what some models write at the beginning of a text.
_EMPTY: Final = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "s", "bos", "eos",
})  # fmt: skip
# These also count in the middle of a line, unless a mark of quotation stands at one of their sides.
_SHOWS: Final = frozenset({
    "attachment", "attachments", "blockquote", "code", "details", "document", "documents", "example", "examples", "pre",
    "quote", "script", "style", "textarea", "xmp",
})  # fmt: skip
_QUOTES: Final = ("`", '"', "'")
_ITEM: Final = re.compile(r"[ \t]*+(?:[-*+]|[0-9]{1,9}[.)])(?=\s)")


def in_element(text: str, begin: int, at: int) -> bool:
    """Tell whether an element or a comment that was opened behind `begin` is still open at a place.

    An element counts that begins a line, or that is made for showing. In a code block none does.
    """
    opened: list[str] = []
    many: dict[str, int] = {}
    while (found := _PIECE.search(text, begin, at)) is not None:
        begin = found.end()
        if found.lastgroup == "fence":
            if begins_a_line(text, found.start()):
                begin = fence_end(text, found)
        elif found.lastgroup == "comment":
            closed = text.find(_COMMENT_CLOSES, begin, at)
            begin = at + 1 if closed < 0 else closed + len(_COMMENT_CLOSES)
        else:
            _take(text, found, opened, many)
        if begin > at:
            return True
    return bool(opened)


def _take(text: str, tag: re.Match[str], opened: list[str], many: dict[str, int]) -> None:
    """Open an element, or close one together with those that were opened in it."""
    name = tag["name"].lower()
    if tag["closes"]:
        while many.get(name):
            last = opened.pop()
            many[last] -= 1
            if last == name:
                return
    elif (
        name not in _EMPTY and not tag["rest"].endswith("/") and (many.get(name) or _counts(text, tag, name))
    ):
        opened.append(name)
        many[name] = many.get(name, 0) + 1


def _counts(text: str, tag: re.Match[str], name: str) -> bool:
    if begins_a_line(text, tag.start()):
        return True
    before = tag.start() > 0 and text[tag.start() - 1] in _QUOTES
    return name in _SHOWS and not before and not text.startswith(_QUOTES, tag.end())


def in_item(text: str, begin: int, at: int) -> bool:
    """Tell whether the line of a place is indented, and goes on with an item of a list that began behind `begin`."""
    end = text.rfind("\n", begin, at)
    if end < 0 or not text[end + 1 : at].isspace():
        return False
    after_blank = False
    while end > begin:
        start = text.rfind("\n", begin, end) + 1 or begin
        if _ITEM.match(text, start, end + 1) is not None:
            return True
        line = text[start:end]
        is_blank = not line.strip()
        if after_blank and not is_blank and not line[0].isspace():
            return False  # a paragraph of its own ends the list
        after_blank = is_blank
        end = start - 1
    return False
