"""Runs about a subject, as an erasure finds them: by the keyed hash, which is all that is kept of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL = load("subjects")


class Subject(NamedTuple):
    """A subject of which everything is to be erased that was declared until then."""

    scope_id: UUID
    subject: bytes
    until: datetime


class Taken(NamedTuple):
    """A run that is locked."""

    run_uid: UUID
    run: str


async def known(connection: Connection, scope: UUID, subject: bytes) -> bool:
    """Say whether any run is about a subject."""
    return bool(await connection.fetchval(_SQL["known"], scope, subject))


async def declared_since(connection: Connection, subject: Subject) -> bool:
    """Say whether runs about it were declared after then that are not erased."""
    return bool(await connection.fetchval(_SQL["declared_since"], *subject))


async def take(connection: Connection, subject: Subject, limit: int) -> list[Taken]:
    """Lock and return runs that are not erased."""
    rows = await connection.fetch(_SQL["take"], *subject, limit)
    return [Taken(row["run_uid"], row["run"]) for row in rows]


async def set_erased(connection: Connection, scope: UUID, runs: Sequence[UUID]) -> None:
    """Refuse everything of these runs for good, from the commit on."""
    await connection.execute(_SQL["set_erased"], scope, list(runs))


async def labelled(connection: Connection, subject: Subject, limit: int) -> list[UUID]:
    """Lock and return erased runs that carry labels; none that a hold keeps."""
    rows = await connection.fetch(_SQL["labelled"], subject.scope_id, subject.subject, limit)
    return [row["run_uid"] for row in rows]


async def clear_labels(connection: Connection, scope: UUID, runs: Sequence[UUID]) -> None:
    """Drop the labels of these runs."""
    await connection.execute(_SQL["clear_labels"], scope, list(runs))


async def open_subjects(connection: Connection) -> list[Subject]:
    """Return the subjects whose erasure is not done."""
    rows = await connection.fetch(_SQL["open"])
    return [Subject(row["scope_id"], row["subject"], row["requested_at"]) for row in rows]
