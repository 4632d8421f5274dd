"""Where the parts of a run go: the bucket whose span contains its `retain_until`, once its partition is there too.

Remembered for sealing ahead only; the transaction that writes reads runs and buckets again, under their locks.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from store.db import Connection, Database
from store.tables import batch, spans
from store.tables.batch import BucketSpan, Key

_MOST_REMEMBERED: Final = 8_192


class Destinations:
    """What one process remembers of where to write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._of: dict[Key, BucketSpan] = {}
        self._attached: frozenset[datetime] = frozenset()

    async def of(self, runs: Collection[Key]) -> dict[Key, BucketSpan]:
        """Return the bucket of each run; a run without one, or without its partition, is left out."""
        if len(self._of) > _MOST_REMEMBERED:
            self._of.clear()
        unknown = [run for run in runs if run not in self._of]
        if unknown:
            async with self._database.connection() as connection:
                found = await _read(connection, unknown)
                if not {bucket.span_start for bucket in found.values()} <= self._attached:
                    attached = await spans.attached(connection)
                    self._attached = frozenset(span.span_start for span in attached if not span.leaving)
            # Spans of one scope's buckets and of partitions begin together; where one does not, its parts wait.
            self._of |= {run: each for run, each in found.items() if each.span_start in self._attached}
        return {run: self._of[run] for run in runs if run in self._of}

    def forget(self, runs: Iterable[Key]) -> None:
        """Look these runs up again next time."""
        for run in runs:
            self._of.pop(run, None)

    def forget_all(self) -> None:
        """Look everything up again, partitions too."""
        self._of.clear()
        self._attached = frozenset()


async def _read(connection: Connection, runs: Collection[Key]) -> dict[Key, BucketSpan]:
    ends = await batch.ends(connection, runs)
    wanted = {(scope, end) for (scope, _), end in ends.items()}
    buckets = await batch.buckets_at(connection, list(wanted))
    return {run: buckets[run[0], end] for run, end in ends.items() if (run[0], end) in buckets}
