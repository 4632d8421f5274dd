"""One run as its page shows it: how it stands, a page of its attempts as they are now, and the whole of it in time.

What a part's state is called is decided by the same policy as its reads, at the instant of the statement. A role that
never reads content is shown what a reviewer with the same clearances would meet; whether it may read is said apart.
No question costs a query for each row, however much the run holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from policies.availability import content_role
from policies.decisions import Refuse
from policies.kinds import Dispatch, Kind, Role, SaidBy, Settlement
from policies.outcomes import Account
from policies.reasons import Reason
from store.db import Connection, Database
from store.errors import NotFound
from store.keyring import Keyring
from store.services.paging import Asked, Pager, Reader, Turn, Window, ends
from store.services.part_views import PartItem, decide, part_item
from store.services.run_account import account_of
from store.services.run_lists import TwoWays
from store.services.run_views import CountsView, RunItem, run_item
from store.tables import pages, run_maps, run_pages
from store.tables.grounds import Ground
from store.tables.run_maps import AttemptKey, Extent, Head
from store.tables.run_pages import AttemptRow, RunRow

# What a picture of the whole is cut into: few enough for a phone, and for any number of parts.
STRETCHES: Final = 60
_SHORTEST: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class MapPart:
    """One stored part: why it cannot be read now (None: it can), whoever asks, and as their list would show it."""

    item: PartItem
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class MapGap:
    """One observation that did not become a part, for the strongest that was said of it."""

    kind: Kind
    said_by: SaidBy
    reason: Reason
    first_at: datetime


@dataclass(frozen=True, slots=True)
class MapAttempt:
    """One attempt as far as anything of it was told, stored or missed; `unknown` means that nobody told us."""

    exchange: str
    attempt: str
    first_at: datetime
    dispatch: Dispatch
    settlement: Settlement
    dispatch_conflict: str | None
    settlement_conflict: str | None
    parts: tuple[MapPart, ...]
    gaps: tuple[MapGap, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """How many observations of one stretch of the run's time stand how: None stands for what can be read."""

    at: int
    parts: Mapping[Reason | None, int]
    missed: Mapping[Reason, int]


@dataclass(frozen=True, slots=True)
class RunMap:
    """One run. `whole` is empty where the page's own attempts are the whole run."""

    run: RunItem
    head: Head
    accounts: Mapping[str, Account]
    complete: bool | None
    counts: CountsView
    attempts: Sequence[MapAttempt]
    ways: TwoWays
    extent: Extent
    whole: Sequence[Stretch]
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class ExchangeMap:
    """A page of an exchange's attempts, of which `before` others are earlier."""

    run: RunItem
    attempts: Sequence[MapAttempt]
    ways: TwoWays
    before: int


class RunMaps:
    """Answers everybody who reads metadata."""

    def __init__(self, database: Database, pager: Pager, keyring: Keyring) -> None:
        self._database = database
        self._pager = pager
        self._keyring = keyring

    async def of_run(self, reader: Reader, run: str, asked: Asked, *, back: bool = False) -> RunMap:
        """Return one run with a page of its attempts, first ones first; `back` says that the cursor leads back."""
        async with (
            self._database.connection() as connection,
            # One snapshot: an observation that settles meanwhile is counted once, before or after.
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            row = await _found(connection, reader, run)
            head = await run_maps.head(connection, reader.scope, row.run_uid)
            account = await account_of(connection, reader.scope, row)
            turns = self._turns(reader, {"run": row.run}, asked, back=back)
            keyset, limit = turns[back].keyset, asked.limit + 1
            keys, extent = await run_maps.page(connection, reader.scope, row.run_uid, keyset, limit)
            shown, ways = self._ways(turns, row, keys, asked, back=back)
            attempts = await self._filled(connection, reader, row.run_uid, shown)
            all_here = len(attempts) == extent.attempts
            whole = [] if all_here else await _whole(connection, reader, row.run_uid, extent)
        return RunMap(
            run=run_item(row),
            head=head,
            accounts=account.sessions,
            complete=account.complete,
            counts=account.counts,
            attempts=attempts[::-1] if back else attempts,
            ways=ways,
            extent=extent,
            whole=whole,
            observed_at=row.opened_at,
        )

    async def of_exchange(
        self, reader: Reader, run: str, exchange: str, asked: Asked, *, back: bool = False
    ) -> ExchangeMap:
        """Return a page of one exchange's attempts, first ones first; none where it has none."""
        async with self._database.connection() as connection:
            row = await _found(connection, reader, run)
            turns = self._turns(reader, {"run": row.run, "exchange": exchange}, asked, back=back)
            keyset, limit = turns[back].keyset, asked.limit + 1
            keys, places = await run_maps.of_exchange(
                connection, reader.scope, row.run_uid, keyset, limit, exchange
            )
            shown, ways = self._ways(turns, row, keys, asked, back=back)
            attempts = await self._filled(connection, reader, row.run_uid, shown)
        before = min(places[: len(shown)], default=1) - 1
        return ExchangeMap(run_item(row), attempts[::-1] if back else attempts, ways, before)

    def _turns(
        self, reader: Reader, filters: dict[str, str], asked: Asked, *, back: bool
    ) -> Mapping[bool, Turn]:
        """Begin a page, and the one that leads the other way."""
        forth = replace(asked, order="oldest", cursor=None if back else asked.cursor)
        towards = replace(asked, order="newest", cursor=asked.cursor if back else None)
        return {
            way: self._pager.turn(reader, "run-map", filters, one)
            for way, one in ((False, forth), (True, towards))
        }

    def _ways(
        self, turns: Mapping[bool, Turn], row: RunRow, keys: Sequence[AttemptKey], asked: Asked, *, back: bool
    ) -> tuple[Sequence[AttemptKey], TwoWays]:
        """Cut keys that were asked for with one more than the limit, and say where the pages around them begin."""
        shown, more = ends(keys, asked.limit)
        came_from = shown[0] if shown and asked.cursor else None
        after = {back: more, not back: came_from}
        return shown, TwoWays(
            self._cursor(turns[True], row, after[True]), self._cursor(turns[False], row, after[False])
        )

    def _cursor(self, turn: Turn, row: RunRow, last: AttemptKey | None) -> str | None:
        window = Window(row.opened_at, row.read_at)
        place = None if last is None else (last.first_at, last.tie)
        return self._pager.info(turn, row.opened_at, window, place).next

    async def _filled(
        self, connection: Connection, reader: Reader, run_uid: UUID, keys: Sequence[AttemptKey]
    ) -> list[MapAttempt]:
        """Look up all that is known of these attempts, in four statements."""
        told = {
            (each.exchange, each.attempt): each
            for each in await run_maps.told(connection, reader.scope, run_uid, keys)
        }
        parts = await self._parts(connection, reader, run_uid, keys)
        gaps: dict[tuple[str, str], dict[Kind, MapGap]] = {}
        for gap in await run_maps.missed(connection, reader.scope, run_uid, keys):
            strongest = MapGap(gap.kind, gap.said_by, gap.reason, gap.first_at)
            gaps.setdefault((gap.exchange, gap.attempt), {}).setdefault(gap.kind, strongest)
        return [
            _attempt(
                key,
                told.get((key.exchange, key.attempt)),
                parts.get((key.exchange, key.attempt), []),
                gaps.get((key.exchange, key.attempt), {}),
            )
            for key in keys
        ]

    async def _parts(
        self, connection: Connection, reader: Reader, run_uid: UUID, keys: Sequence[AttemptKey]
    ) -> dict[tuple[str, str], list[MapPart]]:
        lookup = self._keyring.token_key("lookup")
        where = await run_maps.part_keys(connection, reader.scope, run_uid, keys)
        rows = await pages.facts(connection, reader.scope, where)
        found: dict[tuple[str, str], list[MapPart]] = {}
        for row in rows.values():
            part = MapPart(part_item(row, reader, lookup), _reason(row.ground, reader))
            found.setdefault((row.exchange, row.attempt), []).append(part)
        return found


async def _found(connection: Connection, reader: Reader, run: str) -> RunRow:
    row = await run_pages.run_named(connection, reader.scope, run)
    if row is None:
        raise NotFound
    return row


def _reason(ground: Ground, reader: Reader) -> Reason | None:
    """Return why a part cannot be read by anybody with the reader's clearances whose role reads content."""
    eyes = reader if content_role(reader.role) else replace(reader, role=Role.REVIEWER)
    decision = decide(ground, eyes)
    return decision.reason if isinstance(decision, Refuse) else None


def _attempt(
    key: AttemptKey, told: AttemptRow | None, parts: list[MapPart], gaps: Mapping[Kind, MapGap]
) -> MapAttempt:
    there = {part.item.kind for part in parts}
    return MapAttempt(
        exchange=key.exchange,
        attempt=key.attempt,
        first_at=key.first_at,
        dispatch=told.dispatch if told else Dispatch.UNKNOWN,
        settlement=told.settlement if told else Settlement.UNKNOWN,
        dispatch_conflict=told.dispatch_conflict if told else None,
        settlement_conflict=told.settlement_conflict if told else None,
        parts=tuple(sorted(parts, key=lambda part: part.item.kind)),
        gaps=tuple(gap for kind, gap in sorted(gaps.items()) if kind not in there),
    )


async def _whole(connection: Connection, reader: Reader, run_uid: UUID, extent: Extent) -> list[Stretch]:
    if extent.first_at is None or extent.last_at is None:
        return []
    # A run may be one instant long.
    cut = extent.first_at, max(extent.last_at - extent.first_at, _SHORTEST) / STRETCHES
    parts: dict[int, dict[Reason | None, int]] = {}
    for group in await run_maps.groups(connection, reader.scope, run_uid, cut, STRETCHES):
        here, reason = parts.setdefault(group.stretch, {}), _reason(group.ground, reader)
        here[reason] = here.get(reason, 0) + group.parts
    missed: dict[int, dict[Reason, int]] = {}
    for gone in await run_maps.missed_groups(connection, reader.scope, run_uid, cut, STRETCHES):
        missed.setdefault(gone.stretch, {})[gone.reason] = gone.parts
    return [Stretch(at, parts.get(at, {}), missed.get(at, {})) for at in range(STRETCHES)]
