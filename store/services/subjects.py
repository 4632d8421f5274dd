"""Closing what an erasure of a subject covers: every run about it, and the labels by which it could be found."""

from functools import partial
from typing import Final
from uuid import UUID

from policies.reasons import Reason
from store.db import Database
from store.errors import Unavailable
from store.logging import logger
from store.queue import Queue, RunKey
from store.services.duties import Budget, each_within
from store.tables import subjects
from store.tables.subjects import Subject

_RUNS: Final = 200
_BUDGET_S: Final = 10.0


async def close(database: Database, queue: Queue, subject: Subject, budget: Budget | None = None) -> None:
    """Erase the runs, a few at a time, and drop their labels; what takes too long is continued by the duty."""
    budget = budget or Budget(2 * _BUDGET_S)
    await each_within(budget.left_s / 2, partial(_close_some, database, queue, subject))
    await each_within(budget.left_s, partial(_clear_some, database, subject))


async def close_rest(database: Database, queue: Queue, after: UUID, budget: Budget) -> None:
    """Continue what was begun, and drop labels that a hold kept; the scopes beyond `after` come first."""
    async with database.connection() as connection:
        found = await subjects.open_subjects(connection)
    for subject in sorted(found, key=lambda each: each.scope_id <= after):
        await close(database, queue, subject, budget.part(2))


async def tell_queue(queue: Queue, key: RunKey) -> None:
    """Lower an erased run for every guard; where Redis is away the writer, who reads the row, still refuses."""
    try:
        await queue.narrow_run(key, state=Reason.ERASED.value)
    except Unavailable as outage:
        logger().warning("queue_not_told", reason=outage.reason.value, cause=outage.cause, scope_id=key.scope)


async def _close_some(database: Database, queue: Queue, subject: Subject) -> int:
    async with database.transaction() as connection:
        runs = await subjects.take(connection, subject, _RUNS)
        await subjects.set_erased(connection, subject.scope_id, [run.run_uid for run in runs])
    for run in runs:
        await tell_queue(queue, RunKey(subject.scope_id, run.run))
    return len(runs)


async def _clear_some(database: Database, subject: Subject) -> int:
    async with database.transaction() as connection:
        runs = await subjects.labelled(connection, subject, _RUNS)
        await subjects.clear_labels(connection, subject.scope_id, runs)
    return len(runs)
