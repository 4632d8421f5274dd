"""Access records and operator actions: canonical lines. No log leaf speaks of them; the bundle's signature does."""

from collections.abc import Iterator
from typing import Final

from custody_client.verify import layout
from custody_client.verify.bag import Bag
from custody_client.verify.report import Item, State
from custody_client.verify.texts import canonical_json
from custody_client.verify.wrong import Wrong

FILES: Final = ("data/accesses.jsonl", "data/actions.jsonl")


def check_records(bag: Bag, file: str) -> Item:
    """Check every line of a file of records."""
    for number, line in enumerate(_lines(bag, file), 1):
        try:
            value = canonical_json(line)
        except ValueError as error:
            raise Wrong(file, f"line {number}: {error}") from None
        if not isinstance(value, dict):
            raise Wrong(file, f"line {number}: is not a record")
    return Item("records", file, State.OK)


def _lines(bag: Bag, file: str) -> Iterator[bytes]:
    """Split at newlines; the last line must have one too. Wrong on a line longer than any record."""
    rest = b""
    for piece in bag.chunks(file):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > layout.MOST_LINE_BYTES:
            raise Wrong(file, "has a line that is too long")
    if rest:
        raise Wrong(file, "does not end with a newline")
