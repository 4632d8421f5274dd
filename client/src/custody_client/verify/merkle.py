"""The tree of RFC 6962 (algorithms of RFC 9162, 2.1.3.2 and 2.1.4.2), as far as a verifier needs it."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

EMPTY_ROOT: Final = sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """Hash an entry."""
    return sha256(b"\x00" + entry).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def root_of_inclusion(index: int, size: int, leaf: bytes, path: Iterable[bytes]) -> bytes | None:
    """Return the root to which a path leads; None if a tree of this size has no such path."""
    if not 0 <= index < size:
        return None
    at, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if at & 1 or at == last:
            found = _node(sibling, found)
            # The last node of a level without a sibling rises unchanged.
            while not at & 1:
                at >>= 1
                last >>= 1
        else:
            found = _node(found, sibling)
        at >>= 1
        last >>= 1
    return found if last == 0 else None


def consistent(old_size: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the tree of `size` begins with the one of `old_size`, both greater than zero."""
    if not 0 < old_size <= size:
        return False
    if old_size == size:
        return not path and old_root == root
    # A complete old tree is itself the first node: the proof leaves it out.
    nodes = [old_root, *path] if old_size & (old_size - 1) == 0 else list(path)
    if not nodes:
        return False
    at, last = old_size - 1, size - 1
    while at & 1:
        at >>= 1
        last >>= 1
    old = new = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old, new = _node(node, old), _node(node, new)
            while not at & 1 and at:
                at >>= 1
                last >>= 1
        else:
            new = _node(new, node)
        at >>= 1
        last >>= 1
    return last == 0 and old == old_root and new == root
