"""How the proof log stands, for whoever reads: also while reads are closed, which is when one most wants to know."""

from dataclasses import dataclass
from datetime import datetime

from store.db import Database
from store.keyring import Keyring
from store.services.export.signing import bundle_signer, named_log_key, policy_text
from store.tables import log, log_reads


@dataclass(frozen=True, slots=True)
class LogStanding:
    """What is known of the log at `now`; `log_key` None: nobody has begun to publish it, and it has no name yet.

    `closed` says why reads are closed: `rolled_back`, `forked`, `restoring`, `not_compared`.
    """

    origin: str | None
    published_size: int
    compared_at: datetime | None
    closed: str | None
    stopped_at: datetime | None
    now: datetime
    log_key: str | None
    bundle_key: str | None
    policy: str | None


class LogStandings:
    """Asks the database as the service; nothing here depends on reads being open, and nothing here is evidence."""

    def __init__(self, database: Database, keyring: Keyring, *, lease_s: float) -> None:
        self._database = database
        self._keyring = keyring
        self._lease_s = lease_s

    async def now(self) -> LogStanding:
        """Return how the log stands."""
        async with self._database.connection() as connection:
            state = await log.state(connection)
            closed = await log_reads.closed(connection, self._lease_s)
            key = await named_log_key(connection)
        bundle = None if key is None else bundle_signer(self._keyring, key.name).key
        return LogStanding(
            origin=state.origin if key is None else key.name,
            published_size=state.published_size,
            compared_at=state.compared_at,
            closed=closed,
            stopped_at=state.stopped_at,
            now=state.now,
            log_key=None if key is None else key.text,
            bundle_key=None if bundle is None else bundle.text,
            policy=None if key is None or bundle is None else policy_text(key, bundle),
        )
