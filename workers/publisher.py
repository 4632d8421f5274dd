"""The publisher: one process at a time, under a lease, and the only one that has the key that signs the log."""

import asyncio
from contextlib import suppress
from typing import Final

from store.clock import monotonic
from store.db import Database
from store.errors import CustodyError
from store.logging import logger
from store.services.duties import Counts, perform
from store.services.publishing import DUTY, EVERY_S, Publishing, Round
from store.tables import leases

# After a publisher that was killed, another one begins so much later.
_LEASE_S: Final = 10.0
# How often somebody who waits for the lease looks, and how often a trouble that stays is told again.
_STANDBY_S: Final = 3.0
_TOLD_AGAIN_S: Final = 60.0


class Publisher:
    """Publishes once a second for as long as the lease is ours."""

    def __init__(self, database: Database, publishing: Publishing) -> None:
        self._database = database
        self._publishing = publishing
        self._trouble = ""
        self._told_at = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Publish, or wait for whoever does, until told to stop; ConfigFaults where the log is another's."""
        await self._begin(stop)

        async def publish() -> Counts:
            return {"signed": await self._rounds(stop)}

        while not stop.is_set():
            outcome = await perform(self._database, DUTY, publish, lease_s=_LEASE_S)
            if not outcome.succeeded:
                await _until(stop, _STANDBY_S)

    async def _begin(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._publishing.begin()
            except CustodyError as outage:
                self._tell(f"failed: {outage.reason.value}", outage.detail)
                await _until(stop, EVERY_S)
            else:
                return

    async def _rounds(self, stop: asyncio.Event) -> int:
        signed = 0
        while not stop.is_set():
            began = monotonic()
            signed += await self._round()
            await _until(stop, EVERY_S - (monotonic() - began))
        return signed

    async def _round(self) -> int:
        """Do one round, and let it be seen how it went; an outage is for the next one."""
        try:
            done: Round | None = await self._publishing.round()
            word = str(done)
        except CustodyError as fault:
            done, word = None, f"failed: {fault.reason.value}"
            self._tell(word, fault.detail)
        if done is not None and done.stop is not None:
            self._tell(word, "")
        with suppress(CustodyError):
            async with self._database.connection() as connection:
                well = done is not None and done.stop is None
                await leases.tell(connection, DUTY, word, succeeded=well)
        return 0 if done is None else done.signed

    def _tell(self, trouble: str, cause: str) -> None:
        now = monotonic()
        if trouble != self._trouble or now - self._told_at > _TOLD_AGAIN_S:
            self._trouble, self._told_at = trouble, now
            logger().error("not_published", duty=DUTY, outcome=trouble, cause=cause)


async def _until(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), max(0.0, seconds))
