"""Content as text of a page: escaped, each unseen character a mark, and all of it within bounds."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from console.showing.bounds import MOST_CHARACTERS, MOST_MARKS, NotLaidOut
from console.showing.visible import hides

# Runs of one character that may be unseen: the rest needs no look.
_PERHAPS: Final = re.compile(r"([^\x20-\x7e\n\t])\1*+")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows of a text; `left` characters at its end did not fit."""

    html: Markup
    left: int = 0


class Marker:
    """Writes the texts of one part; all of them share what may be marked."""

    def __init__(self, most: int = MOST_MARKS) -> None:
        self._left = most

    def text(self, text: str) -> Markup:
        """Return the whole text; NotLaidOut where it holds more unseen characters than are marked."""
        shown = self.as_far(text)
        if shown.left:
            raise NotLaidOut("It holds very many characters that cannot be seen.")
        return shown.html

    def as_far(self, text: str, most: int = MOST_CHARACTERS) -> Shown:
        """Return the text as far as the bounds allow, and how much is left."""
        pieces: list[str] = []
        start, end = 0, min(len(text), most)
        for found in _PERHAPS.finditer(text, 0, end):
            alone = len(found[0]) == 1
            if not hides(found[1], text[found.start() - 1 : found.start()] if alone else ""):
                continue
            if self._left == 0:
                end = found.start()
                break
            self._left -= 1
            pieces += (str(escape(text[start : found.start()])), _mark(found[1], len(found[0])))
            start = found.end()
        pieces.append(str(escape(text[start:end])))
        # Each piece is escaped, or a mark of our own.
        return Shown(Markup("".join(pieces)), len(text) - end)  # noqa: S704


def _mark(character: str, times: int) -> str:
    point = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "control character").lower()
    said = point if times == 1 else f"{point} \u00d7{times}"
    return f'<span class="unseen" title="{point} {name}">{said}</span>'
