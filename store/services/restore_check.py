"""What an operator asks before and after a restore: are reads open, what is missing, what did the last one change."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from store.db import Database
from store.errors import CustodyError
from store.keyring import Keyring
from store.mirror import Mirror
from store.services.housekeeping import BucketKeys
from store.services.log_admin import LogAdmin, LogStatus
from store.services.restore_copy import leaves_beyond, said
from store.tables import log_reads, restores
from store.tables.buckets import BucketKey
from store.tables.restores import RestoreRow


@dataclass(frozen=True, slots=True)
class Findings:
    """How things stand. `beyond` counts, by kind, the mirror's leaves that the database has not; `trouble` why not."""

    closed: str | None
    log: LogStatus
    under_way: RestoreRow | None
    last: RestoreRow | None
    missing_keys: list[BucketKey]
    beyond: Mapping[str, int]
    trouble: str

    @property
    def sound(self) -> bool:
        """Say whether there is nothing to be done."""
        waiting = self.closed or self.beyond or self.under_way or self.trouble or self.missing_keys
        return not (waiting or self.log.against)


async def findings(database: Database, keyring: Keyring, mirror: Mirror, lease: timedelta) -> Findings:
    """Look, and change nothing."""
    status = await LogAdmin(database, mirror).status()
    async with database.connection() as connection:
        closed = await log_reads.closed(connection, lease.total_seconds())
        under_way, last = await restores.under_way(connection), await restores.last(connection)
    _, lost = await BucketKeys(database, keyring).look()
    trouble, beyond = await _compared(mirror, status)
    return Findings(closed, status, under_way, last, list(lost), beyond, trouble)


async def _compared(mirror: Mirror, status: LogStatus) -> tuple[str, Counter[str]]:
    """Return why nothing can be said, or how many leaves of each kind the database has not."""
    held = status.mirror
    if held is None:
        return status.trouble, Counter()
    if held.note is None and status.state.published_size:
        return "the mirror is empty, and leaves were published: is it mounted?", Counter()
    try:
        return "", await asyncio.to_thread(_beyond, mirror, status.state.size, held.size)
    except CustodyError as fault:
        return fault.detail or fault.reason.value, Counter()


def _beyond(mirror: Mirror, first: int, end: int) -> Counter[str]:
    return Counter(said(leaf).k for some in leaves_beyond(mirror, first, end) for leaf in some)
