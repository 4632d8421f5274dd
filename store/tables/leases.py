"""Leases of the duties: who does one now, and how the last time ended. Claimed by a writing statement alone."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL = load("leases")


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """How one duty stands; `now` is database time."""

    duty: str
    held: bool
    last_started: datetime | None
    last_finished: datetime | None
    last_success: datetime | None
    last_outcome: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """The latest database time known before, and the time now; earlier than before means that the clock jumped back."""

    before: datetime | None
    now: datetime


async def claim(connection: Connection, duty: str, holder: UUID, lease_s: float) -> bool:
    """Take a duty for `lease_s` seconds; False where somebody else has it."""
    return await connection.fetchval(_SQL["claim"], duty, holder, lease_s) is not None


async def renew(connection: Connection, duty: str, holder: UUID, lease_s: float) -> bool:
    """Keep a duty for `lease_s` seconds more; False where it is ours no longer."""
    return await connection.fetchval(_SQL["renew"], duty, holder, lease_s) is not None


async def finish(connection: Connection, duty: str, holder: UUID, outcome: str, *, succeeded: bool) -> None:
    """Give a duty back and say how it ended."""
    await connection.execute(_SQL["finish"], duty, holder, outcome, succeeded)


async def tell(connection: Connection, duty: str, outcome: str, *, succeeded: bool) -> None:
    """Say how it goes with a duty that is done all the time; who calls holds its lease."""
    await connection.execute(_SQL["tell"], duty, outcome, succeeded)


async def all_leases(connection: Connection) -> list[LeaseRow]:
    """Return how every duty that ever ran stands."""
    return [
        LeaseRow(
            row["duty"], row["held"], row["last_started"], row["last_finished"], row["last_success"],
            row["last_outcome"], row["now"],
        )
        for row in await connection.fetch(_SQL["all"])
    ]  # fmt: skip


async def see(connection: Connection, duty: str) -> Seen:
    """Remember the database's time for a duty that holds its lease."""
    row = await connection.fetchrow(_SQL["see"], duty)
    return Seen(row["before"], row["now"])


async def paced_at(connection: Connection, duty: str) -> datetime | None:
    """Return when the duty last let something go."""
    value: datetime | None = await connection.fetchval(_SQL["paced_at"], duty)
    return value


async def pace(connection: Connection, duty: str) -> None:
    """Remember that the duty let something go just now."""
    await connection.execute(_SQL["pace"], duty)


async def place(connection: Connection, duty: str) -> str | None:
    """Return how far the duty came, in its own words; None where it came to the end, or never began."""
    value: str | None = await connection.fetchval(_SQL["place"], duty)
    return value


async def keep_place(connection: Connection, duty: str, at: str | None) -> None:
    """Remember how far the duty came."""
    await connection.execute(_SQL["keep_place"], duty, at)
