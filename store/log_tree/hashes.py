"""The Merkle tree of RFC 6962: hashes of leaves and nodes, and the edge from which a tree grows."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

EMPTY_ROOT: Final = sha256().digest()

_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of a leaf, given the bytes of its entry."""
    return sha256(_LEAF + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node over its two children."""
    return sha256(_NODE + left + right).digest()


def full_root(hashes: Sequence[bytes]) -> bytes:
    """Return the root over a power of two of hashes."""
    while len(hashes) > 1:
        pairs = iter(hashes)
        hashes = [sha256(_NODE + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
    return hashes[0]


class Edge:
    """The right edge of a tree: the roots of its full subtrees, largest first. All that it needs to grow."""

    __slots__ = ("nodes", "size")

    def __init__(self, size: int = 0, nodes: Iterable[bytes] = ()) -> None:
        self.size = size
        self.nodes = list(nodes)
        if len(self.nodes) != size.bit_count():
            raise ValueError("a tree of this size has another number of full subtrees")

    def append(self, hashes: Iterable[bytes]) -> None:
        """Add leaves, given by their hashes, in their order."""
        for leaf in hashes:
            carried, size = leaf, self.size
            while size & 1:
                carried = node_hash(self.nodes.pop(), carried)
                size >>= 1
            self.nodes.append(carried)
            self.size += 1

    def root(self) -> bytes:
        """Return the root of the tree."""
        if not self.nodes:
            return EMPTY_ROOT
        root = self.nodes[-1]
        for node in reversed(self.nodes[:-1]):
            root = node_hash(node, root)
        return root
