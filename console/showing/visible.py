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


def visible(text: str) -> Markup:
    """Return the text for a page, each unseen character as a mark with its code point; a screen reader hears it too."""
    return Markup("").join(_pieces(text))


def hides(character: str) -> bool:
    """Say whether a character would not be seen as what it is."""
    if character == " " or character in _PLAIN:
        return False
    kind = unicodedata.category(character)
    return kind in _UNSEEN or kind == _SPACE or character in _BLANKS


def _pieces(text: str) -> Iterator[Markup]:
    start = 0
    for at, character in enumerate(text):
        if (character < "\x7f" and character >= " ") or not hides(character):
            continue
        yield Markup.escape(text[start:at])
        yield _mark(character)
        start = at + 1
    yield Markup.escape(text[start:])


def _mark(character: str) -> Markup:
    point = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "control")
    return Markup('<span class="unseen" title="{} {}">{}</span>').format(point, name.lower(), point)
