"""The chain of one action: its executions, the views that were made of its result, the requests that held them.

It is made twice, for wide pages from left to right and for narrow ones from above to below, and the style sheet shows
one of them. A line says that something was carried on, and how: whole and part as a line, a reference as dashes, what
was left out as dots. Where nobody told how two of them hang together, there is none. The tables below say the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from console.pictures.marks import box, picture, text

_HEIGHT: Final = 58.0
_HEAD: Final = 28.0
_BETWEEN: Final = 14.0
_INSIDE: Final = 12.0
# Characters of the two sizes of text that a box has room for.
_NAME_WIDTH: Final = 8.6
_LINE_WIDTH: Final = 6.1


@dataclass(frozen=True, slots=True)
class Node:
    """One box: a name, a line, how it looks, where it leads (empty: nowhere), and its text for those who point at it.

    `held` is which share of the whole it holds, from and to, None where that is not known or nothing is held.
    """

    key: str
    name: str
    line: str
    look: str = ""
    link: str = ""
    said: str = ""
    held: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """Boxes of one kind; `rest` says what is not drawn, empty where all is."""

    name: str
    nodes: Sequence[Node]
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """Something that was carried from one box to another, and how it looks."""

    source: str
    target: str
    look: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where things go on one of the two sizes."""

    look: str
    width: float
    box: float
    beside: bool


@dataclass(frozen=True, slots=True)
class _Spot:
    """The upper left corner of a box."""

    x: float
    y: float


_FRAMES: Final = (
    _Frame("for-wide", 960, 264, beside=True),
    _Frame("for-narrow", 340, 288, beside=False),
)


def drawn(columns: Sequence[Column], edges: Sequence[Edge], told: str) -> Markup:
    """Draw a chain; `told` is what it shows, for those who do not see it."""
    return Markup("").join(_framed(frame, columns, edges, told) for frame in _FRAMES)


def _framed(frame: _Frame, columns: Sequence[Column], edges: Sequence[Edge], told: str) -> Markup:
    spots, heads, height = _beside(frame, columns) if frame.beside else _below(frame, columns)
    pieces = [text(at.x, at.y, said, look) for said, at, look in heads]
    pieces += [
        _edge(frame, spots[each.source], spots[each.target], each.look)
        for each in edges
        if each.source in spots and each.target in spots
    ]
    nodes = [node for column in columns for node in column.nodes]
    pieces += [_node(frame, node, spots[node.key]) for node in nodes]
    links = any(node.link for node in nodes)
    body = Markup("").join(pieces)
    return picture(frame.width, height, body, f"chain {frame.look}", "Chain", told, links=links)


_Placed = tuple[Mapping[str, _Spot], Sequence[tuple[str, _Spot, str]], float]


def _beside(frame: _Frame, columns: Sequence[Column]) -> _Placed:
    """Put columns beside each other, each in the middle of the highest, and not far down where that is long."""
    tall = [len(column.nodes) * (_HEIGHT + _BETWEEN) + (18 if column.rest else 0) for column in columns]
    most = max(tall)
    step = (frame.width - frame.box - 2 * _INSIDE) / max(len(columns) - 1, 1)
    spots: dict[str, _Spot] = {}
    heads = []
    for place, (column, high) in enumerate(zip(columns, tall, strict=True)):
        x, y = _INSIDE + place * step, _HEAD + min((most - high) / 2, _HEIGHT + _BETWEEN)
        heads.append((column.name, _Spot(x, 20), "head"))
        for node in column.nodes:
            spots[node.key] = _Spot(x, y)
            y += _HEIGHT + _BETWEEN
        if column.rest:
            heads.append((column.rest, _Spot(x, y + 8), "soft"))
    return spots, heads, _HEAD + most


def _below(frame: _Frame, columns: Sequence[Column]) -> _Placed:
    """Put columns below each other, with room for lines at their left."""
    x, y = frame.width - frame.box - _INSIDE, 20.0
    spots: dict[str, _Spot] = {}
    heads = []
    for column in columns:
        heads.append((column.name, _Spot(x, y), "head"))
        y += 10
        for node in column.nodes:
            spots[node.key] = _Spot(x, y)
            y += _HEIGHT + _BETWEEN
        if column.rest:
            heads.append((column.rest, _Spot(x, y + 4), "soft"))
            y += 18
        y += 14
    return spots, heads, y - 18


def _node(frame: _Frame, node: Node, at: _Spot) -> Markup:
    room = frame.box - 2 * _INSIDE
    pieces = [
        Markup('<rect class="box" x="{:g}" y="{:g}" width="{:g}" height="{:g}" rx="6"/>').format(
            round(at.x, 1), round(at.y, 1), frame.box, _HEIGHT
        ),
        # Whatever letters a name is made of, it ends with its box.
        Markup('<svg x="{:g}" y="{:g}" width="{:g}" height="{:g}">{}{}</svg>').format(
            round(at.x + _INSIDE, 1), round(at.y, 1), room, _HEIGHT,
            text(0, 22, _cut(node.name, int(room / _NAME_WIDTH)), "name"),
            text(0, 40, _cut(node.line, int(room / _LINE_WIDTH)), "soft"),
        ),
    ]  # fmt: skip
    if node.held is not None:
        start, stop = node.held
        y = at.y + _HEIGHT - 9
        pieces.append(box(at.x + _INSIDE, y, room, 4, "track"))
        pieces.append(box(at.x + _INSIDE + start * room, y, max((stop - start) * room, 2.0), 4, "is-stored"))
    said = node.said or f"{node.name}: {node.line}"
    whole = Markup('<g class="node {}"><title>{}</title>{}</g>').format(
        node.look, said, Markup("").join(pieces)
    )
    if not node.link:
        return whole
    return Markup('<a href="{}" aria-label="{}">{}</a>').format(node.link, said, whole)


def _edge(frame: _Frame, source: _Spot, target: _Spot, look: str) -> Markup:
    """Draw a line with a tip where it arrives."""
    to_x = target.x
    if frame.beside:
        x, y, to_y = source.x + frame.box, source.y + _HEIGHT / 2, target.y + _HEIGHT / 2
        bend = (to_x - x) / 2
        path = f"M{x:g} {y:g}C{x + bend:g} {y:g} {to_x - bend:g} {to_y:g} {to_x - 7:g} {to_y:g}"
    else:
        # It leaves lower than it arrives, so that what comes and what goes are told apart.
        x, y, to_y, bend = source.x, source.y + _HEIGHT * 0.75, target.y + _HEIGHT * 0.3, -4.0
        path = f"M{x:g} {y:g}C{bend:g} {y:g} {bend:g} {to_y:g} {to_x - 7:g} {to_y:g}"
    tip = f"M{to_x - 8:g} {to_y - 4:g}L{to_x - 1:g} {to_y:g}L{to_x - 8:g} {to_y + 4:g}z"
    return Markup('<path class="carry {}" d="{}"/><path class="tip" d="{}"/>').format(look, path, tip)


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"
