"""How an answer came: the pieces of tool calls, cut again where they were cut, or the events of a stream that was kept.

`observable-output/1` keeps of each piece how many characters it had and in which chunk it came; the text itself stands
there once. So nothing is shown here that is not in the part.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from console.showing.blocks import NOTHING, Bench
from console.showing.bounds import MOST_ROWS
from console.showing.json_tree import Node
from console.showing.marks import Marker
from console.showing.objects import Taking

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_TOLD: Final = ("index", "id", "name", "missing")


@dataclass(frozen=True, slots=True)
class Piece:
    """One row: the chunk as the content numbers it, of which call, what came, and what was odd about it."""

    chunk: Markup
    of: Markup
    text: Markup
    odd: Markup = NOTHING


@dataclass(frozen=True, slots=True)
class Stream:
    """The pieces in order; `columns` name what they are of, `remarks` say what is not shown, and why."""

    pieces: list[Piece]
    columns: tuple[str, str, str]
    remarks: list[str]


def pieces_of(bench: Bench, root: Node) -> Stream | None:
    """Cut the arguments of an `observable-output/1` again; None where there is nothing that came in pieces."""
    taking = Taking(bench.tree, root)
    if bench.tree.string(taking.look("schema")) != "observable-output/1":
        return None
    cut: list[tuple[int, Piece]] = []
    remarks = ["Of texts only the whole is kept: pieces are kept of the arguments of calls."]
    for place, arguments, name in _calls(bench, taking):
        remarks += _cut(bench, place, name, arguments, cut)
    if not cut:
        return None
    # Within a chunk they stay in the order of the calls; sorting is stable.
    cut.sort(key=lambda each: each[0])
    if len(cut) > MOST_ROWS:
        remarks.append(f"The first {MOST_ROWS:,} of {len(cut):,} pieces are shown.")
    return Stream([piece for _, piece in cut[:MOST_ROWS]], ("Chunk", "Call", "Piece"), remarks)


def events_of(text: str, marker: Marker) -> Stream | None:
    """Take server-sent events apart; None where the text is none."""
    events = list(_events(text))
    if not events or not any(data for _, data in events):
        return None
    remarks = []
    if len(events) > MOST_ROWS:
        remarks.append(f"The first {MOST_ROWS:,} of {len(events):,} events are shown.")
    shown = [
        Piece(Markup.escape(number), marker.text(name), marker.text(data))
        for number, (name, data) in enumerate(events[:MOST_ROWS], 1)
    ]
    return Stream(shown, ("Number", "Event", "Data"), remarks)


def _calls(bench: Bench, taking: Taking) -> Iterator[tuple[int, Taking, str]]:
    place = 0
    for choice in taking.items("choices"):
        for item in Taking(bench.tree, choice).items("items"):
            call = Taking(bench.tree, item)
            arguments = call.take("arguments", "object")
            if arguments is not None:
                yield place, Taking(bench.tree, arguments), call.word("name")
                place += 1


def _cut(
    bench: Bench, place: int, name: str, arguments: Taking, cut: list[tuple[int, Piece]]
) -> Iterator[str]:
    """Add the pieces of one call; yield where its pieces and its text do not agree."""
    raw, at, called = arguments.word("raw"), 0, bench.marked(f"{place} {name}".strip())
    for node in arguments.items("fragments"):
        fragment = Taking(bench.tree, node)
        chunk, counted = fragment.plain("seq"), fragment.look("n")
        length = _count(bench.tree.source(counted)) if counted is not None else 0
        said = [f"{key} {bench.raw(fragment.look(key))}" for key in _TOLD if fragment.look(key) is not None]
        if counted is None or counted.kind == "word":
            said.append("no arguments" if counted is None else "arguments null")
        piece = Piece(
            bench.marked(chunk), called, bench.marked(raw[at : at + length]), bench.marked(", ".join(said))
        )
        cut.append((_count(chunk), piece))
        at += length
    if at != len(raw):
        yield f"Of call {place}, pieces of {at:,} characters are told, and {len(raw):,} are kept."


def _count(text: str) -> int:
    """Read a number of chunks or characters; 0 of anything that is none, or beyond all bounds."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < len("1" * 10) else 0


def _events(text: str) -> Iterator[tuple[str, str]]:
    """Yield (event, data) as a reader of `text/event-stream` gets them; comments and other fields are left to `raw`."""
    name, data = "", list[str]()
    for line in [*_LINE_END.split(text), ""]:
        if not line and (data or name):
            yield name, "\n".join(data)
            name, data = "", []
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
