"""Whether closings and the leaves that commit to them are the same ones: their records, as sums by scope."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from store import commitments
from store.db import Database
from store.services.verify_log import Sum
from store.tables import verify as table
from store.tables import verify_log
from store.tables.verify_log import ClosingRow

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Closings:
    """Sums of closings by scope: those of before `since`, so that one that comes meanwhile makes no difference."""

    def __init__(self, since: datetime) -> None:
        self._since_s = int(since.timestamp())
        self.sums: dict[UUID, Sum] = {}

    def add(self, scope: UUID, run: UUID, commitment: bytes, at_s: int) -> None:
        """Add one, as its row or its leaf tells it."""
        if at_s < self._since_s:
            self.sums.setdefault(scope, Sum()).add((run, UUID(bytes=commitment[:16])))

    def differing(self, other: "Closings") -> list[UUID]:
        """Return the scopes in which the two are not the same."""
        nothing = Sum()
        scopes = self.sums.keys() | other.sums.keys()
        return sorted(
            scope for scope in scopes if self.sums.get(scope, nothing) != other.sums.get(scope, nothing)
        )


async def closings_kept(database: Database, since: datetime, batch: int) -> Closings:
    """Return all closings that are kept, as `LeafCheck` finds their leaves."""
    kept, last = Closings(since), (*table.FIRST, _BEGINNING)
    while True:
        async with database.connection() as connection:
            rows = await verify_log.closings_after(connection, last, batch)
        for row in rows:
            kept.add(row.scope_id, row.run_uid, closing_of(row), int(row.closed_at.timestamp()))
        if len(rows) < batch:
            return kept
        last = (*rows[-1][:2], rows[-1].closed_at)


def closing_of(row: ClosingRow) -> bytes:
    """Return the commitment that a closing's leaf has."""
    return commitments.close_commitment(row.opening, row.record)
