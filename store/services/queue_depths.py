"""How deep the queue was and what was refused, over time. A duty notes it once a minute; operators look at it.

What is refused is counted by the queue itself, which all apis and writers share: when it refuses a part, when it takes
the gap of one that was refused before it, and when a writer settles one as refused. Counters of one process would miss
the others'. A flush that is refused unread counts once for each range of its numbers. Not among it is what no queue
hears of: refusals for want of a run that is known, and while it does not answer; /metrics of each api has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from policies.reasons import FAMILY, OUTCOMES, Family, Reason
from store.db import Database
from store.queue import Queue
from store.tables import queue_depths
from store.tables.queue_depths import Counted, Stretch

DUTY: Final = "depths"

# What Custody refuses; what a runtime lost by itself, and what counting finds, is no refusal.
REFUSALS: Final = frozenset(
    reason for reason in OUTCOMES if not FAMILY[reason] <= {Family.CLIENT, Family.COUNTED}
)
# What waits may be a single part, of which a finer number would say more than is left of it after a purge.
_LEAST_CLASS: Final = 1 << 20
_MINUTE: Final = timedelta(minutes=1)


class Window(StrEnum):
    """How far back one looks."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"


@dataclass(frozen=True, slots=True)
class Span:
    """How long a window is, and how much of it is put together in one point: there are at most 170 of them."""

    length: timedelta
    step: timedelta


SPANS: Final[Mapping[Window, Span]] = MappingProxyType(
    {
        Window.HOUR: Span(timedelta(hours=1), _MINUTE),
        Window.DAY: Span(timedelta(hours=24), timedelta(minutes=10)),
        Window.WEEK: Span(timedelta(days=7), timedelta(hours=1)),
    }
)


@dataclass(frozen=True, slots=True)
class Point:
    """The most that waited in the minutes from `first` to `last`; `bytes_class` is a power of two, `oldest_s` an age.

    `refused` counts since the minute `since`, the last of the point before. It is None where that cannot be told: there
    is no point before, or the queue began anew.
    """

    first: datetime
    last: datetime
    parts: int
    notes: int
    bytes_class: int
    oldest_s: float
    since: datetime | None
    refused: Mapping[Reason, int] | None

    @property
    def items(self) -> int:
        """Return how much waited, of whatever kind."""
        return self.parts + self.notes

    @property
    def times(self) -> int | None:
        """Return how often something was refused, for whatever reason."""
        return None if self.refused is None else sum(self.refused.values())


@dataclass(frozen=True, slots=True)
class History:
    """A window, from `begins` to `now` (database time). `noted_since` None: nothing was ever noted.

    Where nothing was noted for longer than `step`, points are missing: that is no zero.
    """

    window: Window
    begins: datetime
    now: datetime
    step: timedelta
    noted_since: datetime | None
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Depths:
    """The duty; `database` acts as the duties."""

    database: Database
    queue: Queue

    async def run(self) -> Mapping[str, int]:
        """Note this minute, once, and forget what is older than a week. What the queue does not answer is not noted."""
        depths = await self.queue.depth()
        counted = await self.queue.outcomes()
        # Asked last: of a queue that was lost meanwhile, the counts are not taken for those of the one before.
        epochs = await self.queue.epochs()
        async with self.database.transaction() as connection:
            noted = await queue_depths.note(
                connection,
                parts=sum(each.parts for each in depths),
                notes=sum(each.notes for each in depths),
                bytes_class=_class_of(sum(each.bytes for each in depths)),
                oldest_s=max((each.oldest_age_s for each in depths), default=0.0),
                counts={reason.value: counted[reason] for reason in sorted(REFUSALS) if counted.get(reason)},
                queue=_named(epochs),
            )
            return {"noted": int(noted), "forgotten": await queue_depths.forget(connection)}


class QueueHistory:
    """Asks the database, as the service."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, window: Window) -> History:
        """Return what was noted in a window; all in one snapshot."""
        span = SPANS[window]
        async with (
            self._database.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            kept = await queue_depths.kept(connection)
            begins = _floor(kept.now - span.length, span.step)
            before = await queue_depths.before(connection, begins)
            found = await queue_depths.stretches(connection, begins, span.step.total_seconds())
        return History(window, begins, kept.now, span.step, kept.first, points(before, found))


def points(before: Counted | None, stretches: Sequence[Stretch]) -> list[Point]:
    """Compare each stretch's counts with those of the one before; `before` is what was noted before the first."""
    found = []
    for each in stretches:
        found.append(
            Point(
                each.first, each.end.minute, each.parts, each.notes, each.bytes_class, each.oldest_s,
                None if before is None else before.minute, _refused(before, each),
            )
        )  # fmt: skip
        before = each.end
    return found


def _refused(before: Counted | None, stretch: Stretch) -> Mapping[Reason, int] | None:
    now = stretch.end
    if before is None or not stretch.one_queue or before.queue != now.queue:
        return None
    counts = {reason: now.counts.get(reason, 0) - before.counts.get(reason, 0) for reason in sorted(REFUSALS)}
    # A queue that came back without its last second counts some of it again.
    if any(count < 0 for count in counts.values()):
        return None
    return {reason: count for reason, count in counts.items() if count}


def _class_of(size: int) -> int:
    return max(_LEAST_CLASS, 1 << (size - 1).bit_length()) if size else 0


def _named(epochs: Mapping[int, str | None]) -> str | None:
    """Name the queue by its shards' epochs; None where one has none."""
    known = [epoch for _, epoch in sorted(epochs.items()) if epoch is not None]
    return " ".join(known) if len(known) == len(epochs) else None


def _floor(instant: datetime, step: timedelta) -> datetime:
    """Return where the stretch begins that an instant is in; those of the database begin with the epoch too."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (instant - epoch) // step * step
