"""JSON documents and texts that somebody sends: said once, and read by everybody in the same way.

A name that is there twice has two readers and two meanings: such a document is refused whole.
"""

import json
from typing import Final

from store.errors import Malformed

MOST_CHARACTERS: Final = 256


def check(body: bytes) -> None:
    """Refuse a document that is not UTF-8, not JSON, too deep, or names something twice."""
    _ = read(body)


def read(body: bytes) -> object:
    """Return what `check` lets pass."""
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        # Our own Malformed is no ValueError, so that it passes with its detail.
        raise Malformed(detail="the body is not a JSON document") from None


def printable(text: str, what: str) -> str:
    """Return a label's or subject's text; what cannot be printed (NUL, half a pair) cannot be stored either."""
    if not 0 < len(text) <= MOST_CHARACTERS or not text.isprintable():
        raise Malformed(detail=f"{what} is 1 to {MOST_CHARACTERS} printable characters")
    return text


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed(detail="a name is there twice in the body")
    return found


def _no_constant(_: str) -> object:
    raise Malformed(detail="the body holds a number that JSON does not know")
