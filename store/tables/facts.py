"""Facts of toolchains: written once, read in the order told, and ended with their run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load
from store.tables.batch import Key

_SQL: Final = load("facts")


class NewFact(NamedTuple):
    """A fact to be written, in the order of its columns."""

    scope_id: UUID
    run_uid: UUID
    fact: str
    fact_uid: UUID
    type: str
    action: str | None
    exchange: str | None
    at: datetime
    body: bytes


class Counted(NamedTuple):
    """How many facts of a run are new, and whether one was refused because it has all that it may have."""

    run: Key
    more: int
    is_full: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as far as its facts are concerned; `held` is asked only of one whose retention is over."""

    run_uid: UUID
    retain_until: datetime
    erased: bool
    held: bool
    is_full: bool
    opened_at: datetime


class Counts(NamedTuple):
    """How many facts a run has, of how many actions, and of each type that has a list."""

    facts: int
    actions: int
    surface: int
    coverage: int
    delivery: int


Attempt = tuple[str, str | None]
"""An exchange and one of its attempts; None for any."""


class ToldAction(NamedTuple):
    """An action, and the first fact that names it."""

    action: str
    fact_uid: UUID


class ToldFact(NamedTuple):
    """One fact; its id tells when it was told."""

    fact_uid: UUID
    body: bytes


class Over(NamedTuple):
    """A run whose facts are over, and since when; those of an erased one since ever."""

    ends_at: datetime
    run_uid: UUID


FIRST: Final = Over(datetime.min.replace(tzinfo=UTC), UUID(int=0))


async def take_runs(connection: Connection, ends: Mapping[Key, datetime]) -> dict[Key, int]:
    """Keep others from the facts of runs until the transaction ends; return how many each has."""
    scopes, runs = [scope for scope, _ in ends], [run for _, run in ends]
    rows = await connection.fetch(_SQL["take_runs"], scopes, runs, list(ends.values()))
    return {(row["scope_id"], row["run_uid"]): row["kept"] for row in rows}


async def known(connection: Connection, facts: Sequence[NewFact]) -> set[tuple[UUID, UUID, str]]:
    """Return those of the facts that were told before, by scope, run and name."""
    named = [each[:3] for each in facts]
    rows = await connection.fetch(_SQL["known"], *zip(*named, strict=True))
    return {named[row["place"] - 1] for row in rows}


async def copy(connection: Connection, facts: Sequence[NewFact]) -> None:
    """Write facts that are not there, of runs that were taken."""
    await connection.copy_records_to_table("facts", records=facts, columns=NewFact._fields)


async def count(connection: Connection, counted: Sequence[Counted]) -> None:
    """Add to what runs that were taken have."""
    rows = [(*each.run, each.more, each.is_full) for each in counted]
    await connection.execute(_SQL["count"], *zip(*rows, strict=True))


async def standing(connection: Connection, scope: UUID, run: str) -> Standing | None:
    """Return how one run stands, by the caller's text."""
    row = await connection.fetchrow(_SQL["standing"], scope, run)
    return None if row is None else Standing(**dict(row))


async def actions(
    connection: Connection, scope: UUID, run: UUID, after: UUID, limit: int
) -> list[ToldAction]:
    """Return a run's actions as they were first told of, after a fact."""
    rows = await connection.fetch(_SQL["actions"], scope, run, after, limit)
    return [ToldAction(row["action"], row["fact_uid"]) for row in rows]


async def of_actions(
    connection: Connection, scope: UUID, run: UUID, named: Collection[str]
) -> list[ToldFact]:
    """Return everything that was told of some actions; a run's bound is theirs."""
    rows = await connection.fetch(_SQL["of_actions"], scope, run, list(named))
    return [ToldFact(row["fact_uid"], row["body"]) for row in rows]


async def unbound(connection: Connection, scope: UUID, run: UUID) -> list[ToldFact]:
    """Return what stood in a run's requests without being bound to any action; a run's bound is theirs."""
    rows = await connection.fetch(_SQL["unbound"], scope, run)
    return [ToldFact(row["fact_uid"], row["body"]) for row in rows]


async def of_type(
    connection: Connection,
    scope: UUID,
    run: UUID,
    type_: str,
    after: UUID,
    *,
    action: str | None,
    exchange: str | None,
    limit: int,
) -> list[ToldFact]:
    """Return facts of one type after one of them, narrowed to an action or an exchange where that is named."""
    rows = await connection.fetch(_SQL["of_type"], scope, run, type_, after, action, exchange, limit)
    return [ToldFact(row["fact_uid"], row["body"]) for row in rows]


async def counts(connection: Connection, scope: UUID, run: UUID, action: str | None) -> Counts:
    """Return how many facts a run has, or one of its actions; a run's bound is theirs."""
    return Counts(**dict(await connection.fetchrow(_SQL["counts"], scope, run, action) or {}))


async def met(connection: Connection, scope: UUID, run: UUID, named: Collection[Attempt]) -> set[Attempt]:
    """Return those of some attempts of which anything was told, stored or missed."""
    exchanges, attempts = [each[0] for each in named], [each[1] for each in named]
    rows = await connection.fetch(_SQL["met"], scope, run, exchanges, attempts)
    return {(row["exchange"], row["attempt"]) for row in rows}


async def over(
    connection: Connection, scope: UUID, until: datetime, limit: int, after: Over = FIRST
) -> list[Over]:
    """Return runs of a scope that still have facts and are erased, or ended by then, after one; no held ones."""
    rows = await connection.fetch(_SQL["over"], scope, until, *after, limit)
    return [Over(row["ends_at"], row["run_uid"]) for row in rows]


async def end(connection: Connection, scope: UUID, run: UUID) -> int:
    """Delete the facts of a locked run where they are over and nothing holds them; return how many went."""
    return await connection.fetchval(_SQL["end"], scope, run) or 0
