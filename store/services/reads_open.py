"""Whether evidence may be read at all: not from a database that lost or changed what was published of its log.

Reads are closed while the log is stopped, and once its publisher has not held it against the mirror for the lease: a
backup that was restored carries the time of its own last comparison, so it is closed before anybody has looked at it.
Where no comparison ever was (`compared_at` is null), as in a new store, reads are open until the first one: nothing
that the database knows of was published. Captures go on whatever is said here.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from policies.reasons import Reason
from store.db import Database
from store.errors import Unavailable
from store.services.last_known import LastKnown
from store.tables import log_reads

# As old as what is known may be, like the other facts that a process remembers.
_AGE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether reads are open; `closed` says why not."""

    closed: str | None


class ReadsOpen:
    """Asks the database, at most once a second."""

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self._lease_s = lease.total_seconds()
        self._known: LastKnown[None, Standing] = LastKnown(self._read, age_s=_AGE_S, size=1)

    async def require(self) -> None:
        """Raise Unavailable (reads_closed) unless evidence may be read."""
        standing = await self._known.get(None)
        if standing is not None and standing.closed is not None:
            raise Unavailable(Reason.READS_CLOSED, standing.closed)

    async def _read(self, _: None) -> Standing:
        async with self._database.connection() as connection:
            return Standing(await log_reads.closed(connection, self._lease_s))
