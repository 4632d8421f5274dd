"""Two contents held together: by messages and tool calls first, then by lines of what changed; within bounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, Literal

from markupsafe import Markup

from console.showing import opaque, outputs
from console.showing.blocks import Bench, Block, Fact, Layout, Message
from console.showing.bounds import NotLaidOut
from console.showing.json_lines import lines_of
from console.showing.json_tree import tree_of
from console.showing.marks import Marker
from console.showing.views import text_of

Change = Literal["same", "changed", "left", "right"]

_MOST_BLOCKS: Final = 400
# Beyond that, what differs is shown one after the other: finding the least difference takes a time that grows too fast.
_MOST_LINES: Final = 600
_MOST_SHOWN: Final = 4_000
_CONTEXT: Final = 3


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: on the left, on the right, on both, or so many that are on both and not shown."""

    side: Literal["both", "left", "right", "skipped"]
    html: Markup


@dataclass(frozen=True, slots=True)
class Row:
    """One block or pair of blocks; `lines` are there where it is not the same."""

    change: Change
    role: str
    kind: str
    name: str
    lines: list[DiffLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two contents differ; `equal`: byte for byte they do not."""

    equal: bool
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def differs(self) -> list[Row]:
        """Return the rows that are not the same."""
        return [row for row in self.rows if row.change != "same"]


_Entry = tuple[str, Block]


def compare(left: bytes, right: bytes) -> Comparison:
    """Compare two contents, whatever they are."""
    if left == right:
        return Comparison(equal=True)
    try:
        entries = [_entries(_layout(content)) for content in (left, right)]
        remarks: list[str] = []
    except NotLaidOut:
        entries = [_as_lines(content) for content in (left, right)]
        remarks = ["At least one of them is of no shape with messages: they are compared by lines."]
    rows = list(_rows(*entries))
    if all(row.change == "same" for row in rows):
        remarks.append(
            "Nothing that is laid out differs: the bytes differ in spacing, escapes or order of fields."
        )
    return Comparison(equal=False, rows=rows, remarks=remarks)


def _layout(content: bytes) -> Layout:
    text = text_of(content)
    if text is None:
        raise NotLaidOut
    tree = tree_of(text)
    layout = None if tree.repeated else outputs.document(Bench(tree, Marker()), tree.root)
    if layout is None:
        raise NotLaidOut
    return layout


def _entries(layout: Layout) -> list[_Entry]:
    """Return the blocks of a side in order, the facts before them."""
    entries = [("", _facts(layout.facts))]
    for message in [*layout.messages, *layout.rest]:
        entries += _of(message)
    if len(entries) > _MOST_BLOCKS:
        raise NotLaidOut
    return entries


def _of(message: Message) -> Iterator[_Entry]:
    if message.facts:
        yield message.role, _facts(message.facts)
    for block in message.blocks:
        yield message.role, block


def _facts(facts: Sequence[Fact]) -> Block:
    plain = "\n".join(f"{fact.name}: {fact.plain}" for fact in facts)
    return Block("facts", Markup.escape(plain), plain)


def _as_lines(content: bytes) -> list[_Entry]:
    text = text_of(content)
    if text is None:
        text = opaque.hex_lines(content)
    else:
        try:
            tree = tree_of(text)
            text = "\n".join(line.plain for line in lines_of(tree, tree.root))
        except NotLaidOut:
            pass  # As it stands, then: lines are where the text has them.
    return [("", Block("text", Markup.escape(""), text))]


def _rows(left: list[_Entry], right: list[_Entry]) -> Iterator[Row]:
    marker, keys = Marker(), [[(role, *block.key) for role, block in side] for side in (left, right)]
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for tag, start, stop, first, last in matcher.get_opcodes():
        if tag == "equal":
            yield from (Row("same", role, block.kind, block.name) for role, block in left[start:stop])
            continue
        for was, now in zip_longest(left[start:stop], right[first:last]):
            yield from _pair(was, now, marker)


def _pair(was: _Entry | None, now: _Entry | None, marker: Marker) -> Iterator[Row]:
    """Yield one row for two of a kind, else one for each."""
    if was is not None and now is not None and (was[0], was[1].kind) == (now[0], now[1].kind):
        yield _row("changed", now, _text(was[1]), _text(now[1]), marker)
        return
    if was is not None:
        yield _row("left", was, _text(was[1]), "", marker)
    if now is not None:
        yield _row("right", now, "", _text(now[1]), marker)


def _row(change: Change, entry: _Entry, was: str, now: str, marker: Marker) -> Row:
    role, block = entry
    return Row(change, role, block.kind, block.name, list(_lines(was, now, marker)))


def _text(block: Block) -> str:
    named = [f"name: {block.name}"] if block.name else []
    facts = [f"{fact.name}: {fact.plain}" for fact in block.facts]
    return "\n".join([*named, *facts, block.plain, *([block.more_plain] if block.more_plain else [])])


def _lines(was: str, now: str, marker: Marker) -> Iterator[DiffLine]:
    lines = _differences(was.split("\n") if was else [], now.split("\n") if now else [])
    for shown, (side, text) in enumerate(lines):
        if shown == _MOST_SHOWN:
            yield DiffLine("skipped", Markup.escape("The rest is not shown: there is too much of it."))
            return
        yield DiffLine(side, _html(text, marker))


def _html(text: str, marker: Marker) -> Markup:
    shown = marker.as_far(text)
    cut = f" … {shown.left:,} more characters are not shown" if shown.left else ""
    return Markup("{}{}").format(shown.html, cut)


def _differences(
    was: list[str], now: list[str]
) -> Iterator[tuple[Literal["both", "left", "right", "skipped"], str]]:
    """Yield lines with where they are; what is the same on both sides only near to what is not."""
    head, tail = _common(was, now)
    inner_was, inner_now = was[head : len(was) - tail], now[head : len(now) - tail]
    yield from _kept(was[:head], first=True, last=False)
    if max(len(inner_was), len(inner_now)) > _MOST_LINES:
        yield from (("left", line) for line in inner_was)
        yield from (("right", line) for line in inner_now)
    else:
        for tag, start, stop, first, last in SequenceMatcher(None, inner_was, inner_now).get_opcodes():
            if tag == "equal":
                yield from _kept(inner_was[start:stop], first=False, last=False)
            else:
                yield from (("left", line) for line in inner_was[start:stop])
                yield from (("right", line) for line in inner_now[first:last])
    yield from _kept(was[len(was) - tail :], first=False, last=True)


def _common(was: list[str], now: list[str]) -> tuple[int, int]:
    """Return how many lines are the same at the beginning, and how many after that at the end."""
    least = min(len(was), len(now))
    head = next((at for at in range(least) if was[at] != now[at]), least)
    tail = next((at for at in range(least - head) if was[-1 - at] != now[-1 - at]), least - head)
    return head, tail


def _kept(lines: list[str], *, first: bool, last: bool) -> Iterator[tuple[Literal["both", "skipped"], str]]:
    before, after = (0 if first else _CONTEXT), (0 if last else _CONTEXT)
    if len(lines) <= before + after + 1:
        yield from (("both", line) for line in lines)
        return
    yield from (("both", line) for line in lines[:before])
    yield "skipped", f"{len(lines) - before - after:,} lines are the same"
    yield from (("both", line) for line in lines[len(lines) - after :] if after)
