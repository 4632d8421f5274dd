"""Partitions of `bodies`, one for each span: made ahead, dropped when every bucket of the span has expired.

The one place where the text of a statement is built: the names and bounds of partitions cannot be parameters. They are
built from integers alone (seconds since the epoch), never from anything that was read or sent.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from store.db import Connection
from store.tables import load

_SQL = load("spans")
_NAME: Final = re.compile(r"bodies_(\d{1,12})")


@dataclass(frozen=True, slots=True)
class Span:
    """The time that one partition stands for; `leaving` says that its detaching began and was interrupted."""

    span_start: datetime
    span_end: datetime
    leaving: bool = False


async def database_now(connection: Connection) -> datetime:
    """Return the database's time."""
    value: datetime = await connection.fetchval(_SQL["now"])
    return value


async def attached(connection: Connection) -> list[Span]:
    """Return the partitions that `bodies` has, in order of time."""
    rows = await connection.fetch(_SQL["attached"])
    return [Span(row["span_start"], row["span_end"], row["leaving"]) for row in rows]


async def stray(connection: Connection) -> list[datetime]:
    """Return the starts of spans whose table was detached and not dropped yet."""
    names = [_NAME.fullmatch(row["name"]) for row in await connection.fetch(_SQL["stray"])]
    return [datetime.fromtimestamp(int(name[1]), UTC) for name in names if name is not None]


async def wait_shortly(connection: Connection, *, local: bool = True) -> None:
    """Give up a lock that is not had within 200 ms: until the transaction ends, or the connection is given back."""
    await connection.execute(_SQL["wait_shortly"], local)


async def create(connection: Connection, span: Span) -> None:
    """Make a span's partition, within a transaction of the caller; needs the role of the duties.

    ATTACH takes a lock that lets readers and writers go on, which CREATE … PARTITION OF does not.
    """
    start, end = _seconds(span.span_start), _seconds(span.span_end)
    name = _table(span.span_start)
    await connection.execute(
        f"CREATE TABLE {name} (LIKE bodies INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)"
    )
    # Tables of other roles' making carry no rights: a writer reaches a partition through `bodies` alone.
    await connection.execute(
        f"ALTER TABLE bodies ATTACH PARTITION {name} FOR VALUES FROM (to_timestamp({start})) TO (to_timestamp({end}))"
    )


async def detach(connection: Connection, span: Span) -> None:
    """Detach a span's partition while readers and writers go on; outside a transaction, by the duties' role.

    An interrupted one is finished: until then no other partition could leave.
    """
    how = "FINALIZE" if span.leaving else "CONCURRENTLY"
    await connection.execute(f"ALTER TABLE bodies DETACH PARTITION {_table(span.span_start)} {how}")


async def drop(connection: Connection, span_start: datetime) -> None:
    """Drop a detached partition: wrapped secrets, sizes and ciphertexts together."""
    await connection.execute(f"DROP TABLE IF EXISTS {_table(span_start)}")


async def size_bytes(connection: Connection, span_start: datetime) -> int | None:
    """Return what a partition takes on the disk; None where there is none."""
    value: int | None = await connection.fetchval(_SQL["size"], _table(span_start))
    return value


async def vacuum(connection: Connection, span_start: datetime, *, full: bool) -> None:
    """Free the space of deleted rows; `full` writes the partition anew, so that no byte of them is left in its file."""
    await connection.execute(f"VACUUM {'(FULL) ' if full else ''}{_table(span_start)}")


def _table(span_start: datetime) -> str:
    return f"spans.bodies_{_seconds(span_start)}"


def _seconds(instant: datetime) -> int:
    seconds = int(instant.timestamp())
    if seconds < 0 or seconds != instant.timestamp():
        raise ValueError("a span begins and ends at a whole second after 1970")
    return seconds
