"""What is laid out of one side of an attempt: messages of blocks, facts, and what nothing here has a place for."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

from console.showing.json_lines import Pairs, html_of, lines_of_pairs
from console.showing.json_tree import Node, Tree
from console.showing.marks import Marker

UNKNOWN: Final = "unknown"
NOTHING: Final = Markup("")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something short that the content says of itself; `value` None: it says that it does not know, or nothing."""

    name: str
    value: Markup | None
    plain: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class Block:
    """One thing in a message: what it is, its text for a page and for comparing, and whatever stood beside it."""

    kind: str
    html: Markup
    plain: str
    name: str = ""
    facts: list[Fact] = field(default_factory=list)
    more: Markup = NOTHING
    more_plain: str = ""
    code: bool = False

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return what makes two blocks the same."""
        return (self.kind, self.name, self.plain, self.more_plain)


@dataclass(frozen=True, slots=True)
class Message:
    """Blocks that belong together, under the role that the content names."""

    role: str
    blocks: list[Block]
    facts: list[Fact] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole side. `rest` is every pair that has no place among the others, laid out as JSON."""

    facts: list[Fact]
    messages: list[Message]
    rest: list[Message]
    remarks: list[Markup] = field(default_factory=list)


class Bench:
    """Makes blocks out of one text: its tree, and what may be marked of it."""

    def __init__(self, tree: Tree, marker: Marker) -> None:
        self.tree = tree
        self._marker = marker

    def fact(self, name: str, value: str | None) -> Fact:
        """Make a fact; an empty or missing value is unknown."""
        return Fact(name, self._marker.text(value), value) if value else Fact(name, None)

    def known(self, *facts: tuple[str, str]) -> list[Fact]:
        """Make facts of those that the content has."""
        return [self.fact(name, value) for name, value in facts if value]

    def marked(self, text: str) -> Markup:
        """Return a word of the content for a page."""
        return self._marker.text(text)

    def text(
        self, kind: str, text: str, rest: Pairs = (), *, name: str = "", facts: Iterable[Fact] = ()
    ) -> Block:
        """Make a block of prose, with what else stood beside it."""
        return self._block(kind, text, rest, name, list(facts), code=False)

    def code(
        self, kind: str, text: str, rest: Pairs = (), *, name: str = "", facts: Iterable[Fact] = ()
    ) -> Block:
        """Make a block of text that is somebody's code or data: as it stands."""
        return self._block(kind, text, rest, name, list(facts), code=True)

    def json(self, kind: str, pairs: Pairs, *, name: str = "", facts: Iterable[Fact] = ()) -> Block:
        """Make a block of JSON."""
        lines = lines_of_pairs(self.tree, pairs)
        plain = "\n".join(line.plain for line in lines)
        html = html_of(lines, self._marker)
        return Block(self.marked(kind), html, plain, self.marked(name), list(facts), code=True)

    def value(self, kind: str, node: Node, *, name: str = "") -> Block:
        """Make a block of one value: a string as prose, anything else as JSON."""
        said = self.tree.string(node)
        return (
            self.text(kind, said, name=name)
            if said is not None
            else self.json(kind, [(None, node)], name=name)
        )

    def raw(self, node: Node | None) -> str:
        """Return a string's characters, and any other value as it stands."""
        if node is None:
            return ""
        said = self.tree.string(node)
        return self.tree.source(node) if said is None else said

    def _block(self, kind: str, text: str, rest: Pairs, name: str, facts: list[Fact], *, code: bool) -> Block:
        lines = lines_of_pairs(self.tree, rest)
        more_plain = "\n".join(line.plain for line in lines)
        html = self._marker.text(text)
        more = html_of(lines, self._marker)
        return Block(kind, html, text, self.marked(name), facts, more, more_plain, code)
