"""A batch, whatever is in it: one bad entry never takes others with it, and is given up only after bounded tries."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from policies.reasons import Reason
from store.errors import RowRefused, Unavailable
from store.logging import logger
from store.queue import Entry, Settlement
from store.services.persist import Persisted, Persister


@dataclass(slots=True)
class Written:
    """What became of a batch; every entry is in exactly one of the lists."""

    # To be settled: committed.
    settlements: list[Settlement] = field(default_factory=list)
    # Left pending through no fault of theirs.
    waiting: list[Entry] = field(default_factory=list)
    # Left pending, to be tried again; each delivery brings them nearer to being given up.
    at_fault: list[Entry] = field(default_factory=list)
    # Not written, since something of ours was away; those that may have been written all the same say so.
    left: list[Entry] = field(default_factory=list)
    outage: Unavailable | None = None


class BatchWriter:
    """Persists batches, in halves where one is refused, down to the entry that is at fault."""

    def __init__(self, persister: Persister, *, max_deliveries: int) -> None:
        self._persister = persister
        self._max_deliveries = max_deliveries

    async def write(self, entries: Sequence[Entry]) -> Written:
        """Write what can be written. Nothing is raised for an outage; it is in what is returned."""
        written = Written()
        await self._write(entries, written)
        return written

    async def give_up(self, entry: Entry) -> Written:
        """End an entry as `write_failed` without opening it."""
        written = Written()
        await self._give_up(entry, written)
        return written

    async def _write(self, entries: Sequence[Entry], written: Written) -> None:
        if written.outage is not None:
            written.left += entries
            return
        try:
            done = await self._persister.persist(entries)
        except Unavailable as outage:
            written.outage = outage
            written.left += _marked(entries, outage)
        except RowRefused as refused:
            await self._write_halves(_marked(entries, refused), refused, written)
        else:
            await self._take(done, written)

    async def _write_halves(self, entries: Sequence[Entry], refused: RowRefused, written: Written) -> None:
        # What was remembered may be what is wrong: a partition that is not there any more.
        self._persister.forget()
        middle = len(entries) // 2
        if middle == 0:
            await self._at_fault(entries[0], refused.cause, written)
            return
        await self._write(entries[:middle], written)
        await self._write(entries[middle:], written)

    async def _take(self, done: Persisted, written: Written) -> None:
        written.settlements += done.settlements
        written.waiting += done.waiting
        for entry in done.faulty:
            await self._at_fault(entry, "Unreadable", written)

    async def _at_fault(self, entry: Entry, cause: str, written: Written) -> None:
        run_uid = entry.header.run_uid.hex()
        logger().warning(
            "entry_refused", cause=cause, count=entry.deliveries, run_uid=run_uid, kind=entry.type
        )
        if entry.deliveries < self._max_deliveries:
            written.at_fault.append(entry)
        else:
            await self._give_up(entry, written)

    async def _give_up(self, entry: Entry, written: Written) -> None:
        if written.outage is None:
            try:
                written.settlements.append(await self._recorded(entry))
            except Unavailable as outage:
                written.outage = outage
                (entry,) = _marked([entry], outage)
            else:
                return
        written.left.append(entry)

    async def _recorded(self, entry: Entry) -> Settlement:
        """Record the loss under its name, or only as a count where the name itself is at fault."""
        for named in (True, False):
            try:
                return await self._persister.give_up(entry, named=named)
            except (RowRefused, ValueError):
                continue
        logger().error("loss_unrecorded", run_uid=entry.header.run_uid.hex(), kind=entry.type)
        return entry.settle("refused", Reason.WRITE_FAILED)


def _marked(entries: Sequence[Entry], fault: Unavailable | RowRefused) -> Sequence[Entry]:
    """Let entries say that they may have been written, which is no delivery more and makes nobody suspect them."""
    if not fault.unclear:
        return entries
    return [msgspec.structs.replace(entry, unclear=True) for entry in entries]
