"""Access records: committed before a byte leaves, grouped over reads that happen together.

Fails closed: where the record cannot be committed, the read is an outage and nothing is given out. One commit for each
read would cost most of the speed of reading, so those that arrive while a commit is under way share the next one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from policies.kinds import Role
from policies.reasons import Reason
from store.db import Database
from store.errors import RowRefused, Unavailable
from store.services.paging import Asked, Page, Pager, Reader, Window, ends
from store.services.read_volume import ReadVolume
from store.services.together import Together
from store.tables import accesses, pages
from store.tables.accesses import Access

READ: Final = "read"

# How long the next group is gathered where one commit follows another; a lone read waits for nobody.
_GATHER_S: Final = 0.002
_MOST_IN_GROUP: Final = 512


class AccessLog:
    """Records accesses of one process."""

    def __init__(self, database: Database, volume: ReadVolume | None = None) -> None:
        """Prepare; `volume` is told of what was recorded."""
        self._database = database
        self._volume = volume
        self._together: Together[Access, None] = Together(
            self._commit, most=_MOST_IN_GROUP, gather_s=_GATHER_S
        )

    async def record(self, access: Access) -> None:
        """Return once the record is committed; Unavailable if it could not be, and then nothing may be given out."""
        await self._together.ask(access)

    async def record_all(self, group: Sequence[Access]) -> None:
        """Record many in one transaction; as `record`."""
        if group:
            await self._commit(group)

    async def close(self) -> None:
        """Wait for what is being written."""
        await self._together.close()
        if self._volume is not None:
            await self._volume.close()

    async def _commit(self, group: Sequence[Access]) -> Sequence[None]:
        try:
            # One statement is its own transaction.
            async with self._database.connection() as connection:
                await accesses.insert(connection, group)
        except RowRefused as fault:
            # This month's table is missing. That is ours to mend and no fault of the reader.
            raise Unavailable(Reason.STORE_UNAVAILABLE, cause=fault.cause) from None
        if self._volume is not None:
            self._volume.count(group)
        return [None] * len(group)


class AccessItem(msgspec.Struct, frozen=True):
    """One read of content, or one that was refused; `outcome` is `read` or the reason."""

    at: datetime
    access_id: UUID
    key_id: str
    role: Role
    evidence: UUID
    purpose: str | None
    outcome: str


class AccessPages:
    """Shows who read what."""

    def __init__(self, database: Database, pager: Pager, *, examined: int) -> None:
        self._database = database
        self._pager = pager
        self._examined = examined

    async def page(
        self, reader: Reader, evidence: UUID | None, key_id: str | None, asked: Asked
    ) -> Page[AccessItem]:
        """Return one page of accesses; with a key it may be short and have a next."""
        said = {"evidence": None if evidence is None else str(evidence), "key": key_id}
        filters = {name: value for name, value in said.items() if value is not None}
        turn = self._pager.turn(reader, "accesses", filters, asked)
        # There is no index of keys: as many rows as a page may examine are looked through.
        look = turn.limit if key_id is None else self._examined
        async with self._database.connection() as connection:
            rows = await accesses.page(connection, reader.scope, turn.keyset, look + 1, evidence)
            instants = (rows[0].opened_at, rows[-1].read_at) if rows else await pages.instants(connection)
        shown, last = ends([row for row in rows[:look] if key_id in (None, row.access.key_id)], turn.limit)
        if last is None and len(rows) > look:
            last = rows[look - 1]
        window = Window(*instants)
        place = None if last is None else (last.at, last.access_id)
        items = [
            AccessItem(
                row.at,
                row.access_id,
                row.access.key_id,
                row.access.role,
                row.access.evidence,
                row.access.purpose,
                row.access.outcome,
            )
            for row in shown
        ]
        return Page(items, self._pager.info(turn, window.opened_at, window, place))
