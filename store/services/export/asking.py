"""What an export is to hold, fixed when it is asked for: parts, runs, and the checkpoint that all its proofs are under.

It is only made once the log has published every part that it names. What was stored a moment ago is waited for; if the
log is behind for longer that is an outage and said as one, never a bundle without what was asked for.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.clock import monotonic
from store.db import Database
from store.errors import Malformed, NotFound, Unavailable
from store.ids import ExportId, new_id
from store.log_tree.facts import facts
from store.services.paging import Reader
from store.tables import exports, log
from store.tables.exports import NewExport

MOST_PARTS: Final = 10_000
MOST_ANCHORS: Final = 16

# The publisher signs once a second.
PATIENCE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.2
# A leaf is queued in the transaction that stores its part: one that is still not in the log so long after all that
# waits there was stored will never be, and is a fault of the log, not a wait.
_SLACK: Final = timedelta(seconds=60)
_BEHIND: Final = "the log has not published all of these parts yet"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for: runs by name, parts by evidence reference, and sizes of checkpoints held from before."""

    runs: Collection[str]
    evidence: Collection[UUID]
    anchors: Collection[int]


@dataclass(frozen=True, slots=True)
class Asked:
    """An export that can be fetched."""

    export_id: ExportId
    requested_at: datetime
    parts: int
    tree_size: int


class Asking:
    """Takes exports down. `patience_s` is how long the log may take to publish what was stored just now."""

    def __init__(self, database: Database, *, patience_s: float = PATIENCE_S) -> None:
        self._database = database
        self._patience_s = patience_s

    async def ask(self, reader: Reader, wanted: Wanted, purpose: str | None) -> Asked:
        """Fix what the export holds; NotFound for a run that is not there, Unavailable while the log is behind."""
        _check(wanted)
        evidence, runs = await self._selected(reader.scope, wanted)
        tree_size = await self._published(reader.scope, evidence)
        if any(anchor > tree_size for anchor in wanted.anchors):
            raise Malformed(
                detail=f"anchors are sizes of checkpoints; the last that was published is {tree_size}"
            )
        anchors, export = sorted(set(wanted.anchors)), ExportId(new_id())
        new = NewExport(reader.scope, export, reader.key_id, purpose, evidence, runs, anchors, tree_size)
        async with self._database.connection() as connection:
            asked_at = await exports.insert(connection, new)
        return Asked(new.export_id, asked_at, len(evidence), tree_size)

    async def _selected(self, scope: UUID, wanted: Wanted) -> tuple[list[UUID], list[UUID]]:
        """Return the parts and the runs that are meant, each in the order of their ids."""
        async with self._database.connection() as connection:
            named = await exports.runs_named(connection, scope, wanted.runs)
            if len(named) < len(set(wanted.runs)):
                raise NotFound(detail="a run of these is not there")
            of_runs = await exports.parts_of_runs(connection, scope, named.values(), MOST_PARTS + 1)
            evidence = {*of_runs, *wanted.evidence}
            if len(evidence) > MOST_PARTS:
                raise Malformed(detail=f"an export has at most {MOST_PARTS} parts")
            runs = {*named.values(), *await exports.runs_of_parts(connection, scope, evidence)}
        return sorted(evidence), sorted(runs)

    async def _published(self, scope: UUID, evidence: Sequence[UUID]) -> int:
        stop_at = monotonic() + self._patience_s
        while True:
            async with self._database.connection() as connection:
                state = await log.state(connection)
                since = _may_still_wait(await exports.oldest_queued(connection), state.now)
                behind = await exports.unpublished(connection, scope, evidence, state.published_size, since)
            if state.published_size and not behind:
                return state.published_size
            if monotonic() > stop_at:
                raise Unavailable(Reason.STORE_UNAVAILABLE, _BEHIND)
            await asyncio.sleep(_LOOK_EVERY_S)


def _check(wanted: Wanted) -> None:
    if not (wanted.runs or wanted.evidence):
        raise Malformed(detail="name runs, or parts by their evidence references")
    if len(set(wanted.evidence)) > MOST_PARTS or len(set(wanted.runs)) > MOST_PARTS:
        raise Malformed(detail=f"an export has at most {MOST_PARTS} parts")
    if len(wanted.anchors) > MOST_ANCHORS or any(anchor < 1 for anchor in wanted.anchors):
        raise Malformed(detail=f"anchors are at most {MOST_ANCHORS} sizes of checkpoints, from 1")


def _may_still_wait(oldest: bytes | None, now: datetime) -> datetime:
    """Return since when a part must have been stored for its leaf to be still on its way into the log."""
    if oldest is None:
        return now - _SLACK
    try:
        queued_at = datetime.fromtimestamp(facts(oldest).t, UTC)
    except ValueError:
        # What is no leaf waits for ever, and tells nothing of the others.
        queued_at = now
    return min(queued_at, now) - _SLACK
