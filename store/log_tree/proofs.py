"""Proofs of inclusion and consistency (RFC 6962), and the text that carries one (C2SP tlog-proof@v1).

They are made from `hash_at(level, index)`: the root over the 2**level leaves from index * 2**level, all of
them there. A reader that must fetch hashes first asks for the `…_nodes`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from store.log_tree.hashes import EMPTY_ROOT, node_hash
from store.log_tree.strict import Unreadable, hash_from_base64, number, to_base64

HashAt = Callable[[int, int], bytes]
Node = tuple[int, int]

_HEADER: Final = "c2sp.org/tlog-proof@v1"
_INDEX: Final = "index "
_MOST_HASHES: Final = 63


def root(size: int, hash_at: HashAt) -> bytes:
    """Return the root of the tree of the first `size` leaves."""
    return _range_hash((0, size), hash_at) if size else EMPTY_ROOT


def inclusion(index: int, size: int, hash_at: HashAt) -> list[bytes]:
    """Return the proof that the leaf at `index` is in the tree of `size` leaves, the leaf's sibling first."""
    return [_range_hash(span, hash_at) for span in _inclusion_spans(index, size)]


def inclusion_nodes(index: int, size: int) -> list[Node]:
    """Return the nodes that `inclusion` asks for."""
    return [node for span in _inclusion_spans(index, size) for node in _nodes(span)]


def consistency(old: int, new: int, hash_at: HashAt) -> list[bytes]:
    """Return the proof that the tree of `new` leaves begins with that of `old`; empty from 0 and for equals."""
    return [_range_hash(span, hash_at) for span in _consistency_spans(old, new)]


def consistency_nodes(old: int, new: int) -> list[Node]:
    """Return the nodes that `consistency` asks for."""
    return [node for span in _consistency_spans(old, new) for node in _nodes(span)]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Say whether `proof` shows the leaf of this hash at `index` in the tree of `size` leaves and this root."""
    if not 0 <= index < size:
        return False
    at, last, reached = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if at & 1 or at == last:
            reached = node_hash(sibling, reached)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            reached = node_hash(reached, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and reached == root


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Say whether `proof` shows that the tree of `new` leaves begins with that of `old`."""
    if not 0 <= old <= new:
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    # A tree of a power of two is itself a node of the larger one, and is left out of the proof.
    hashes = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    return bool(hashes) and _climb(old - 1, new - 1, hashes) == (old_root, new_root)


def _climb(at: int, last: int, hashes: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    # The two roots that the hashes lead to (RFC 9162, 2.1.4.2), None if there are too few or too many.
    while at & 1:
        at, last = at >> 1, last >> 1
    old_reached = new_reached = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return None
        if at & 1 or at == last:
            old_reached, new_reached = node_hash(sibling, old_reached), node_hash(sibling, new_reached)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            new_reached = node_hash(new_reached, sibling)
        at, last = at >> 1, last >> 1
    return (old_reached, new_reached) if last == 0 else None


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A leaf's place in a log: its index, the hashes beside its way up, the signed checkpoint."""

    index: int
    hashes: tuple[bytes, ...]
    note: bytes

    @property
    def text(self) -> bytes:
        """Return the proof as it is kept and sent."""
        lines = [_HEADER, f"{_INDEX}{self.index}", *(to_base64(value) for value in self.hashes), "", ""]
        return "\n".join(lines).encode("ascii") + self.note


def parse_tlog_proof(text: bytes) -> TlogProof:
    """Read a proof's text; the note is taken as it stands. Ours have no `extra` line, so it is refused."""
    head, gap, note = text.partition(b"\n\n")
    try:
        header, *lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise Unreadable("a proof is not ASCII before its checkpoint") from None
    if header != _HEADER or not gap or not note or not lines or not lines[0].startswith(_INDEX):
        raise Unreadable("this is no tlog-proof")
    if len(lines) > 1 + _MOST_HASHES:
        raise Unreadable("a proof has more hashes than any tree needs")
    index = number(lines[0].removeprefix(_INDEX))
    return TlogProof(index, tuple(hash_from_base64(line) for line in lines[1:]), note)


_Span = tuple[int, int]


def _inclusion_spans(index: int, size: int) -> list[_Span]:
    if not 0 <= index < size:
        raise ValueError("there is no such leaf in a tree of this size")
    low, high, spans = 0, size, []
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            spans.append((middle, high))
            high = middle
        else:
            spans.append((low, middle))
            low = middle
    return spans[::-1]


def _consistency_spans(old: int, new: int) -> list[_Span]:
    if not 0 <= old <= new:
        raise ValueError("a tree begins only with a smaller one")
    if old in {0, new}:
        return []
    low, high, spans = 0, new, []
    while high != old:
        middle = low + _split(high - low)
        if old <= middle:
            spans.append((middle, high))
            high = middle
        else:
            spans.append((low, middle))
            low = middle
    # The old tree itself, if it is a full subtree of the new one, is what the verifier has already.
    return [(low, high), *spans[::-1]] if low else spans[::-1]


def _split(count: int) -> int:
    # The largest power of two below a count.
    return 1 << (count - 1).bit_length() - 1


def _nodes(span: _Span) -> Iterator[Node]:
    # The full subtrees of a span that begins where a tree of its length may begin, largest first.
    low, high = span
    while low < high:
        level = (high - low).bit_length() - 1
        yield level, low >> level
        low += 1 << level


def _range_hash(span: _Span, hash_at: HashAt) -> bytes:
    *nodes, last = (hash_at(level, index) for level, index in _nodes(span))
    for node in reversed(nodes):
        last = node_hash(node, last)
    return last
