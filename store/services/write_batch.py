"""A batch, whatever is in it: one bad entry never takes others with it, and is given up only after bounded tries."""

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    # Not tried, since something of ours was away.
    left: list[Entry] = field(default_factory=list)
    outage: Unavailable | None = None


class BatchWriter:
    """Persists batches, in halves where one is refused, down to the entry that is at fault."""

    def __init__(self, persister: Persister, *, max_deliveries: int) -> None:
        self._persister = persister
        self._max_deliveries = max_deliveries

    async def write(self, entries: Sequence[Entry]) -> Written:
        """Write what can be written. Nothing is raised for an outage; it is in what is returned.

        An entry that was delivered too often without an outcome may be what its writers died of: it is tried alone and
        last, and then given up unopened.
        """
        written = Written()
        usual = [entry for entry in entries if entry.deliveries <= self._max_deliveries]
        if usual:
            await self._write_some(usual, written)
        for entry in entries:
            if entry.deliveries > self._max_deliveries:
                await self._write_suspect(entry, written)
        return written

    async def _write_suspect(self, entry: Entry, written: Written) -> None:
        if entry.deliveries > 2 * self._max_deliveries:
            await self._give_up(entry, written)
        else:
            await self._write_some([entry], written)

    async def _write_some(self, entries: Sequence[Entry], written: Written) -> None:
        if written.outage is not None:
            written.left += entries
            return
        try:
            await self._take(await self._persister.persist(entries), written)
        except Unavailable as outage:
            written.outage = outage
            written.left += entries
        except RowRefused as refused:
            self._persister.forget()
            if len(entries) == 1:
                await self._at_fault(entries[0], refused.cause, written)
                return
            middle = len(entries) // 2
            await self._write_some(entries[:middle], written)
            await self._write_some(entries[middle:], written)

    async def _take(self, done: Persisted, written: Written) -> None:
        written.settlements += done.settlements
        written.waiting += done.waiting
        for entry in done.faulty:
            await self._at_fault(entry, "Unreadable", written)

    async def _at_fault(self, entry: Entry, cause: str, written: Written) -> None:
        logger().warning(
            "entry_refused",
            cause=cause,
            count=entry.deliveries,
            run_uid=entry.header.run_uid.hex(),
            kind=entry.type,
        )
        if entry.deliveries < self._max_deliveries:
            written.at_fault.append(entry)
        else:
            await self._give_up(entry, written)

    async def _give_up(self, entry: Entry, written: Written) -> None:
        if written.outage is not None:
            written.left.append(entry)
            return
        try:
            written.settlements.append(await self._recorded(entry))
        except Unavailable as outage:
            written.outage = outage
            written.left.append(entry)

    async def _recorded(self, entry: Entry) -> Settlement:
        for named in (True, False):
            try:
                return await self._persister.give_up(entry, named=named)
            except (RowRefused, ValueError):
                continue
        logger().error("loss_unrecorded", run_uid=entry.header.run_uid.hex(), kind=entry.type)
        return entry.settle("refused", Reason.WRITE_FAILED)
