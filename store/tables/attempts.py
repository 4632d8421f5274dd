"""What runtimes said of attempts. An attempt of which nothing is known has no row: that is what unknown means."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from store.db import Connection
from store.tables import load

_SQL: Final = load("attempts")

MOST_REFS: Final = 4


class Told(NamedTuple):
    """What a batch holds about one attempt; `refs` are keyed hashes, at most four."""

    scope_id: UUID
    run_uid: UUID
    exchange: str
    attempt: str
    dispatch: str
    settlement: str
    dispatch_conflict: str | None
    settlement_conflict: str | None
    first_at: datetime
    refs: tuple[bytes, ...]


async def tell(connection: Connection, attempts: Sequence[Told]) -> None:
    """Add to what is known, in the order of the attempts' keys, each once."""
    rows = [(*each[:-1], *_four(each.refs)) for each in attempts]
    await connection.execute(_SQL["tell"], *zip(*rows, strict=True))


def _four(refs: tuple[bytes, ...]) -> list[bytes | None]:
    return [*refs, *[None] * (MOST_REFS - len(refs))]
