"""Restores: how far one is, whose leaves the mirror gives back, what they say done again, and what was lost."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from policies.holds import Placing, Reach
from policies.reasons import Reason
from store.db import Connection
from store.tables import load

_SQL: Final = load("restores")

Key = tuple[UUID, UUID]
"""A scope, and something in it."""


class Changed(NamedTuple):
    """What replaying some leaves changed; `unknown` are those about what the database does not know."""

    lost: int = 0
    purged: int = 0
    expired: int = 0
    held: int = 0
    closed: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class RestoreRow:
    """One restore; see the migration."""

    restore_id: UUID
    from_index: int
    to_index: int
    replayed_to: int
    queued_until: int
    lost: int
    purged: int
    expired: int
    held: int
    closed: int
    unknown: int
    begun_at: datetime
    renewed_at: datetime | None
    said_at: datetime | None
    ended_at: datetime | None


class Lost(NamedTuple):
    """What the log says of a part that was lost; `expired`: its time would be over by now."""

    purge_reason: Reason | None
    expired: bool


class LostPart(NamedTuple):
    """Up to which leaf of a part nothing came back (None: of a restore that did not keep it), and why it was purged."""

    until: int | None
    purge_reason: Reason | None


# --- the restore itself


async def try_alone(connection: Connection) -> bool:
    """Say whether no other restore is under way, and keep others out while this connection is ours."""
    return bool(await connection.fetchval(_SQL["try_alone"]))


async def let_go(connection: Connection) -> None:
    """Let another restore begin."""
    await connection.execute(_SQL["let_go"])


async def under_way(connection: Connection) -> RestoreRow | None:
    """Return the restore that has not ended."""
    row = await connection.fetchrow(_SQL["under_way"])
    return None if row is None else RestoreRow(*row.values())


async def last(connection: Connection) -> RestoreRow | None:
    """Return the restore that ended last."""
    row = await connection.fetchrow(_SQL["last"])
    return None if row is None else RestoreRow(*row.values())


async def begin(connection: Connection, restore: UUID, first: int, end: int, by: str) -> None:
    """Begin a restore of these leaves; log_state is locked."""
    await connection.execute(_SQL["begin"], restore, first, end, by)


async def close(connection: Connection) -> bool:
    """Close reads and stop the log; False where it is forked."""
    return await connection.fetchval(_SQL["close"]) is not None


async def fork(connection: Connection) -> None:
    """Stop the log for good."""
    await connection.execute(_SQL["fork"])


async def reach(connection: Connection, end: int) -> None:
    """Have the restore go on to where the mirror ends."""
    await connection.execute(_SQL["reach"], end)


async def renewed(connection: Connection) -> None:
    """Say that the queue knows nothing of before."""
    await connection.execute(_SQL["renewed"])


async def replayed(connection: Connection, to: int, changed: Changed) -> None:
    """Say how far leaves were replayed, in the transaction that did it."""
    await connection.execute(_SQL["replayed"], to, *changed)


async def said(connection: Connection) -> tuple[int, int] | None:
    """Say that the log tells of it; return from where to where, None where it does already."""
    row = await connection.fetchrow(_SQL["said"])
    return None if row is None else (row["from_index"], row["to_index"])


async def end(connection: Connection) -> bool:
    """End the restore, open reads and let the log go on; False where it was stopped otherwise meanwhile."""
    await connection.execute(_SQL["ended"])
    return await connection.fetchval(_SQL["open"]) is not None


async def published(connection: Connection, size: int) -> None:
    """Say up to where the log is published."""
    await connection.execute(_SQL["published"], size)


async def placed_already(connection: Connection, until: int, leaves: Sequence[bytes]) -> int:
    """Take these leaves off the queue, as they stood in it; return how many were there."""
    return len(await connection.fetch(_SQL["placed_already"], until, list(leaves)))


async def outdate_tickets(connection: Connection, by: int) -> None:
    """Count the policies of all scopes up."""
    await connection.execute(_SQL["outdate_tickets"], by)


# --- whose leaves are


async def bucket_scopes(connection: Connection) -> dict[UUID, UUID]:
    """Return the scope of every bucket."""
    return {row["bucket_id"]: row["scope_id"] for row in await connection.fetch(_SQL["bucket_scopes"])}


async def scopes_of(connection: Connection, what: str, wanted: Collection[UUID]) -> Mapping[UUID, UUID]:
    """Return the scopes of some `part`, `run` or `source`; what nobody knows is left out."""
    rows = await connection.fetch(_SQL[f"{what}_scopes"], list(wanted)) if wanted else []
    return {row[0]: row[1] for row in rows}


async def scopes_known(connection: Connection, wanted: Collection[UUID]) -> set[UUID]:
    """Return those that are scopes."""
    return {row["scope_id"] for row in await connection.fetch(_SQL["scopes_known"], list(wanted))}


# --- what leaves say


async def lose(connection: Connection, parts: Sequence[tuple[UUID, UUID, UUID, bytes, int]]) -> int:
    """Keep which of these (scope, evidence, bucket, commitment, index) have no row; return of how many that was new."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    return len(await connection.fetch(_SQL["lose"], *columns))


async def purge_lost(connection: Connection, key: Key, reason: Reason) -> bool:
    """Say that a part without a row was purged; False where that is known, or the part is not lost."""
    return await connection.fetchval(_SQL["purge_lost"], *key, reason.value) is not None


async def keys_of(connection: Connection, key: Key) -> list[UUID]:
    """Return the ids of the keys that wrap secrets of a bucket, or did."""
    return [row["key_id"] for row in await connection.fetch(_SQL["keys_of"], *key)]


async def expire(connection: Connection, key: Key, at: int) -> bool:
    """Mark a live bucket expired; False where there is none."""
    return await connection.fetchval(_SQL["expire"], *key, at) is not None


async def unqueue_expiry(connection: Connection, bucket: UUID) -> None:
    """Let no leaf wait that says that a bucket expired."""
    begins = f'{{"b":"{bucket.hex}","k":"expire"'
    await connection.execute(_SQL["unqueue_expiry"], begins.encode())


async def place(
    connection: Connection,
    key: Key,
    *,
    reach: Reach,
    run: UUID | None,
    evidence: UUID | None,
    answer: Placing,
    by: str,
    at: int,
) -> bool:
    """Place a hold; False where it is there."""
    placed = await connection.fetchval(_SQL["place"], *key, reach.value, run, evidence, answer.value, by, at)
    return placed is not None


async def release(connection: Connection, key: Key, at: int, by: str) -> bool:
    """Release a hold; False where it is released, or not there."""
    return await connection.fetchval(_SQL["release"], *key, at, by) is not None


async def set_closed(connection: Connection, key: Key, version: int | None, at: int, *, closed: bool) -> bool:
    """Close a source (or a version of it), or open it again; False where it was so, or cannot be opened."""
    if version is None:
        return await connection.fetchval(_SQL["set_revoked"], *key, closed, at) is not None
    return await connection.fetchval(_SQL["set_withdrawn"], *key, version, closed, at) is not None


async def version_known(connection: Connection, key: Key, version: int) -> bool:
    """Say whether a source has this version."""
    return bool(await connection.fetchval(_SQL["version_known"], *key, version))


async def end_run(connection: Connection, key: Key, at: int) -> bool:
    """Let an open run be closed; False where it is not open."""
    return await connection.fetchval(_SQL["end_run"], *key, at) is not None


async def all_scopes(connection: Connection) -> list[UUID]:
    """Return every scope."""
    return [row["scope_id"] for row in await connection.fetch(_SQL["all_scopes"])]


async def torn(connection: Connection, scope: UUID, after: UUID, limit: int) -> tuple[UUID | None, int]:
    """Say of parts without body that it was lost; return the last part looked at (None: no more), and how many."""
    rows = await connection.fetch(_SQL["parts_from"], scope, after, limit)
    if not rows:
        return None, 0
    to: UUID = rows[-1]["evidence"]
    return to, len(await connection.fetch(_SQL["torn"], scope, after, to))


async def expired_undropped(connection: Connection) -> int:
    """Count buckets that expired and still have their bodies or their key."""
    return int(await connection.fetchval(_SQL["expired_undropped"]))


# --- what was lost


async def lost(connection: Connection, scope: UUID, evidence: UUID) -> Lost | None:
    """Return what became of a part without a row; None for what never was."""
    row = await connection.fetchrow(_SQL["lost"], scope, evidence)
    if row is None:
        return None
    reason = row["purge_reason"]
    return Lost(None if reason is None else Reason(reason), row["expired"])


async def lost_among(connection: Connection, keys: Sequence[Key]) -> dict[Key, LostPart]:
    """Return those of some parts that were lost, also where they were written again."""
    scopes, evidence = [key[0] for key in keys], [key[1] for key in keys]
    return {
        (row["scope_id"], row["evidence"]): LostPart(
            row["idx"], None if row["purge_reason"] is None else Reason(row["purge_reason"])
        )
        for row in await connection.fetch(_SQL["lost_among"], scopes, evidence)
    }
