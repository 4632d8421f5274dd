"""Whether leaves say what is so: of parts, of their purging, of buckets that expired, of runs that were closed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from store import commitments
from store.db import Connection
from store.log_tree.facts import Facts, facts
from store.services.marks import evidence_mark
from store.services.verify_closings import Closings, closing_of
from store.services.verify_log import Page, Seen
from store.tables import restores, tombstones, verify_log
from store.tables import verify as table
from store.tables.restores import LostPart
from store.tables.verify import Committed, Key

SayOf = Callable[[str, UUID | None, object], None]
"""Takes what is wrong, of which scope, and where."""


@dataclass(frozen=True, slots=True)
class Told:
    """A leaf and what it says; `index` None: it waits for its place."""

    index: int | None
    scope_id: UUID
    leaf: bytes
    said: Facts


class LeafCheck:
    """Takes every leaf once. `unlogged`: purged parts of which no leaf has been seen so far."""

    def __init__(self, say: SayOf, since: datetime, unlogged: Iterable[Key], lookup: bytes) -> None:
        self._say = say
        self._lookup = lookup
        # Leaves of parts and closings of which nothing but a keyed mark is left.
        self.forgotten = 0
        self._part_leaves: Counter[UUID] = Counter()
        self._expired: dict[UUID, tuple[UUID, int | None]] = {}
        self._unlogged = set(unlogged)
        self._holds: dict[Key, set[str]] = {}
        self._hold_at: dict[Key, int | None] = {}
        self.parts = Seen(since)
        self.closings = Closings(since)
        # Closings of which there is a leaf and no record, since the code of then kept none.
        self.closings_unkept = 0
        # What the log says was restored, and what a restore would explain: where it is, what is missing, and of whom.
        self._restored: list[range] = []
        self._missing: list[tuple[int | None, str, Key]] = []
        self.lost = 0
        # Part leaves of which no row tells any more, or a row that was written again and has a leaf of its own.
        self.lost_parts: Counter[Key] = Counter()

    async def add(self, connection: Connection, page: Page) -> None:
        """Take some leaves."""
        told = [*self._entries(page), *self._queued(page)]
        await self._parts(connection, [each for each in told if each.said.k == "part"])
        await self._purges(connection, [each for each in told if each.said.k == "purge"])
        await self._closings(connection, [each for each in told if each.said.k == "close"])
        for each in told:
            if each.said.k == "expire" and each.said.b is not None:
                self._expire(each, each.said.b)
            if each.said.k == "hold" and each.said.h is not None:
                hold = (each.scope_id, each.said.h)
                self._holds.setdefault(hold, set()).add(each.said.op or "")
                self._hold_at.setdefault(hold, each.index)
            if each.said.k == "restore":
                bounds = msgspec.json.decode(each.leaf, type=dict[str, Any])
                self._restored.append(range(bounds["from"], bounds["to"]))

    async def end(self, connection: Connection, expired: Iterable[Key]) -> None:
        """Compare what had to be counted. `expired`: buckets that were found expired before the first leaf was read."""
        for bucket, (scope, count) in self._expired.items():
            if count != self._part_leaves[bucket]:
                self._say("expire_count_mismatch", scope, bucket)
        for scope, bucket in expired:
            if bucket not in self._expired:
                self._say("expire_leaf_missing", scope, bucket)
        for scope, bucket in await verify_log.still_live(connection, self._expired):
            self._say("expire_without_effect", scope, bucket)
        for scope, evidence in sorted(self._unlogged):
            self._say("purge_leaf_missing", scope, evidence)
        await self._compare_holds(connection)
        # A leaf of a restore stands after those that it is about.
        for index, kind, (scope, where) in self._missing:
            if index is not None and any(index in each for each in self._restored):
                self.lost += 1
            else:
                self._say(kind, scope, where)

    async def _compare_holds(self, connection: Connection) -> None:
        """Every hold was said to the log, and none that was has gone or was released by hand. Read in one instant."""
        rows = await verify_log.holds(connection)
        # Of what was lost with a part or a run, a restore cannot bring back the hold.
        for gone in sorted(self._holds.keys() - rows.keys()):
            self._missing.append((self._hold_at[gone], "hold_missing", gone))
        for (scope, hold), released in rows.items():
            said = {"place", "release"} if released else {"place"}
            if self._holds.get((scope, hold)) != said:
                self._say("hold_mismatch", scope, hold)

    def _entries(self, page: Page) -> Iterable[Told]:
        for entry in page.entries:
            said = self._read(entry.scope_id, entry.leaf, f"index {entry.idx}")
            if said is None:
                continue
            if (said.k, said.subject) != (entry.kind, entry.subject):
                self._say("log_entry_mismatch", entry.scope_id, f"index {entry.idx}")
            yield Told(entry.idx, entry.scope_id, entry.leaf, said)

    def _queued(self, page: Page) -> Iterable[Told]:
        for leaf in page.queued:
            said = self._read(leaf.scope_id, leaf.leaf, leaf.id)
            if said is not None:
                yield Told(None, leaf.scope_id, leaf.leaf, said)

    def _read(self, scope: UUID, leaf: bytes, where: object) -> Facts | None:
        try:
            said = facts(leaf)
            # Parts are compared to the byte; of all others there is one way to write them too.
            well = said.k == "part" or commitments.canonical_json(msgspec.json.decode(leaf)) == leaf
        except ValueError:
            well = False
        if not well:
            self._say("leaf_unreadable", scope, where)
        return said if well else None

    async def _parts(self, connection: Connection, told: Sequence[Told]) -> None:
        keys = [_key(each) for each in told]
        rows = await table.committed(connection, keys) if keys else {}
        wrong = [each for each in told if not _stands(each, rows)]
        # Of one that was lost the id is marked too where it was purged: looked for first, since only it is no fault.
        lost = await restores.lost_among(connection, [_key(each) for each in wrong]) if wrong else {}
        without = [_key(each) for each in wrong if _key(each) not in rows and not _was_lost(each, rows, lost)]
        forgotten = await self._forgotten(connection, without)
        for each, key in zip(told, keys, strict=True):
            if each.said.b is not None:
                self._part_leaves[each.said.b] += 1
            if _was_lost(each, rows, lost):
                self._missing.append((each.index, "lost_without_restore", key))
                self.lost_parts[key] += 1
                continue
            if key in forgotten:
                continue
            self.parts.add(key)
            if key not in rows:
                self._say("leaf_without_part", *key)
            elif not _stands(each, rows):
                self._say("leaf_mismatch", *key)

    async def _purges(self, connection: Connection, told: Sequence[Told]) -> None:
        if not told:
            return
        keys = [_key(each) for each in told]
        indexes = [each.said.of for each in told if each.said.of is not None]
        standing = await verify_log.part_entries(connection, indexes)
        for each, key in zip(told, keys, strict=True):
            self._unlogged.discard(key)
            waits = each.index is None and each.said.of is None
            before = each.index is None or (each.said.of or 0) < each.index
            if not waits and not (before and standing.get(each.said.of or 0) == key[1]):
                self._say("purge_of_mismatch", *key)
        for key in await verify_log.not_purged(connection, keys):
            self._say("purge_without_effect", *key)

    async def _closings(self, connection: Connection, told: Sequence[Told]) -> None:
        runs = [(each.scope_id, each.said.r) for each in told if each.said.r is not None]
        if not runs:
            return
        kept = {
            (row.scope_id, row.run_uid, closing_of(row), int(row.closed_at.timestamp()))
            for row in await verify_log.closings_of(connection, runs)
        }
        before = await verify_log.closed_before(connection, runs)
        known = {(scope, run) for scope, run, *_ in kept} | set(before)
        forgotten = await self._forgotten(connection, [run for run in runs if run not in known])
        for each, run in zip(told, runs, strict=True):
            closing = (*run, each.said.m or b"", each.said.t)
            if closing in kept:
                self.closings.add(*closing)
            elif run in before:
                self.closings_unkept += 1
            elif run not in forgotten:
                self._missing.append((each.index, "closing_mismatch", run))

    async def _forgotten(self, connection: Connection, keys: Sequence[Key]) -> set[Key]:
        """Return which of these parts or runs were there, and are kept no longer: a mark that needs our key says so."""
        of_mark = {(scope, evidence_mark(self._lookup, scope, each)): (scope, each) for scope, each in keys}
        found = await tombstones.found(connection, list(of_mark)) if of_mark else {}
        self.forgotten += len(found)
        return {of_mark[mark] for mark in found}

    def _expire(self, each: Told, bucket: UUID) -> None:
        if bucket in self._expired:
            self._say("expire_leaf_twice", each.scope_id, bucket)
        self._expired[bucket] = each.scope_id, each.said.n


def _key(each: Told) -> Key:
    return each.scope_id, each.said.p or UUID(int=0)


def _stands(each: Told, rows: Mapping[Key, Committed]) -> bool:
    row = rows.get(_key(each))
    return row is not None and each.leaf == _leaf(_key(each)[1], row)


def _was_lost(each: Told, rows: Mapping[Key, Committed], lost: Mapping[Key, LostPart]) -> bool:
    """Say whether a leaf tells of what a restore did not bring back; its part may have been written again since."""
    found = lost.get(_key(each))
    if found is None:
        return False
    if found.until is None:
        return _key(each) not in rows
    return each.index is not None and each.index <= found.until


def _leaf(evidence: UUID, row: Committed) -> bytes:
    return commitments.leaf(
        "part", b=row.bucket_id, c=row.commitment, m=row.meta_commitment, p=evidence, t=row.stored_at
    )
