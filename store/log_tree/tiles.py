"""The tiles of a log (C2SP tlog-tiles): where hashes and entries lie, and how they are written.

A tile is 256 hashes, 32 bytes each, of one level; level 0 has leaves, each level above the roots of full tiles
of the level below. A bundle has the entries of a tile of level 0, each with a u16 big-endian length before it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from store.log_tree.hashes import Edge, full_root
from store.log_tree.strict import HASH_BYTES, Unreadable, number

HEIGHT: Final = 8
WIDTH: Final = 1 << HEIGHT
TILE_BYTES: Final = WIDTH * HASH_BYTES
LONGEST_ENTRY: Final = 0xFFFF

_MOST_LEVELS: Final = 8  # 256 to the eighth is more than a bigint
_PATH: Final = re.compile(r"tile/(entries|[0-7])/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([0-9]{1,3}))?")


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """The name of a tile; `level` is None for the entries below a tile of level 0."""

    level: int | None
    tile: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        """Return its path below the log's prefix."""
        level = "entries" if self.level is None else self.level
        suffix = "" if self.width == WIDTH else f".p/{self.width}"
        return f"tile/{level}/{_number_path(self.tile)}{suffix}"


def parse_path(path: str) -> Tile:
    """Read a tile's path; Unreadable unless it is the one spelling of it."""
    found = _PATH.fullmatch(path)
    if found is None:
        raise Unreadable("this is no path of a tile")
    level, digits, width = found.groups()
    tile = Tile(
        None if level == "entries" else int(level),
        int(digits.replace("/", "").replace("x", "")),
        WIDTH if width is None else number(width),
    )
    if tile.path != path or not 0 < tile.width <= WIDTH:
        raise Unreadable("a tile's path has one spelling, and this is another")
    return tile


def grown(old: int, new: int) -> Iterator[Tile]:
    """Yield every tile of hashes that a tree of `new` leaves has and one of `old` had not, lowest level first.

    The last of a level is partial unless it is full. Each tile of level 0 has a bundle of the same width.
    """
    for level in range(_MOST_LEVELS):
        had, have = old >> (HEIGHT * level), new >> (HEIGHT * level)
        if have == 0:
            return
        if have == had:
            continue
        for tile in range(had // WIDTH, have // WIDTH):
            yield Tile(level, tile)
        if have % WIDTH:
            yield Tile(level, have // WIDTH, have % WIDTH)


def bundle(entries: Iterable[bytes]) -> bytes:
    """Write entries as a bundle."""
    parts: list[bytes] = []
    for entry in entries:
        if len(entry) > LONGEST_ENTRY:
            raise ValueError("an entry is longer than a bundle can say")
        parts += (len(entry).to_bytes(2, "big"), entry)
    return b"".join(parts)


def parse_bundle(data: bytes) -> list[bytes]:
    """Read a bundle; Unreadable if it is cut short or has more than 256 entries."""
    entries: list[bytes] = []
    at = 0
    while at < len(data):
        start = at + 2
        at = start + int.from_bytes(data[at:start], "big")
        if start > len(data) or at > len(data) or len(entries) == WIDTH:
            raise Unreadable("a bundle is cut short or too long")
        entries.append(data[start:at])
    return entries


def split_hashes(data: bytes) -> list[bytes]:
    """Return the hashes of a tile."""
    if len(data) % HASH_BYTES or len(data) > TILE_BYTES:
        raise Unreadable("a tile is not made of at most 256 hashes")
    return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


def place(level: int, index: int) -> tuple[int, int, int, int]:
    """Say where the hash of a full subtree of 2**level leaves lies: (level of tile, tile, first hash, hashes)."""
    tile_level, height = divmod(level, HEIGHT)
    first = index << height
    return tile_level, first // WIDTH, first % WIDTH, 1 << height


def node_in(hashes: bytes, first: int, count: int) -> bytes:
    """Return the root over `count` hashes of a tile, from `first`; a full subtree, as `place` says."""
    found = split_hashes(hashes[first * HASH_BYTES : (first + count) * HASH_BYTES])
    if len(found) != count:
        raise ValueError("the tile does not reach this far")
    return full_root(found)


class OpenTiles:
    """The last tile of each level while it is not full, lowest level first: from them a log grows by tiles."""

    __slots__ = ("_levels", "size")

    def __init__(self, size: int = 0, tiles: Sequence[bytes] = ()) -> None:
        self.size = size
        self._levels = [split_hashes(tile) for tile in tiles]
        if [len(level) for level in self._levels] != open_widths(size):
            raise ValueError("a tree of this size has other open tiles")

    @property
    def tiles(self) -> list[bytes]:
        """Return each level's open tile as its bytes."""
        return [b"".join(level) for level in self._levels]

    def append(self, hashes: Sequence[bytes]) -> list[tuple[Tile, bytes]]:
        """Add leaves by their hashes; return the tiles that became full, with their bytes."""
        self.size += len(hashes)
        full: list[tuple[Tile, bytes]] = []
        level = 0
        while hashes:
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level] += hashes
            hashes = self._spill(level, full)
            level += 1
        return full

    def edge(self) -> Edge:
        """Return the edge of the same tree."""
        nodes: list[bytes] = []
        for level in reversed(self._levels):
            at = 0
            for height in reversed(range(HEIGHT)):
                if len(level) & 1 << height:
                    nodes.append(full_root(level[at : at + (1 << height)]))
                    at += 1 << height
        return Edge(self.size, nodes)

    def _spill(self, level: int, full: list[tuple[Tile, bytes]]) -> list[bytes]:
        # Returns the roots of the tiles that became full: what the level above grows by.
        held = self._levels[level]
        whole = len(held) // WIDTH
        first = (self.size >> (HEIGHT * level)) // WIDTH - whole
        roots: list[bytes] = []
        for nth in range(whole):
            hashes = held[nth * WIDTH : (nth + 1) * WIDTH]
            full.append((Tile(level, first + nth), b"".join(hashes)))
            roots.append(full_root(hashes))
        del held[: whole * WIDTH]
        return roots


def open_widths(size: int) -> list[int]:
    """Return how many hashes the open tile of each level has, lowest level first; zeros between stay."""
    widths: list[int] = []
    while size:
        widths.append(size % WIDTH)
        size //= WIDTH
    return widths


def _number_path(tile: int) -> str:
    digits = str(tile)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    return "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
