"""One part's content as a page shows it: pretty, raw, or as a stream; whatever it holds, something is shown.

Bytes are decoded once, strictly. What cannot be laid out is shown as it stands, and the page says why.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from markupsafe import Markup

from console.showing import opaque, outputs, streams
from console.showing.blocks import NOTHING, Bench, Layout
from console.showing.bounds import NotLaidOut
from console.showing.json_lines import html_of, lines_of
from console.showing.json_tree import Tree, tree_of
from console.showing.marks import Marker


class View(StrEnum):
    """How somebody wants to see content."""

    PRETTY = "pretty"
    RAW = "raw"
    STREAM = "stream"


_REPEATED: Final = (
    "Keys stand more than once in one object. Readers differ in which of them they follow,"
    " so nothing is picked out: all of it is shown as it stands."
)


@dataclass(frozen=True, slots=True)
class Showing:
    """What a page shows of one part; of `layout`, `stream` and `text` it is the first that is there."""

    size: int
    layout: Layout | None = None
    stream: streams.Stream | None = None
    text: Markup = NOTHING
    left: int = 0
    opaque: bool = False
    remarks: list[str] = field(default_factory=list)


def show(content: bytes, view: View) -> Showing:
    """Show content; always something, whatever it is."""
    text = text_of(content)
    if text is None:
        dump = Markup.escape(opaque.hex_lines(content))
        return Showing(len(content), text=dump, left=opaque.left(content), opaque=True)
    if view is View.RAW:
        return _as_it_stands(content, text)
    try:
        return _laid_out(content, text, view)
    except NotLaidOut as why:
        return _as_it_stands(content, text, f"{why} Shown as it stands.")


def text_of(content: bytes) -> str | None:
    """Decode once and strictly; None of what is not UTF-8."""
    try:
        return content.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return None


def _as_it_stands(content: bytes, text: str, *remarks: str) -> Showing:
    shown = Marker().as_far(text)
    return Showing(len(content), text=shown.html, left=shown.left, remarks=list(remarks))


def _laid_out(content: bytes, text: str, view: View) -> Showing:
    events = streams.events_of(text, Marker())
    if events is not None:
        return Showing(len(content), stream=events, remarks=events.remarks)
    tree = tree_of(text)
    bench = Bench(tree, Marker())
    pieces = streams.pieces_of(bench, tree.root) if view is View.STREAM and not tree.repeated else None
    if pieces is not None:
        return Showing(len(content), stream=pieces, remarks=pieces.remarks)
    # What did not come in pieces is shown as it is otherwise.
    layout = None if tree.repeated else outputs.document(bench, tree.root)
    return _as_json(content, tree) if layout is None else Showing(len(content), layout=layout)


def _as_json(content: bytes, tree: Tree) -> Showing:
    html = html_of(lines_of(tree, tree.root), Marker())
    return Showing(len(content), text=html, remarks=[_REPEATED] if tree.repeated else [])
