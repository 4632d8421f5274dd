"""How a duty is done: under a lease, once at a time over all processes, with an outcome that can be seen.

A duty is idempotent, bounded and resumable; whoever dies in the middle is followed by somebody else a lease later.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from store import ids
from store.clock import monotonic
from store.db import Database
from store.errors import ConfigFaults, CustodyError
from store.logging import logger
from store.tables import leases

# How long a duty stays taken when its process dies; a live one renews it three times as often.
LEASE_S: Final = 30.0

OK: Final = "ok"
SKIPPED: Final = "skipped: locked"
INTERRUPTED: Final = "interrupted"
LEASE_LOST: Final = "failed: lease lost"

Counts = Mapping[str, int]
Act = Callable[[], Coroutine[Any, Any, Counts]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run of a duty ended; `counts` says what it did, in its own words."""

    duty: str
    word: str
    counts: Counts = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        """Say whether the duty was done, and by us."""
        return self.word == OK

    @property
    def failed(self) -> bool:
        """Say whether it was tried here and not done."""
        return self.word not in (OK, SKIPPED)

    def __str__(self) -> str:
        """Write it as the lease keeps it and a person reads it."""
        return " ".join([self.word, *(f"{name}={count}" for name, count in self.counts.items() if count)])


def counted(outcome: str | None, name: str) -> int | None:
    """Read a count back from how a duty ended, as the lease keeps it; None unless it was done."""
    word, *counts = (outcome or "").split(" ")
    named = (each.partition("=") for each in counts)
    return sum(int(count) for each, _, count in named if each == name) if word == OK else None


async def perform(database: Database, duty: str, act: Act, *, lease_s: float = LEASE_S) -> Outcome:
    """Do a duty if nobody else does it now, and keep and log how it ended. Never raises but when cancelled."""
    began = monotonic()
    try:
        outcome = await _under_lease(database, duty, act, lease_s)
    except CustodyError as fault:
        outcome = Outcome(duty, f"failed: {fault.reason.value}")
    _log(outcome, monotonic() - began)
    return outcome


async def _under_lease(database: Database, duty: str, act: Act, lease_s: float) -> Outcome:
    holder = ids.new_id()
    async with database.connection() as connection:
        if not await leases.claim(connection, duty, holder, lease_s):
            return Outcome(duty, SKIPPED)
    outcome = Outcome(duty, INTERRUPTED)
    try:
        outcome = await _kept(database, duty, act, holder, lease_s)
    finally:
        # Also when cancelled: the next process should not have to wait until the lease ends.
        await asyncio.shield(_give_back(database, outcome, holder))
    return outcome


async def _kept(database: Database, duty: str, act: Act, holder: UUID, lease_s: float) -> Outcome:
    work = asyncio.create_task(act())
    keeper = asyncio.create_task(_keep(database, duty, holder, lease_s))
    try:
        await asyncio.wait({work, keeper}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return Outcome(duty, LEASE_LOST)
        return _outcome_of(duty, work)
    finally:
        for task in (work, keeper):
            task.cancel()
        # Whatever it still does must have ended before the lease is given back.
        await asyncio.wait({work, keeper})


def _outcome_of(duty: str, work: asyncio.Task[Counts]) -> Outcome:
    fault = work.exception()
    if fault is None:
        return Outcome(duty, OK, work.result())
    if isinstance(fault, CustodyError):
        return Outcome(duty, f"failed: {fault.reason.value}")
    # Of our own words; of anything else only the class, since its message may quote what it handled.
    logger().error("duty_failed", duty=duty, exc_info=fault)
    return Outcome(duty, f"failed: {'settings' if isinstance(fault, ConfigFaults) else type(fault).__name__}")


async def _keep(database: Database, duty: str, holder: UUID, lease_s: float) -> None:
    """Renew the lease until it is lost; returning means that it is."""
    good_until = monotonic() + lease_s
    while monotonic() < good_until:
        await asyncio.sleep(lease_s / 3)
        with suppress(CustodyError):
            async with database.connection() as connection:
                if not await leases.renew(connection, duty, holder, lease_s):
                    return
                good_until = monotonic() + lease_s


async def _give_back(database: Database, outcome: Outcome, holder: UUID) -> None:
    with suppress(CustodyError):
        async with database.connection() as connection:
            await leases.finish(connection, outcome.duty, holder, str(outcome), succeeded=outcome.succeeded)


def _log(outcome: Outcome, took_s: float) -> None:
    say = logger().info if outcome.succeeded or outcome.word == SKIPPED else logger().error
    say(
        "duty", duty=outcome.duty, outcome=str(outcome), count=sum(outcome.counts.values()),
        duration_ms=round(took_s * 1000),
    )  # fmt: skip


class Budget:
    """The time that one run of a duty has; who takes a part of what is left leaves the rest to the steps after it."""

    __slots__ = ("_until",)

    def __init__(self, seconds: float) -> None:
        """Begin now."""
        self._until = monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Return what is left, which is never less than nothing."""
        return max(0.0, self._until - monotonic())

    @property
    def over(self) -> bool:
        """Say whether nothing is left."""
        return monotonic() >= self._until

    def part(self, of: int) -> "Budget":
        """Return one of so many parts of what is left."""
        return Budget(self.left_s / of)


async def each_within(budget_s: float, step: Callable[[], Awaitable[int]]) -> int:
    """Repeat a step until it does nothing more or the time is used up; return how much it did."""
    done, until = 0, monotonic() + budget_s
    while monotonic() < until:
        more = await step()
        if not more:
            break
        done += more
    return done


async def each_of(steps: AsyncIterator[int], budget_s: float) -> int:
    """Take steps until there are no more or the time is used up, one at least; return how much they did."""
    done, until = 0, monotonic() + budget_s
    async for more in steps:
        done += more
        if monotonic() >= until:
            break
    return done
