"""JSON laid out by its own tokens: only the space between them is ours, so digits and escapes are what was posted."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from console.showing.json_tree import Node, Tree
from console.showing.marks import Marker
from console.showing.measures import measure

# An array of plain values stands in one line as long as it fits there.
_SHORT: Final = 72
# Below that, base64 is an id or a signature, which somebody may want to read.
_LEAST_MEDIA: Final = 1_000
_DATA_URI: Final = re.compile(
    r'"data:([A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+)[^,"]{0,200};base64,([A-Za-z0-9+/=_-]*+)"'
)
_BASE64: Final = re.compile(r'"([A-Za-z0-9+/_-]++={0,2})"')


@dataclass(frozen=True, slots=True)
class Line:
    """One line: `key` and `text` are the content's own; `note` is ours, and so is `media`, said in place of bytes."""

    depth: int
    key: str = ""
    text: str = ""
    tail: str = ""
    note: str = ""
    media: str = ""

    @property
    def plain(self) -> str:
        """Return the line as text, for comparisons."""
        return f"{'  ' * self.depth}{self.key}{': ' if self.key else ''}{self.text}{self.tail}"


Pairs = Iterable[tuple[Node | None, Node]]


def lines_of(tree: Tree, node: Node) -> list[Line]:
    """Return a value as lines."""
    return list(_walk(tree, [(None, node)], 0))


def lines_of_pairs(tree: Tree, pairs: Pairs) -> list[Line]:
    """Return some of an object's pairs as lines, as if they stood there alone."""
    return list(_walk(tree, pairs, 0))


def html_of(lines: Iterable[Line], marker: Marker) -> Markup:
    """Return lines for a page."""
    return Markup("\n").join([_html(line, marker) for line in lines])


def media_of(source: str) -> str:
    """Say type and size where a string is a file as text; nothing of it is ever rendered."""
    if len(source) < _LEAST_MEDIA:
        return ""
    if found := _DATA_URI.fullmatch(source):
        return f"{found[1]}, {measure(_decoded(found[2]))}"
    if found := _BASE64.fullmatch(source):
        return f"base64, {measure(_decoded(found[1]))}"
    return ""


def _decoded(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _walk(tree: Tree, pairs: Pairs, depth: int) -> Iterator[Line]:
    """Yield lines without recursion: what is open waits in a list, the innermost last."""
    waiting: list[Iterator[tuple[Node | None, Node, str] | Line]] = [_with_commas(pairs)]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
        elif isinstance(entry, Line):
            yield replace(entry, depth=depth + len(waiting) - 2)
        else:
            key, node, comma = entry
            line = _headed(tree, key, depth + len(waiting) - 1)
            if _one_line(node):
                yield _whole(tree, line, node, comma)
            else:
                opens, closes = ("{", "}") if node.kind == "object" else ("[", "]")
                yield replace(line, text=opens)
                waiting.append(_inside(node, Line(0, text=closes, tail=comma)))


def _inside(node: Node, closing: Line) -> Iterator[tuple[Node | None, Node, str] | Line]:
    keys: Iterable[Node | None] = node.keys if node.kind == "object" else [None] * len(node.items)
    yield from _with_commas(zip(keys, node.items, strict=True))
    yield closing


def _with_commas(pairs: Pairs) -> Iterator[tuple[Node | None, Node, str]]:
    listed = list(pairs)
    for place, (key, node) in enumerate(listed, 1):
        yield key, node, "," if place < len(listed) else ""


def _headed(tree: Tree, key: Node | None, depth: int) -> Line:
    if key is None:
        return Line(depth)
    note = "this key stands here more than once" if key.start in tree.repeated else ""
    return Line(depth, tree.source(key), note=note)


def _one_line(node: Node) -> bool:
    if not node.items:
        return True
    plain = node.kind == "array" and all(each.kind not in {"array", "object"} for each in node.items)
    return plain and node.end - node.start <= _SHORT


def _whole(tree: Tree, line: Line, node: Node, comma: str) -> Line:
    if node.kind == "object":
        return replace(line, text="{}", tail=comma)
    if node.kind == "array":
        return replace(line, text=f"[{', '.join(map(tree.source, node.items))}]", tail=comma)
    source = tree.source(node)
    return replace(line, text=source, tail=comma, media=media_of(source) if node.kind == "string" else "")


def _html(line: Line, marker: Marker) -> Markup:
    key = Markup('<span class="key">{}</span>: ').format(marker.text(line.key)) if line.key else Markup("")
    note = Markup(' <span class="repeated">{}</span>').format(line.note) if line.note else Markup("")
    text = (
        Markup('<span class="media">{}</span>').format(line.media) if line.media else marker.text(line.text)
    )
    return Markup("{}{}{}{}{}").format("  " * line.depth, key, text, line.tail, note)
