"""What readers ask of runs: pages of them, how one of them stands, attempts by a reference, and what is missing."""

from collections.abc import Sequence
from datetime import timedelta

from policies.kinds import Kind
from store.clock import utc_now
from store.commitments import lookup_hash
from store.db import Connection, Database
from store.errors import NotFound
from store.keyring import Keyring
from store.queue import Queue, RunKey
from store.services.paging import Asked, Page, Pager, Reader, Window, ends
from store.services.readback import PartIdentity
from store.services.receipt_view import minted_at
from store.services.run_account import account_of, timeline_of
from store.services.run_views import (
    AmongAttempts,
    AttemptItem,
    GapItem,
    Overdue,
    RunItem,
    RunView,
    attempt_item,
    gap_item,
    overdue_item,
    run_fields,
    run_item,
    session_view,
)
from store.tables import pages, run_pages
from store.tables.run_pages import FoundAttempt, GapRow, RunRow


class RunReads:
    """Answers reviewers, custodians, auditors and operators."""

    def __init__(self, database: Database, pager: Pager, keyring: Keyring, *, examined: int) -> None:
        self._database = database
        self._pager = pager
        self._keyring = keyring
        self._examined = examined

    async def runs(self, reader: Reader, label: str | None, asked: Asked) -> Page[RunItem]:
        """Return one page of runs by the time of their declaration; with a label it may be short and have a next."""
        turn = self._pager.turn(reader, "runs", {} if label is None else {"label": label}, asked)
        async with self._database.connection() as connection:
            some = None if label is None else await pages.runs_of_label(connection, reader.scope, label)
            by_row = label is not None and some is None
            look = self._examined if by_row else turn.limit
            rows = await run_pages.runs(connection, reader.scope, turn.keyset, look + 1, some)
            window = await _window(connection, rows)
        likely = [row for row in rows[:look] if not by_row or label in row.labels]
        shown, last = ends(likely, turn.limit)
        if last is None and len(rows) > look:
            last = rows[look - 1]
        after = None if last is None else (last.declared_at, last.run_uid)
        return Page([run_item(row) for row in shown], self._pager.info(turn, window.opened_at, window, after))

    async def run(self, reader: Reader, run: str) -> RunView:
        """Return how one run stands."""
        async with (
            self._database.connection() as connection,
            # One snapshot: an observation that settles meanwhile is counted once, before or after.
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            row = await run_pages.run_named(connection, reader.scope, run)
            if row is None:
                raise NotFound
            account = await account_of(connection, reader.scope, row)
            timeline, more = await timeline_of(connection, reader.scope, row)
        return RunView(
            **run_fields(row),
            observed_at=row.opened_at,
            counts=account.counts,
            complete=account.complete,
            sessions=[session_view(name, numbers) for name, numbers in account.sessions.items()],
            timeline=timeline,
            timeline_more=more,
        )

    async def attempts(self, reader: Reader, ref: str, asked: Asked) -> Page[AttemptItem]:
        """Return the attempts that carry a trace, response or request id."""
        mark = lookup_hash(self._keyring.token_key("lookup"), "ref", reader.scope, ref.encode())
        # The hash stands for the reference in the cursor's question too.
        turn = self._pager.turn(reader, "attempts", {"ref": mark.hex()}, asked)
        after = (turn.keyset.after_at, turn.keyset.after_id)
        async with self._database.connection() as connection:
            rows = await run_pages.attempts_by_ref(connection, reader.scope, mark, after, turn.limit + 1)
            window = await _window(connection, rows)
        shown, last = ends(rows, turn.limit)
        place = None if last is None else (last.attempt.first_at, last.tie)
        info = self._pager.info(turn, window.opened_at, window, place)
        return Page([attempt_item(row.run, row.attempt) for row in shown], info)

    async def attempt_among(
        self, reader: Reader, run: str, exchange: str, attempt: str | None
    ) -> AmongAttempts | None:
        """Return one attempt among those of its exchange, the last where none is named.

        None where nothing of it was told, stored or missed.
        """
        async with self._database.connection() as connection:
            row = await run_pages.attempt_of_exchange(connection, reader.scope, run, exchange, attempt)
        if row is None:
            return None
        item = attempt_item(run, row.attempt)
        return AmongAttempts(item, row.place, row.attempts, row.previous, row.following)

    async def gaps(
        self, reader: Reader, run: str, asked: Asked, overdue: Sequence[Overdue] = ()
    ) -> Page[GapItem]:
        """Return what is missing of a run, as it was recorded; overdue writes lead the first page."""
        turn = self._pager.turn(reader, "gaps", {"run": run}, asked)
        async with self._database.connection() as connection:
            row = await run_pages.run_named(connection, reader.scope, run)
            if row is None:
                raise NotFound
            after = turn.keyset.after_id
            rows = await run_pages.gaps_of_run(connection, reader.scope, row.run_uid, after, turn.limit + 1)
            window = await _window(connection, rows)
        shown, last = ends(rows, turn.limit)
        place = None if last is None else (last.first_at, last.gap_id)
        waiting = [] if asked.cursor is not None else [overdue_item(each) for each in overdue]
        info = self._pager.info(turn, window.opened_at, window, place)
        return Page([*waiting, *map(gap_item, shown)], info)

    async def gap(self, reader: Reader, named: PartIdentity) -> GapItem | None:
        """Return the strongest gap of an identity."""
        async with self._database.connection() as connection:
            row = await run_pages.gap_of_identity(
                connection, reader.scope, named.run, named.exchange, named.attempt, named.kind
            )
        return None if row is None else gap_item(row)


async def overdue_of(queue: Queue, key: RunKey, after: timedelta) -> list[Overdue]:
    """Return the writes of a run that wait longer than `after`; Unavailable where the queue cannot tell."""
    latest = utc_now() - after
    waiting = [
        Overdue(exchange, attempt, Kind(kind), minted_at(evidence))
        for exchange, attempt, kind, evidence in await queue.pending_identities(key)
    ]
    return sorted((each for each in waiting if each.accepted_at <= latest), key=lambda each: each.accepted_at)


async def _window(connection: Connection, rows: Sequence[RunRow | GapRow | FoundAttempt]) -> Window:
    if not rows:
        return Window(*await pages.instants(connection))
    return Window(rows[0].opened_at, rows[-1].read_at)
