"""What goes into a bundle besides the parts themselves: leaves, closings, access records."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL: Final = load("export_items")


class Leaf(NamedTuple):
    """A leaf of the log in its place."""

    subject: UUID
    kind: str
    idx: int
    leaf: bytes


class Closing(NamedTuple):
    """What a close leaf commits to."""

    opening: bytes
    record: bytes


@dataclass(frozen=True, slots=True, order=True)
class AccessOf:
    """One access record of a part."""

    evidence: UUID
    at: datetime
    access_id: UUID
    key_id: str
    role: str
    purpose: str | None
    outcome: str


# Before every record of a part.
FIRST: Final = (UUID(int=0), datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


async def size_classes(connection: Connection, scope: UUID, evidence: Sequence[UUID]) -> dict[UUID, int]:
    """Return what is said of the sizes of parts; one that is not there is left out."""
    rows = await connection.fetch(_SQL["size_classes"], scope, evidence)
    return {row["evidence"]: row["size_class"] for row in rows}


async def leaves(
    connection: Connection, subjects: Collection[UUID], kinds: Collection[str], tree_size: int
) -> list[Leaf]:
    """Return leaves of these kinds about these subjects, of the first `tree_size`, in their order."""
    rows = await connection.fetch(_SQL["leaves"], list(subjects), list(kinds), tree_size)
    return [Leaf(*row.values()) for row in rows]


async def closings(connection: Connection, scope: UUID, runs: Sequence[UUID]) -> dict[UUID, list[Closing]]:
    """Return what the closings of some runs commit to, the last of each first; a run that is forgotten is left out."""
    found: dict[UUID, list[Closing]] = {}
    for row in await connection.fetch(_SQL["closings"], scope, runs):
        of_run = found.setdefault(row["run_uid"], [])
        if row["opening"] is not None:
            of_run.append(Closing(row["opening"], row["record"]))
    return found


async def accesses(
    connection: Connection,
    scope: UUID,
    evidence: Sequence[UUID],
    *,
    after: tuple[UUID, datetime, UUID],
    until: datetime,
    limit: int,
) -> list[AccessOf]:
    """Return access records of some parts, by part and time, from one on."""
    rows = await connection.fetch(_SQL["accesses"], scope, evidence, *after, until, limit)
    return [AccessOf(*row.values()) for row in rows]
