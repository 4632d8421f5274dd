"""Characters that a screen would not show, or would let change what stands around them, made visible.

What is shown stays text: the result is escaped, and only our own marks are elements.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

# Line breaks and tabs are what they look like; every other control, format, surrogate or unassigned character is named.
_PLAIN: Final = frozenset("\n\t")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Spaces that are not the space: no-break, em, ideographic and others.
_SPACE: Final = "Zs"
# Letters without a glyph, and the blank of Braille, which no category tells from those that have one.
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5")
# Selectors of a glyph have none themselves: behind any character, a row of them can spell a text.
_SELECTORS: Final = frozenset(
    map(chr, (*range(0x180B, 0x180E), 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
# One of these behind a symbol is how an emoji is written.
_STYLES: Final = frozenset("\ufe0e\ufe0f")
_SYMBOL: Final = "So"


def visible(text: str) -> Markup:
    """Return the text for a page, each unseen character as a mark with its code point; a screen reader hears it too."""
    return Markup("").join(_pieces(text))


def hides(character: str, before: str = "") -> bool:
    """Say whether a character would not be seen as what it is; `before` is the one that it follows, if any."""
    if character == " " or character in _PLAIN:
        return False
    if character in _STYLES and before and unicodedata.category(before) == _SYMBOL:
        return False
    kind = unicodedata.category(character)
    return kind in _UNSEEN or kind == _SPACE or character in _BLANKS or character in _SELECTORS


def _pieces(text: str) -> Iterator[Markup]:
    start = 0
    for at, character in enumerate(text):
        if (character < "\x7f" and character >= " ") or not hides(character, text[at - 1 : at]):
            continue
        yield Markup.escape(text[start:at])
        yield _mark(character)
        start = at + 1
    yield Markup.escape(text[start:])


def _mark(character: str) -> Markup:
    point = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "control")
    return Markup('<span class="unseen" title="{} {}">{}</span>').format(point, name.lower(), point)
