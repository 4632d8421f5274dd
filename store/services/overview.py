"""What operators look at: how the duties stand, and how much of what was observed is there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from store.db import Database
from store.services import publishing
from store.services.last_known import LastKnown
from store.services.standing import EVERY_S
from store.tables import completeness, leases, spans
from store.tables.completeness import Day
from store.tables.leases import LeaseRow

# Counting takes as long as there are many parts: a collector gets what was counted within this time.
_RECENT_AGE_S: Final = 300.0
_RECENT_DAYS: Final = 2
# So many of its periods, and at least so long, may pass before a duty counts as late.
_PERIODS: Final = 3
_LEAST_LATE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class DutyStanding:
    """One duty: how often it is due, and its lease, if it ever ran; `lag_s` is since it last succeeded."""

    duty: str
    every_s: int
    lease: LeaseRow | None

    @property
    def lag_s(self) -> float | None:
        """Return how long ago it last succeeded."""
        if self.lease is None or self.lease.last_success is None:
            return None
        return max(0.0, (self.lease.now - self.lease.last_success).total_seconds())

    @property
    def late_after_s(self) -> float:
        """Return from which lag on it is late: several of its periods, and never less than a few minutes."""
        return max(_LEAST_LATE_S, _PERIODS * self.every_s)

    @property
    def late(self) -> bool:
        """Say whether it is late; one that never ran may just have come."""
        return self.lag_s is not None and self.lag_s > self.late_after_s

    @property
    def next_by(self) -> datetime | None:
        """Return by when it is due again."""
        if self.lease is None or self.lease.last_started is None:
            return None
        return self.lease.last_started + timedelta(seconds=self.every_s)


class Overview:
    """Asks the database, as the service."""

    def __init__(self, database: Database, canary: bool) -> None:  # noqa: FBT001 - a setting
        self._database = database
        self._canary = canary
        self._recent: LastKnown[None, Sequence[Day]] = LastKnown(
            self._read_recent, age_s=_RECENT_AGE_S, size=1, grace_s=lambda _: math.inf
        )

    async def duties(self) -> list[DutyStanding]:
        """Return how every duty stands, also one that never ran."""
        async with self._database.connection() as connection:
            rows = {row.duty: row for row in await leases.all_leases(connection)}
        every_s = {**EVERY_S, publishing.DUTY: publishing.EVERY_S}
        names = [name for name in every_s if self._canary or name != "canary"]
        return [DutyStanding(name, every_s[name], rows.get(name)) for name in names]

    async def completeness(self, scope: UUID | None, days: int) -> tuple[Sequence[Day], datetime]:
        """Return the last `days` days of one scope, or of all, with the database's time; all in one snapshot."""
        async with (
            self._database.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            now = await spans.database_now(connection)
            today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            return await completeness.days(connection, scope, today - timedelta(days=days - 1)), now

    async def recent(self) -> Sequence[Day]:
        """Return today and yesterday (UTC) of all scopes, at most five minutes old."""
        return await self._recent.get(None) or ()

    async def _read_recent(self, _: None) -> Sequence[Day]:
        days, _now = await self.completeness(None, _RECENT_DAYS)
        return days
