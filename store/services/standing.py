"""The list of standing duties: what each is called, how often it is due at least, and how it is done."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from store.config import Settings
from store.db import Database
from store.keyring import Keyring
from store.queue import Queue
from store.services import (
    accounting,
    expiry,
    forgetting,
    housekeeping,
    intake_keys,
    key_check,
    purge,
    queue_depths,
    reconcile,
    sequencing,
)
from store.services.buckets import buckets_due, ensure_buckets
from store.services.compared import trusted
from store.services.duties import Counts, Outcome, perform
from store.tables import log

BUCKETS: Final = "buckets"
INTAKE_KEYS: Final = intake_keys.DUTY
CANARY: Final = "canary"

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400

# What destroys stands still while the log is stopped or nobody has compared it: holds may only come back with what is
# missing, and what was destroyed comes back with nothing.
_DESTROYING: Final = frozenset({purge.DUTY, expiry.DUTY, forgetting.DUTY})


@dataclass(frozen=True, slots=True)
class Duty:
    """One duty. It is done every `every_s`, and within a second where `due` says that it cannot wait so long."""

    name: str
    every_s: int
    act: Callable[[], Coroutine[Any, Any, Counts]]
    due: Callable[[], Awaitable[bool]] | None = None


# In this order by hand: what makes comes before what destroys, what closes to readers before what frees space, and last
# what all of them queued gets its place in the log.
EVERY_S: Final[Mapping[str, int]] = {
    intake_keys.DUTY: 10 * MINUTE_S,
    BUCKETS: MINUTE_S,
    reconcile.DUTY: MINUTE_S,
    accounting.DUTY: HOUR_S,
    purge.DUTY: MINUTE_S,
    expiry.DUTY: MINUTE_S,
    sequencing.DUTY: MINUTE_S,
    forgetting.DUTY: HOUR_S,
    housekeeping.MONTHS: HOUR_S,
    queue_depths.DUTY: MINUTE_S,
    key_check.DUTY: DAY_S,
    CANARY: MINUTE_S,
}


class Duties:
    """The duties of one process, each done under its lease."""

    def __init__(
        self,
        database: Database,
        queue: Queue,
        keyring: Keyring,
        settings: Settings,
        canary: Callable[[], Coroutine[Any, Any, Counts]] | None = None,
    ) -> None:
        """`database` acts as the duties; without a `canary` that duty is not there."""
        self._database = database
        self._reads_lease = settings.reads_lease
        span_s = int(settings.bucket_span.total_seconds())
        expiring = expiry.Expiry(database, keyring, queue, span_s)
        purging = purge.Purge(database, keyring, queue, settings.hold_grace.total_seconds(), span_s)
        closing = reconcile.Reconcile(database, queue, settings.closing, settings.never_closed)
        sequencer = sequencing.Sequencer(database, settings.reads_lease)

        async def make_buckets() -> Counts:
            made = await ensure_buckets(database, keyring, span_s=span_s)
            return {"partitions": made.partitions, "buckets": made.buckets}

        acts: dict[
            str, tuple[Callable[[], Coroutine[Any, Any, Counts]], Callable[[], Awaitable[bool]] | None]
        ] = {
            intake_keys.DUTY: (intake_keys.IntakeKeys(database, keyring, queue).run, None),
            BUCKETS: (make_buckets, partial(buckets_due, database, span_s=span_s)),
            reconcile.DUTY: (closing.run, closing.due),
            accounting.DUTY: (accounting.Accounts(database).run, None),
            purge.DUTY: (purging.run, purging.due),
            expiry.DUTY: (expiring.run, expiring.due),
            sequencing.DUTY: (sequencer.run, sequencer.due),
            forgetting.DUTY: (forgetting.Forgetting(database, keyring, span_s).run, None),
            housekeeping.MONTHS: (housekeeping.Months(database, settings.console_idle).run, None),
            queue_depths.DUTY: (queue_depths.Depths(database, queue).run, None),
            key_check.DUTY: (key_check.KeyCheck(database, keyring, queue, settings.log_origin).run, None),
        }
        if canary is not None:
            acts[CANARY] = (canary, None)
        self._duties = {name: Duty(name, EVERY_S[name], *acts[name]) for name in EVERY_S if name in acts}

    @property
    def names(self) -> list[str]:
        """Return what there is, in the order in which it is done by hand."""
        return list(self._duties)

    async def due(self) -> list[str]:
        """Return the duties that cannot wait for their turn."""
        waiting = frozenset() if await self._may_destroy() else _DESTROYING
        return [
            duty.name
            for duty in self._duties.values()
            if duty.due is not None and duty.name not in waiting and await duty.due()
        ]

    async def perform(self, name: str) -> Outcome:
        """Do one duty, if nobody else does."""
        act = self._duties[name].act
        if name in _DESTROYING:
            act = partial(self._if_compared, act)
        return await perform(self._database, name, act)

    async def perform_all(self) -> list[Outcome]:
        """Do every duty once, in order."""
        return [await self.perform(name) for name in self.names]

    async def _if_compared(self, act: Callable[[], Coroutine[Any, Any, Counts]]) -> Counts:
        return await act() if await self._may_destroy() else {"stands_still": 1}

    async def _may_destroy(self) -> bool:
        async with self._database.connection() as connection:
            return trusted(await log.state(connection), self._reads_lease)
