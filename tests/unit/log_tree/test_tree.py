import pytest

from store.log_tree import proofs
from store.log_tree.hashes import EMPTY_ROOT, Edge, leaf_hash, node_hash
from store.log_tree.tiles import OpenTiles, Tile, grown, node_in, open_widths, place
from tests.support import naive_tree

LEAVES = naive_tree.numbered(65_537)
hash_at = naive_tree.reader(LEAVES)
SIZES = (0, 1, 2, 255, 256, 257, 65_535, 65_536, 65_537)


def open_tiles(size):
    tiles = OpenTiles()
    tiles.append(LEAVES[:size])
    return tiles


@pytest.mark.parametrize("size", SIZES)
def test_all_ways_to_a_root_meet(size):
    root = naive_tree.root(LEAVES[:size])
    edge = Edge()
    edge.append(LEAVES[:size])
    asked = []

    def asking(level, index):
        asked.append(hash_at(level, index))
        return asked[-1]

    assert edge.root() == open_tiles(size).edge().root() == proofs.root(size, asking) == root
    assert edge.nodes == open_tiles(size).edge().nodes == asked


def test_leaves_and_nodes_are_not_taken_for_each_other():
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])
    assert Edge().root() == EMPTY_ROOT != leaf_hash(b"")


@pytest.mark.parametrize("steps", [[1, 254, 1, 1], [300, 300], [256, 256], [4096] * 4 + [49_152, 1]])
def test_a_tree_grows_by_whole_tiles_whatever_the_steps(steps):
    tiles, edge, at, spilled = OpenTiles(), Edge(), 0, []
    for step in steps:
        tiles = OpenTiles(tiles.size, tiles.tiles)  # as after a restart
        edge = Edge(edge.size, edge.nodes)
        spilled += tiles.append(LEAVES[at : at + step])
        edge.append(LEAVES[at : at + step])
        at += step
        assert tiles.size == edge.size == at
        assert tiles.edge().root() == edge.root() == naive_tree.root(LEAVES[:at])
    assert {tile for tile, _ in spilled} == {tile for tile in grown(0, at) if tile.width == 256}
    assert len(spilled) == len({tile for tile, _ in spilled})
    for tile, hashes in spilled:
        assert tile.level is not None
        height = 8 * tile.level
        assert hashes == b"".join(hash_at(height, tile.tile * 256 + n) for n in range(256))
    held = {tile: hashes for tile, hashes in spilled if tile.level == 0}
    assert not held or all(node_in(held[Tile(0, 0)], n, 1) == LEAVES[n] for n in range(256))


def test_growing_by_nothing_spills_nothing():
    tiles = open_tiles(512)
    assert (tiles.append([]), tiles.size, tiles.tiles[0]) == ([], 512, b"")


@pytest.mark.parametrize(
    ("old", "new"), [(0, 0), (0, 1), (0, 70_000), (255, 257), (70_000, 70_001), (300, 300)]
)
def test_what_a_log_grew_by(old, new):
    def all_of(size):
        for level in range(3):
            have = size // 256**level
            yield from (Tile(level, number) for number in range(have // 256))
            if have % 256:
                yield Tile(level, have // 256, have % 256)

    assert set(grown(old, new)) == set(all_of(new)) - set(all_of(old))


def test_the_specification_s_example_of_70000():
    widths = [(tile.level, tile.width) for tile in grown(0, 70_000)]
    assert {pair: widths.count(pair) for pair in widths} == {
        (0, 256): 273,
        (0, 112): 1,
        (1, 256): 1,
        (1, 17): 1,
        (2, 1): 1,
    }
    assert open_widths(70_000) == [112, 17, 1]


def test_a_subtree_is_found_in_its_tile():
    assert place(0, 300) == (0, 1, 44, 1)
    assert place(8, 300) == (1, 1, 44, 1)
    assert place(10, 3) == (1, 0, 12, 4)
    ((_, tile),) = OpenTiles().append(LEAVES[:256])
    assert node_in(tile, 64, 64) == hash_at(6, 1)
    with pytest.raises(ValueError, match="reach"):
        node_in(tile[:320], 8, 4)


def test_an_edge_or_open_tiles_of_another_size_are_refused():
    with pytest.raises(ValueError, match="number of full subtrees"):
        Edge(3, [LEAVES[0]])
    with pytest.raises(ValueError, match="other open tiles"):
        OpenTiles(2, [LEAVES[0]])
    with pytest.raises(ValueError, match="256 hashes"):
        OpenTiles(1, [LEAVES[0][:-1]])
