"""JSON by its grammar, with the place of each value in the text: nothing is converted, so that nothing is rounded.

Numbers and strings stay where they stand. Keys may stand more than once. No recursion: the depth that is followed is
a bound of ours, not of the interpreter's stack.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from console.showing.bounds import MOST_DEPTH, MOST_VALUES, NotLaidOut

Kind = Literal["object", "array", "string", "number", "word"]
_Wanted = Literal["value", "value or close", "key", "key or close", "colon", "comma or close", "nothing"]

# Possessive throughout: what does not match fails at once, however long it is.
_TOKEN: Final = re.compile(
    r"[ \t\n\r]*+(?:"
    r'(?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
    r"|(?P<word>true|false|null)"
    r"|(?P<mark>[\[\]{},:]))"
)
_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_NOT_JSON: Final = "Not JSON."


@dataclass(slots=True, eq=False)
class Node:
    """One value: where it stands, and what is in it; of an object, `keys` are the keys of `items`, in order."""

    kind: Kind
    start: int
    end: int = 0
    keys: list["Node"] = field(default_factory=list)
    items: list["Node"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tree:
    """A text and its root; `repeated` holds the places of keys that stand more than once in their object."""

    text: str
    root: Node
    repeated: frozenset[int]

    def source(self, node: Node) -> str:
        """Return a value as it stands."""
        return self.text[node.start : node.end]

    def string(self, node: Node | None) -> str | None:
        """Return the characters that a string stands for, half surrogate pairs too; None of any other value."""
        if node is None or node.kind != "string":
            return None
        return str(json.loads(self.source(node)))


def tree_of(text: str) -> Tree:
    """Read a text; NotLaidOut where it is no JSON, too deep, or of too many values."""
    root = _Reading(text).whole()
    tree = Tree(text, root, frozenset())
    return Tree(text, root, frozenset(_repeated(tree)))


class _Reading:
    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[Node] = []
        self._wanted: _Wanted = "value"
        self._root: Node | None = None

    def whole(self) -> Node:
        at = values = 0
        while self._wanted != "nothing":
            found = _TOKEN.match(self._text, at)
            if found is None or found.lastgroup is None:
                raise NotLaidOut(_NOT_JSON)
            at, values = found.end(), values + 1
            if values > MOST_VALUES * 2:
                raise NotLaidOut("It holds too many values to be laid out.")
            self._take(found.lastgroup, found.start(found.lastgroup), at)
        if self._root is None or _SPACE.fullmatch(self._text, at) is None:
            raise NotLaidOut(_NOT_JSON)
        return self._root

    def _take(self, group: str, start: int, end: int) -> None:
        if group == "mark":
            self._mark(self._text[start], start, end)
        elif group == "string" and self._wanted in {"key", "key or close"}:
            self._open[-1].keys.append(Node("string", start, end))
            self._wanted = "colon"
        elif self._wanted in {"value", "value or close"}:
            kind: Kind = "string" if group == "string" else "number" if group == "number" else "word"
            self._add(Node(kind, start, end))
        else:
            raise NotLaidOut(_NOT_JSON)

    def _mark(self, mark: str, start: int, end: int) -> None:
        if mark in "{[" and self._wanted in {"value", "value or close"}:
            self._enter(Node("object" if mark == "{" else "array", start))
        elif mark in "}]" and self._closes(mark):
            self._leave(end)
        elif mark == ":" and self._wanted == "colon":
            self._wanted = "value"
        elif mark == "," and self._wanted == "comma or close":
            self._wanted = "key" if self._open[-1].kind == "object" else "value"
        else:
            raise NotLaidOut(_NOT_JSON)

    def _closes(self, mark: str) -> bool:
        if not self._open or self._wanted not in {"value or close", "key or close", "comma or close"}:
            return False
        return self._open[-1].kind == ("object" if mark == "}" else "array")

    def _enter(self, node: Node) -> None:
        if len(self._open) == MOST_DEPTH:
            raise NotLaidOut(f"It is nested more than {MOST_DEPTH} deep.")
        if self._open:
            self._open[-1].items.append(node)
        else:
            self._root = node
        self._open.append(node)
        self._wanted = "key or close" if node.kind == "object" else "value or close"

    def _leave(self, end: int) -> None:
        self._open.pop().end = end
        self._wanted = "comma or close" if self._open else "nothing"

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].items.append(node)
            self._wanted = "comma or close"
        else:
            self._root, self._wanted = node, "nothing"


def _repeated(tree: Tree) -> set[int]:
    """Return where keys stand that their object has more than once, however each of them is spelled."""
    found: set[int] = set()
    waiting = [tree.root]
    while waiting:
        node = waiting.pop()
        waiting += node.items
        places: dict[str, list[int]] = {}
        for key in node.keys:
            places.setdefault(tree.string(key) or "", []).append(key.start)
        found.update(place for same in places.values() if len(same) > 1 for place in same)
    return found
