"""Whether every stored part has exactly one leaf, and every leaf says what its part was committed to."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from store import commitments
from store.db import Database
from store.tables import verify as table
from store.tables.verify import FIRST, Committed, Key, Leaf

_MODULUS: Final = 1 << 128


class _Named(msgspec.Struct):
    """What of a leaf tells which part it is about."""

    k: str
    p: str | None = None


_decoder: Final = msgspec.json.Decoder(_Named)


class Sum:
    """A multiset of ids in constant space: equal sums of equally many are the same ids, but for bad luck of 2^-128."""

    def __init__(self) -> None:
        self.count = 0
        self._total = 0

    def add(self, key: Key) -> None:
        """Add one."""
        self.count += 1
        self._total = (self._total + key[0].int * 3 + key[1].int) % _MODULUS

    def __eq__(self, other: object) -> bool:
        """Compare as multisets."""
        return isinstance(other, Sum) and (self.count, self._total) == (other.count, other._total)

    __hash__ = None  # type: ignore[assignment]  # it changes


class Seen:
    """Which parts were seen, themselves or by a leaf: old ones as a sum, those minted since `since` one by one.

    New ones come while it is counted, so that their sums would always differ.
    """

    def __init__(self, since: datetime) -> None:
        self.since = since
        self.old = Sum()
        self.new: Counter[Key] = Counter()
        self._since_ms = int(since.timestamp() * 1000)

    def add(self, key: Key) -> None:
        """Add one; an id says when it was minted, to the millisecond."""
        if key[1].int >> 80 < self._since_ms:
            self.old.add(key)
        else:
            self.new[key] += 1


def part_of(leaf: Leaf) -> Key | None:
    """Return which part a leaf is about when it was stored; None for other leaves. ValueError for what is no leaf."""
    named = _decoder.decode(leaf.leaf)
    return (leaf.scope_id, UUID(hex=named.p)) if named.k == "part" and named.p is not None else None


def faults_of(leaves: Sequence[tuple[Leaf, Key]], rows: dict[Key, Committed]) -> Iterator[tuple[str, Key]]:
    """Name leaves that do not say what their parts were committed to."""
    for leaf, key in leaves:
        row = rows.get(key)
        if row is None:
            yield "leaf_without_part", key
        elif leaf.leaf != _leaf(key[1], row):
            yield "leaf_mismatch", key


async def unmatched(database: Database, parts: Seen, leaves: Seen, batch: int) -> tuple[list[Key], list[Key]]:
    """Return parts without a leaf, and parts with several. Parts were seen first: a leaf is committed with its part."""
    missing, several = set(parts.new - leaves.new), {key for key, times in leaves.new.items() if times > 1}
    if parts.old != leaves.old:
        lost, again = await _unmatched(database, batch)
        missing, several = missing | lost, several | again
    return sorted(missing), sorted(several)


async def _unmatched(database: Database, batch: int) -> tuple[set[Key], set[Key]]:
    """Do it for all parts there are. In memory, so only where the sums say that there are some."""
    parts: set[Key] = set()
    last = FIRST
    while True:
        async with database.connection() as connection:
            keys = await table.evidence_after(connection, last, batch)
        parts.update(keys)
        if len(keys) < batch:
            break
        last = keys[-1]
    seen: set[Key] = set()
    several: set[Key] = set()
    async for leaf in all_leaves(database, batch):
        # What cannot be read is a fault of its own, and was named before.
        with suppress(ValueError):
            key = part_of(leaf)
            if key in seen:
                several.add(key)
            elif key is not None:
                seen.add(key)
    return parts - seen, several


async def all_leaves(database: Database, batch: int) -> AsyncIterator[Leaf]:
    """Yield every leaf that waits."""
    last = 0
    while True:
        async with database.connection() as connection:
            leaves = await table.leaves_after(connection, last, batch)
        for leaf in leaves:
            yield leaf
        if len(leaves) < batch:
            return
        last = leaves[-1].id


def _leaf(evidence: UUID, row: Committed) -> bytes:
    return commitments.leaf(
        "part", b=row.bucket_id, c=row.commitment, m=row.meta_commitment, p=evidence, t=row.stored_at
    )
