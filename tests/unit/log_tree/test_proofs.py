import random

import pytest

from store.log_tree import proofs
from store.log_tree.hashes import EMPTY_ROOT
from tests.support import naive_tree

LEAVES = naive_tree.numbered(65_537)
hash_at = naive_tree.reader(LEAVES)
SMALL = range(1, 34)


def flipped(value, bit):
    return (int.from_bytes(value, "big") ^ 1 << bit).to_bytes(len(value), "big")


def test_inclusion_is_that_of_the_rfc():
    for size in SMALL:
        root = naive_tree.root(LEAVES[:size])
        for index in range(size):
            proof = proofs.inclusion(index, size, hash_at)
            assert proof == naive_tree.path(index, LEAVES[:size])
            assert proofs.verify_inclusion(LEAVES[index], index, size, proof, root)


def test_consistency_is_that_of_the_rfc():
    for new in SMALL:
        new_root = naive_tree.root(LEAVES[:new])
        for old in range(1, new + 1):
            proof = proofs.consistency(old, new, hash_at)
            assert proof == naive_tree.proof(old, LEAVES[:new])
            assert proofs.verify_consistency(old, new, naive_tree.root(LEAVES[:old]), new_root, proof)


@pytest.mark.parametrize("size", [255, 256, 257, 65_535, 65_536, 65_537])
def test_proofs_at_the_edges_of_tiles(size):
    root = naive_tree.root(LEAVES[:size])
    for index in {0, 1, 255, 256, size // 2, size - 2, size - 1} & set(range(size)):
        proof = proofs.inclusion(index, size, hash_at)
        assert proofs.verify_inclusion(LEAVES[index], index, size, proof, root)
        assert not proofs.verify_inclusion(LEAVES[index], index ^ 1, size, proof, root)
    for old in {1, 128, 254, 255, 256, size - 1, size} & set(range(size + 1)):
        proof = proofs.consistency(old, size, hash_at)
        assert proofs.verify_consistency(old, size, naive_tree.root(LEAVES[:old]), root, proof)


def test_a_reader_is_asked_for_what_was_announced():
    asked = []

    def asking(level, index):
        asked.append((level, index))
        return hash_at(level, index)

    for index, size in ((0, 1), (5, 33), (300, 65_537), (65_536, 65_537)):
        for make, announced in (
            (proofs.inclusion, proofs.inclusion_nodes(index, size)),
            (proofs.consistency, proofs.consistency_nodes(index, size)),
        ):
            asked.clear()
            make(index, size, asking)
            assert asked == announced
            assert all((at + 1) << level <= size for level, at in asked)


def test_no_flipped_bit_of_an_inclusion_passes():
    random_bit = random.Random(6)
    index, size = 11, 21
    root, proof = naive_tree.root(LEAVES[:size]), proofs.inclusion(index, size, hash_at)
    for _ in range(200):
        bit = random_bit.randrange(256)
        at = random_bit.randrange(len(proof))
        wrong = [*proof[:at], flipped(proof[at], bit), *proof[at + 1 :]]
        assert not proofs.verify_inclusion(LEAVES[index], index, size, wrong, root)
        assert not proofs.verify_inclusion(flipped(LEAVES[index], bit), index, size, proof, root)
        assert not proofs.verify_inclusion(LEAVES[index], index, size, proof, flipped(root, bit))
    for other in range(-1, 64):
        assert proofs.verify_inclusion(LEAVES[index], other, size, proof, root) == (other == index)
        assert not proofs.verify_inclusion(LEAVES[index], index, 0, proof, root)
    for wrong in (proof[:-1], proof[1:], [*proof, proof[0]], []):
        assert not proofs.verify_inclusion(LEAVES[index], index, size, wrong, root)


def test_no_flipped_bit_of_a_consistency_passes():
    random_bit = random.Random(7)
    for old, new in ((13, 21), (16, 21), (8, 9)):
        roots = naive_tree.root(LEAVES[:old]), naive_tree.root(LEAVES[:new])
        proof = proofs.consistency(old, new, hash_at)
        for _ in range(100):
            bit, at = random_bit.randrange(256), random_bit.randrange(len(proof))
            wrong = [*proof[:at], flipped(proof[at], bit), *proof[at + 1 :]]
            assert not proofs.verify_consistency(old, new, *roots, wrong)
            assert not proofs.verify_consistency(old, new, flipped(roots[0], bit), roots[1], proof)
            assert not proofs.verify_consistency(old, new, roots[0], flipped(roots[1], bit), proof)
        for wrong in (proof[:-1], proof[1:], [*proof, proof[0]], []):
            assert not proofs.verify_consistency(old, new, *roots, wrong)
        assert not proofs.verify_consistency(new, old, *roots, proof)


def test_trees_of_nothing_and_of_the_same_size():
    root = naive_tree.root(LEAVES[:5])
    assert proofs.consistency(0, 5, hash_at) == proofs.consistency(5, 5, hash_at) == []
    assert proofs.verify_consistency(0, 5, EMPTY_ROOT, root, [])
    assert not proofs.verify_consistency(0, 5, root, root, [])
    assert not proofs.verify_consistency(0, 5, EMPTY_ROOT, root, [root])
    assert proofs.verify_consistency(5, 5, root, root, [])
    assert not proofs.verify_consistency(5, 5, EMPTY_ROOT, root, [])
    assert not proofs.verify_consistency(5, 5, root, root, [root])
    for index, size in ((-1, 5), (5, 5), (0, 0)):
        with pytest.raises(ValueError, match="no such leaf"):
            proofs.inclusion(index, size, hash_at)
    with pytest.raises(ValueError, match="smaller"):
        proofs.consistency(6, 5, hash_at)
