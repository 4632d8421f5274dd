"""The writer's transaction: parts, bodies, source sets, attempt states, facts, gaps and leaves of a batch, all or none.

Delivered twice changes nothing. Whoever calls settles the queue's entries only with what was returned, which is after
the commit; on anything that is raised the entries stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from policies.limits import RUN_FACTS
from policies.reasons import Reason
from store.clock import monotonic
from store.db import Connection, Database
from store.errors import RowRefused, Unavailable
from store.keyring import Keyring
from store.queue import Entry, Settlement
from store.queue.entries import FactHeader, GapHeader, PartHeader, StateHeader
from store.services import gap_records
from store.services.batch_rows import Batch, Verdicts, loss, reported, run_of, write_notes, write_parts
from store.services.destinations import Destinations
from store.services.fact_rows import fact_entry, write_facts
from store.services.gap_records import Gap
from store.services.recheck import Ground, gather
from store.services.sealing import Sealing
from store.tables import batch as table
from store.tables import parts, source_sets
from store.tables.parts import Identified
from store.tables.source_sets import SourceSet

# A run may be narrowed between sealing and locking; then its parts are sealed again for where they belong now.
_ROUNDS: Final = 3
_MOST_SETS: Final = 8_192
# Sets that nobody uses are forgotten an hour after they were put last; nobody may remember one for so long.
_SETS_FOR_S: Final = 600.0


@dataclass(slots=True)
class Persisted:
    """What became of a batch; every entry is in exactly one of the lists."""

    settlements: list[Settlement] = field(default_factory=list)
    # Nothing is wrong with them: their bucket, its key or its partition is not there yet.
    waiting: list[Entry] = field(default_factory=list)
    # They cannot be opened or understood.
    faulty: list[Entry] = field(default_factory=list)


class Persister:
    """Writes batches for one process; remembers where the parts of its runs go."""

    def __init__(
        self, database: Database, keyring: Keyring, *, most_bytes: int, most_facts: int = RUN_FACTS
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._most_bytes = most_bytes
        self._most_facts = most_facts
        self._destinations = Destinations(database)
        self._known_sets: set[tuple[UUID, bytes]] = set()
        self._known_until = monotonic() + _SETS_FOR_S

    async def persist(self, entries: Sequence[Entry]) -> Persisted:
        """Write a batch. Raises RowRefused where a row of it will never be taken, Unavailable for an outage.

        Either is `unclear` where some of the batch is or may be committed.
        """
        done = Persisted()
        left = list(entries)
        for _ in range(_ROUNDS):
            try:
                verdicts = await self._write(await self._prepare(left, done))
            except (RowRefused, Unavailable) as fault:
                # What an earlier round committed is told to nobody, and comes again with the rest.
                fault.unclear |= bool(done.settlements)
                raise
            done.settlements += verdicts.settlements
            done.waiting += verdicts.waiting
            done.faulty += verdicts.faulty
            left = verdicts.stale
            if not left:
                return done
            self._destinations.forget(run_of(entry.header) for entry in left)
        done.waiting += left
        return done

    async def give_up(self, entry: Entry, *, named: bool) -> Settlement:
        """Record that an entry cannot be written: under its name, or only as a count where the name is at fault."""
        header = entry.header
        async with self._database.transaction() as connection:
            ground = await gather(connection, (), [run_of(header)], b"")
            if isinstance(header, PartHeader) and named and await _is_written(connection, header):
                return entry.settle("stored")
            if ground.runs and not isinstance(header, StateHeader | FactHeader):
                gap = _lost(entry, header)
                await gap_records.record(connection, [gap if named else gap.bare()], (), ground.temporary())
        return entry.settle("refused", Reason.WRITE_FAILED)

    def forget(self) -> None:
        """Forget what was remembered of the database: something in it was not as expected."""
        self._destinations.forget_all()
        self._known_sets.clear()

    async def _prepare(self, entries: Sequence[Entry], done: Persisted) -> Batch:
        batch = Batch()
        wanted = {run_of(entry.header) for entry in entries if entry.type == "part"}
        buckets = await self._destinations.of(wanted) if wanted else {}
        sealing = Sealing(self._keyring, self._most_bytes, buckets, len(entries))
        for entry in entries:
            header = entry.header
            try:
                if isinstance(header, PartHeader):
                    batch.parts.append(sealing.candidate(entry, header, run_of(header)))
                elif isinstance(header, StateHeader):
                    batch.states.append((entry, header))
                elif isinstance(header, FactHeader):
                    batch.facts.append(fact_entry(entry, header))
                else:
                    batch.gaps.append((entry, reported(entry, header)))
            except ValueError:
                done.faulty.append(entry)
        return batch

    async def _write(self, batch: Batch) -> Verdicts:
        """Commit, as cheaply as can be where nothing of it was written before: which is nearly always so."""
        if not batch:
            return Verdicts()
        if not any(part.entry.again for part in batch.parts):
            try:
                return await self._commit(batch, fresh=True)
            except RowRefused as refused:
                if refused.cause not in parts.TAKEN:
                    raise
        return await self._commit(batch, fresh=False)

    async def _commit(self, batch: Batch, *, fresh: bool) -> Verdicts:
        lookup = self._keyring.token_key("lookup")
        async with self._database.transaction() as connection:
            ground = await gather(connection, batch.parts, batch.runs(), lookup)
            verdicts = await write_parts(connection, batch.parts, ground, fresh=fresh)
            sets = await self._put_sets(connection, verdicts)
            await write_notes(connection, batch, verdicts, ground)
            if batch.facts:
                verdicts.settlements += await write_facts(connection, batch.facts, ground, self._most_facts)
            await _record_gaps(connection, verdicts, ground)
        if len(self._known_sets) > _MOST_SETS:
            self._known_sets.clear()
        self._known_sets |= sets
        return verdicts

    async def _put_sets(self, connection: Connection, verdicts: Verdicts) -> set[tuple[UUID, bytes]]:
        sets: dict[tuple[UUID, bytes], SourceSet] = {}
        if monotonic() > self._known_until:
            self._known_sets.clear()
            self._known_until = monotonic() + _SETS_FOR_S
        for _, sealed in verdicts.stored:
            if sealed.source_set is not None and sealed.source_set[:2] not in self._known_sets:
                sets[sealed.source_set[:2]] = sealed.source_set
        if sets:
            await source_sets.put(connection, [sets[key] for key in sorted(sets)])
        return set(sets)


async def _record_gaps(connection: Connection, verdicts: Verdicts, ground: Ground) -> None:
    runs = {gap.run for gap in verdicts.gaps}
    if verdicts.stored:
        runs |= await table.gapped(connection, verdicts.runs())
    await gap_records.record(connection, verdicts.gaps, verdicts.names(runs), ground.temporary())


def _lost(entry: Entry, header: PartHeader | GapHeader) -> Gap:
    if isinstance(header, PartHeader):
        return loss(entry, header, Reason.WRITE_FAILED)
    return reported(entry, header)


async def _is_written(connection: Connection, header: PartHeader) -> bool:
    identity = Identified(*run_of(header), header.exchange, header.attempt, header.kind)
    holder = (await parts.holders(connection, [identity])).get(identity)
    return holder is not None and holder.evidence.bytes == header.evidence
