"""`python -m store verify`: whether what is stored still is what it was committed to. Ids only, never content.

It reads all of it in bounded batches, beside a service that goes on working: what looks wrong is looked at again before
it is called a fault. It changes nothing, but for reservations of the write queue, which it counts anew.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from store.db import Connection, Database
from store.keyring import Keyring
from store.mirror import Mirror
from store.queue import Queue
from store.services import verify_closings, verify_counts, verify_log, verify_parts
from store.services.verify_leaves import LeafCheck
from store.services.verify_log import Page, Seen
from store.services.verify_mirror import MirrorCheck
from store.services.verify_tree import TreeCheck
from store.tables import spans
from store.tables import verify as table
from store.tables import verify_log as log_table
from store.tables.log import State
from store.tables.verify import FIRST, BucketRow, Key, PartRow

_BATCH: Final = 500
_MOST_LISTED: Final = 1_000
# Parts that were minted this long before it begins are all there: none waits longer for a writer, or hardly any.
_NEW: Final = timedelta(minutes=10)
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where."""

    kind: str
    scope_id: UUID | None
    id: str


@dataclass(slots=True)
class Report:
    """What was checked, what is wrong with it, and what was not looked at."""

    checked: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    # Faults beyond those that are listed.
    unlisted: int = 0
    not_checked: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Say whether nothing wrong was found in what was looked at."""
        return not self.faults

    def add(self, kind: str, scope: UUID | None, where: object) -> None:
        """Note a fault."""
        if len(self.faults) < _MOST_LISTED:
            self.faults.append(Fault(kind, scope, str(where)))
        else:
            self.unlisted += 1


async def verify(
    database: Database,
    keyring: Keyring,
    queue: Queue | None = None,
    mirror: Mirror | None = None,
    *,
    batch: int = _BATCH,
) -> Report:
    """Check everything; Unavailable where something cannot be reached, which says nothing about what is stored."""
    report = Report()
    check = _Check(database, keyring, report, batch)
    await check.buckets()
    parts = await check.parts()
    await check.bodies()
    await check.leaves(parts)
    await check.gaps()
    report.checked["closed runs"] += await verify_counts.check(database, report.add)
    report.not_checked += [
        "revoke leaves against sources",
        "export bundles and backups",
        "content whose bucket has expired, and metadata of which only a hash stays",
    ]
    if mirror is None or not await check.mirror(mirror):
        report.not_checked.append("the mirror, and who signed the checkpoints")
    if queue is None:
        report.not_checked.append("the write queue")
    else:
        await _check_queue(queue, report)
    return report


class _Check:
    """One run over the database."""

    def __init__(self, database: Database, keyring: Keyring, report: Report, batch: int) -> None:
        self._database = database
        self._keyring = keyring
        self._report = report
        self._batch = batch
        # Found before the first leaf is read, so that their leaves must be there.
        self._expired: list[Key] = []
        self._unlogged: list[Key] = []

    async def mirror(self, mirror: Mirror) -> bool:
        """The mirror is what its checkpoint vouches for, and the database's log; False where there is none to check."""
        check = MirrorCheck(self._database, mirror, lambda kind, where: self._report.add(kind, None, where))
        found = await check.run()
        self._report.checked.update(check.counted)
        return found

    async def buckets(self) -> None:
        """Every live bucket has a key and a partition; of a destroyed one no key is left."""
        last = FIRST
        while True:
            rows, faults = await self._look_at_buckets(last)
            if faults:
                # One that expired meanwhile is no fault.
                rows, faults = await self._look_at_buckets(last)
            for row, kind in faults:
                self._report.add(kind, row.scope_id, row.bucket_id)
            # What holds beyond spans does not expire; its key is changed.
            self._expired += [
                (row.scope_id, row.bucket_id)
                for row in rows
                if row.state != "live" and row.span_start is not None
            ]
            self._report.checked["buckets"] += len(rows)
            if len(rows) < self._batch:
                return
            last = (rows[-1].scope_id, rows[-1].bucket_id)

    async def _look_at_buckets(self, last: Key) -> tuple[list[BucketRow], list[tuple[BucketRow, str]]]:
        async with self._database.connection() as connection:
            rows = await table.buckets_after(connection, last, self._batch)
            # Read after the rows, since partitions are made before them.
            attached = {span.span_start for span in await spans.attached(connection)}
        return rows, [
            (row, kind) for row in rows for kind in verify_parts.bucket_faults(row, attached, self._keyring)
        ]

    async def parts(self) -> Seen:
        """Every part is what it was committed to; return which parts there are."""
        async with self._database.connection() as connection:
            seen, last = Seen(await spans.database_now(connection) - _NEW), FIRST
        while True:
            async with self._database.transaction() as connection:
                await table.from_one_instant(connection)
                rows = await table.parts_after(connection, last, self._batch)
                bodies = await verify_parts.bodies_of(connection, rows)
                gone = [row.key for row in rows if row.state in ("purging", "purged")]
                self._unlogged += await log_table.purges_unlogged(connection, gone) if gone else []
            suspects = []
            for row in rows:
                seen.add(row.key)
                if any(True for _ in verify_parts.faults_of(row, bodies.get(row.key), self._keyring)):
                    suspects.append(row.key)
            self._report.checked["parts"] += len(rows)
            self._report.checked["bodies"] += len(bodies)
            if suspects:
                await self._look_again(suspects)
            if len(rows) < self._batch:
                return seen
            last = rows[-1].key

    async def _look_again(self, keys: Sequence[Key]) -> None:
        """A bucket that expired, or a part that was purged meanwhile, is no fault."""
        async with self._database.transaction() as connection:
            await table.from_one_instant(connection)
            rows: list[PartRow] = await table.parts_named(connection, keys)
            bodies = await verify_parts.bodies_of(connection, rows)
        for row in rows:
            for kind in verify_parts.faults_of(row, bodies.get(row.key), self._keyring):
                self._report.add(kind, row.scope_id, row.evidence)

    async def bodies(self) -> None:
        """Every body belongs to a part that may have one, in its span."""
        last = (_BEGINNING, *FIRST)
        while True:
            async with self._database.connection() as connection:
                rows = await table.bodies_after(connection, last, self._batch)
                strays = [
                    row
                    for row in rows
                    if row.state in (None, "purged", "lost_in_restore") or row.part_span != row.span_start
                ]
                found = await table.bodies_stray(connection, strays) if strays else []
            for scope, evidence in found:
                self._report.add("body_without_part", scope, evidence)
            if len(rows) < self._batch:
                return
            last = rows[-1][:3]

    async def leaves(self, parts: Seen) -> None:
        """The log is the tree of its entries, and leaves and what they are about say the same of each other."""
        report = self._report
        kept = await verify_closings.closings_kept(self._database, parts.since, self._batch)
        tree = TreeCheck(lambda kind, where: report.add(kind, None, where))
        lookup = self._keyring.token_key("lookup")
        leaves = LeafCheck(report.add, parts.since, self._unlogged, lookup)

        async def take(connection: Connection, page: Page) -> None:
            await tree.add(connection, page)
            await leaves.add(connection, page)

        async def end(connection: Connection, state: State) -> None:
            await tree.end(connection, state)
            await leaves.end(connection, self._expired)

        report.checked["leaves"] += await verify_log.walk(self._database, self._batch, take, end)
        report.checked["leaves of what was forgotten"] += leaves.forgotten
        report.checked["leaves of what a restore did not bring back"] += leaves.lost
        report.checked["tiles"] += tree.tiles
        report.checked["checkpoints"] += tree.checkpoints
        for scope in kept.differing(leaves.closings):
            report.add("closing_leaf_missing", scope, "closings")
        if leaves.closings_unkept:
            report.not_checked.append(
                f"{leaves.closings_unkept} close leaves of a version that kept no record"
            )
        missing, several = await verify_log.unmatched(
            self._database, parts, leaves.parts, leaves.lost_parts, self._batch
        )
        for kind, keys in (("leaf_missing", missing), ("leaf_twice", several)):
            for scope, evidence in keys:
                report.add(kind, scope, evidence)

    async def gaps(self) -> None:
        """A gap that names the part that came after all names one that is there, under the same identity."""
        last = (*FIRST, UUID(int=0))
        while True:
            async with self._database.connection() as connection:
                rows = await table.superseded_after(connection, last, self._batch)
            for row in rows:
                if not row.there:
                    self._report.add("superseded_by_nothing", row.scope_id, row.gap_id)
            self._report.checked["superseded gaps"] += len(rows)
            if len(rows) < self._batch:
                return
            last = rows[-1][:3]


async def _check_queue(queue: Queue, report: Report) -> None:
    """Reservations say what the streams hold; those that did not are counted anew by the question itself."""
    for shard in queue.shards:
        wrong = await queue.recount(shard)
        report.checked["queue shards"] += 1
        if wrong:
            report.add("reservations_wrong", None, f"shard {shard}: {wrong}")
