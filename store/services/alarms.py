"""What stands above everything else: why evidence is not shown now, and what needs an operator.

It is what docs/operations.md calls an alarm, as far as the database and the queue can tell it; what a single process
found (a line of its log, a counter of its own) is not here.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from store.clock import utc_now
from store.config import Settings
from store.db import Database
from store.errors import Unavailable
from store.queue import Depth, Queue
from store.services import key_check
from store.services.duties import counted
from store.services.last_known import LastKnown
from store.services.overview import DutyStanding, Overview
from store.services.readiness import backlog_age_s
from store.tables import buckets, log, log_reads
from store.tables.log import State

_AGE_S: Final = 3.0
_DEADLINE_S: Final = 2.0
_WRITERS_BEHIND_S: Final = 60.0
_LEAVES_BEHIND_S: Final = 120.0
_SPANS_BEHIND: Final = 2


class Alarm(StrEnum):
    """What is wrong; the first four close reads to everybody, the others are for operators."""

    ROLLED_BACK = "rolled_back"
    FORKED = "forked"
    RESTORING = "restoring"
    NOT_COMPARED = "not_compared"
    KEYS_WRONG = "keys_wrong"
    DUTIES_LATE = "duties_late"
    QUEUE_AWAY = "queue_away"
    WRITERS_BEHIND = "writers_behind"
    LEAVES_WAIT = "leaves_wait"
    EXPIRY_BEHIND = "expiry_behind"
    UNANSWERED = "unanswered"


STOPS: Final = frozenset({Alarm.ROLLED_BACK, Alarm.FORKED, Alarm.RESTORING, Alarm.NOT_COMPARED})


@dataclass(frozen=True, slots=True)
class Raised:
    """One alarm: since when, where that is known, and of what (duties by name, faults by number)."""

    alarm: Alarm
    since: datetime | None = None
    what: Sequence[str] = ()


class Alarms:
    """Asks Postgres and the queue."""

    def __init__(self, database: Database, queue: Queue, overview: Overview, settings: Settings) -> None:
        self._database = database
        self._queue = queue
        self._overview = overview
        self._settings = settings
        self._began = utc_now()
        self._known: LastKnown[None, Sequence[Raised]] = LastKnown(self._read, age_s=_AGE_S, size=1)

    async def raised(self, *, operates: bool) -> list[Raised]:
        """Return what is wrong now; to who does not operate, only what closes reads."""
        found = await self._known.get(None) or ()
        return [each for each in found if operates or each.alarm in STOPS]

    async def _read(self, _: None) -> Sequence[Raised]:
        database, queue = await asyncio.gather(self._of_database(), self._of_queue())
        return [*database, *queue]

    async def _of_database(self) -> Sequence[Raised]:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                duties = await self._overview.duties()
                async with self._database.connection() as connection:
                    now = utc_now()
                    state = await log.state(connection)
                    closed = await log_reads.closed(connection, self._settings.reads_lease.total_seconds())
                    backlog = await log.backlog(connection)
                    oldest = await buckets.oldest_undestroyed(connection)
        except (Unavailable, TimeoutError):
            return [Raised(Alarm.UNANSWERED)]
        return [
            *_stop(closed, state),
            *self._duties(duties, now),
            *_behind(Alarm.LEAVES_WAIT, backlog_age_s(backlog), _LEAVES_BEHIND_S, now),
            *self._expiry(oldest, now),
        ]

    async def _of_queue(self) -> Sequence[Raised]:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                return [*_writers(await self._queue.depth(), utc_now())]
        except (Unavailable, TimeoutError):
            return [Raised(Alarm.QUEUE_AWAY)]

    def _duties(self, duties: Sequence[DutyStanding], now: datetime) -> Iterator[Raised]:
        late = [each for each in duties if self._late(each, now)]
        if late:
            times = [each.lease.last_success for each in late if each.lease and each.lease.last_success]
            yield Raised(Alarm.DUTIES_LATE, min(times, default=None), [each.duty for each in late])
        for each in duties:
            outcome = each.lease.last_outcome if each.lease else None
            faults = counted(outcome, "faults") if each.duty == key_check.DUTY else None
            if faults:
                yield Raised(Alarm.KEYS_WRONG, what=[str(faults)])

    def _late(self, duty: DutyStanding, now: datetime) -> bool:
        # One that never ran is given its time from when we began to look.
        lag_s = duty.lag_s if duty.lag_s is not None else (now - self._began).total_seconds()
        return lag_s > duty.late_after_s

    def _expiry(self, oldest: datetime | None, now: datetime) -> Iterator[Raised]:
        if oldest is not None and now - oldest > _SPANS_BEHIND * self._settings.bucket_span:
            yield Raised(Alarm.EXPIRY_BEHIND, oldest)


def _stop(closed: str | None, state: State) -> Iterator[Raised]:
    if closed is not None:
        # A log that is stopped goes on being compared.
        yield Raised(Alarm(closed), state.compared_at if closed == Alarm.NOT_COMPARED else state.stopped_at)


def _writers(depths: Sequence[Depth], now: datetime) -> Iterator[Raised]:
    yield from _behind(
        Alarm.WRITERS_BEHIND,
        max((depth.oldest_age_s for depth in depths), default=0.0),
        _WRITERS_BEHIND_S,
        now,
    )


def _behind(alarm: Alarm, age_s: float, most_s: float, now: datetime) -> Iterator[Raised]:
    if age_s > most_s:
        yield Raised(alarm, now - timedelta(seconds=age_s))
