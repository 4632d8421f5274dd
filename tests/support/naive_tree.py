"""RFC 6962 word for word, by recursion over all leaves: slow, and hard to get wrong."""

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

CONTRACT = Path(__file__).parents[1] / "contract"


def leaf(entry: bytes) -> bytes:
    return sha256(b"\x00" + entry).digest()


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def split(count: int) -> int:
    power = 1
    while power * 2 < count:
        power *= 2
    return power


def root(leaves: Sequence[bytes]) -> bytes:
    """MTH, of leaves given by their hashes."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return node(root(leaves[:k]), root(leaves[k:]))


def path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PATH."""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return [*path(index, leaves[:k]), root(leaves[k:])]
    return [*path(index - k, leaves[k:]), root(leaves[:k])]


def proof(old: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PROOF."""
    return _subproof(old, leaves, whole=True)


def _subproof(old: int, leaves: Sequence[bytes], *, whole: bool) -> list[bytes]:
    if old == len(leaves):
        return [] if whole else [root(leaves)]
    k = split(len(leaves))
    if old <= k:
        return [*_subproof(old, leaves[:k], whole=whole), root(leaves[k:])]
    return [*_subproof(old - k, leaves[k:], whole=False), root(leaves[:k])]


def numbered(size: int) -> list[bytes]:
    """Hashes of as many different leaves."""
    return [leaf(b"%d" % number) for number in range(size)]


def reader(leaves: Sequence[bytes]) -> Callable[[int, int], bytes]:
    """The hash of each full subtree, remembered."""

    @cache
    def hash_at(level: int, index: int) -> bytes:
        if level == 0:
            return leaves[index]
        return node(hash_at(level - 1, 2 * index), hash_at(level - 1, 2 * index + 1))

    return hash_at
