"""Parts and closings that are in the bundle: leaf, proof, metadata, content, and that they belong together."""

from typing import Final

from custody_client.verify import leaves, openings
from custody_client.verify.bag import Bag
from custody_client.verify.head import Head
from custody_client.verify.proofs import LEAF, included
from custody_client.verify.report import Item, State
from custody_client.verify.wrong import Wrong

PARTS: Final = "data/parts/"
CLOSINGS: Final = "data/closings/"

_LEAST_CLASS: Final = 256


def check_part(bag: Bag, head: Head, evidence: str) -> Item:
    """Check one part with everything that belongs to it."""
    folder = f"{PARTS}{evidence}/"
    _, leaf = included(bag, folder, leaves.PART, head.checkpoint)
    if leaf["p"] != evidence.encode("ascii"):
        raise Wrong(folder + LEAF, "is about another part")
    meta_opening, opening = openings.part_openings(bag, folder)
    meta = openings.committed_meta(bag, f"{folder}meta.json", meta_opening, leaf, head.scope)
    size = openings.committed_content(bag, f"{folder}content", opening, leaf)
    if type(meta["size_class"]) is not int or meta["size_class"] != size_class(size):
        raise Wrong(f"{folder}meta.json", "speaks of another size than the content has")
    return Item("part", evidence, State.OK)


def check_closing(bag: Bag, head: Head, run: str) -> Item:
    """Check one close record."""
    folder = f"{CLOSINGS}{run}/"
    _, leaf = included(bag, folder, leaves.CLOSE, head.checkpoint)
    if leaf["r"] != run.encode("ascii"):
        raise Wrong(folder + LEAF, "is about another run")
    opening = openings.close_opening(bag, folder)
    openings.committed_close(bag, f"{folder}close.json", opening, leaf, head.scope)
    return Item("closing", run, State.OK)


def size_class(size: int) -> int:
    """Return what is said of a content's size: the next power of two, at least 256."""
    return max(_LEAST_CLASS, 1 << max(0, size - 1).bit_length())
