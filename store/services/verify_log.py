"""Whether every stored part has exactly one leaf; and how the leaves are walked: the log, then what waits for it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from store.db import Connection, Database
from store.log_tree.facts import facts
from store.tables import log
from store.tables import verify as table
from store.tables.log import Entry, State
from store.tables.verify import FIRST, Key, Leaf

_MODULUS: Final = 1 << 128


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


@dataclass(frozen=True, slots=True)
class Page:
    """Some leaves: the entries found from `first` up to and without `end`, or some that wait."""

    first: int
    end: int
    entries: Sequence[Entry] = ()
    queued: Sequence[Leaf] = ()


Take = Callable[[Connection, Page], Awaitable[None]]
End = Callable[[Connection, State], Awaitable[None]]


async def walk(database: Database, batch: int, take: Take, end: End | None = None) -> int:
    """Show every leaf once, though leaves go from the queue into the log meanwhile: the last stretch is one instant.

    `end` is told where the log ended at that instant. Both get a connection to ask with. Returns how many there were.
    """
    async with database.connection() as connection:
        known = (await log.state(connection)).size
    for first in range(0, known, batch):
        async with database.connection() as connection:
            await take(connection, await _page(connection, first, min(first + batch, known)))
    async with database.transaction() as connection:
        await table.from_one_instant(connection)
        state = await log.state(connection)
        for first in range(known, state.size, batch):
            await take(connection, await _page(connection, first, min(first + batch, state.size)))
        waiting = await _waiting(connection, batch, take)
        if end is not None:
            await end(connection, state)
        return state.size + waiting


async def _page(connection: Connection, first: int, end: int) -> Page:
    return Page(first, end, entries=await log.entries(connection, first, end))


async def _waiting(connection: Connection, batch: int, take: Take) -> int:
    last = shown = 0
    while True:
        leaves = await table.leaves_after(connection, last, batch)
        await take(connection, Page(0, 0, queued=leaves))
        shown += len(leaves)
        if len(leaves) < batch:
            return shown
        last = leaves[-1].id


async def unmatched(
    database: Database, parts: Seen, leaves: Seen, lost: Mapping[Key, int], batch: int
) -> tuple[list[Key], list[Key]]:
    """Return parts without a leaf, and parts with several. Parts were seen first: a leaf is committed with its part.

    `lost` are how many leaves of parts tell of what a restore did not bring back; they are not among `leaves`.
    """
    missing, several = set(parts.new - leaves.new), {key for key, times in leaves.new.items() if times > 1}
    if parts.old != leaves.old:
        unlogged, again = await _unmatched(database, lost, batch)
        missing, several = missing | unlogged, several | again
    return sorted(missing), sorted(several)


async def _unmatched(database: Database, lost: Mapping[Key, int], batch: int) -> tuple[set[Key], set[Key]]:
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
    found: Counter[Key] = Counter()

    async def count(_: Connection, page: Page) -> None:
        # Awaits nothing: what was needed is in the page.
        found.update(_parts_of(page))

    await walk(database, batch, count)
    found.subtract(lost)
    return {key for key in parts if found[key] < 1}, {key for key, times in found.items() if times > 1}


def _parts_of(page: Page) -> list[Key]:
    keys = [part_of(entry.scope_id, entry.leaf) for entry in page.entries]
    keys += [part_of(leaf.scope_id, leaf.leaf) for leaf in page.queued]
    return [key for key in keys if key is not None]


def part_of(scope: UUID, leaf: bytes) -> Key | None:
    """Return which part a leaf says was stored; None for other leaves, and for what is none: named before."""
    try:
        said = facts(leaf)
    except ValueError:
        return None
    return (scope, said.p) if said.k == "part" and said.p is not None else None
