"""The lens: what readers ask about a run's actions, tool surfaces, coverage and delivery. Metadata, and no content.

Facts can be read as long as their run's content could be: what an erasure or the end of the retention closes is closed
at once, whatever has been deleted by then.
"""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from policies.availability import facts_readable
from policies.decisions import Refuse
from policies.facts import FactType
from policies.reasons import Reason
from store.db import Connection, Database
from store.errors import Gone, NotFound, Refused
from store.services import facts
from store.services.lens_chain import action_fields, action_item, chain_fields, chains
from store.services.lens_views import (
    ActionItem,
    ActionView,
    CoverageItem,
    DeliveryItem,
    FactCounts,
    SurfaceItem,
    Told,
    coverage_item,
    delivery_item,
    surface_item,
)
from store.services.paging import Asked, Page, PageInfo, Pager, Reader, Turn, Window, ends
from store.services.receipt_view import minted_at
from store.tables import facts as table
from store.tables import pages
from store.tables.facts import Standing, ToldAction, ToldFact

_GONE: Final = frozenset({Reason.ERASED, Reason.RETENTION_EXPIRED})

Item = TypeVar("Item")
Shown = Callable[[ToldFact, Any], Item]


class Lens:
    """Answers everybody who reads metadata."""

    def __init__(self, database: Database, pager: Pager) -> None:
        self._database = database
        self._pager = pager

    async def actions(self, reader: Reader, run: str, asked: Asked) -> Told[ActionItem]:
        """Return one page of a run's actions, in the order in which they were first told of."""
        turn = self._pager.turn(reader, "lens-actions", {"run": run}, asked)
        async with self._run(reader, run) as (connection, stands):
            named = await table.actions(
                connection, reader.scope, stands.run_uid, turn.keyset.after_id, turn.limit + 1
            )
            shown, last = ends(named, turn.limit)
            found = {}
            if shown:
                texts = [each.action for each in shown]
                told = await table.of_actions(connection, reader.scope, stands.run_uid, texts)
                found = chains(told, await table.unbound(connection, reader.scope, stands.run_uid))
            page = await self._page(connection, turn, stands, last)
        items = [action_item(found[each.action]) for each in shown]
        return Told(Page(items, page), stands.is_full)

    async def action(self, reader: Reader, run: str, action: str) -> ActionView | None:
        """Return one action with its chain; None where nothing was recorded of it, which is not that it never was."""
        async with self._run(reader, run) as (connection, stands):
            told = await table.of_actions(connection, reader.scope, stands.run_uid, [action])
            unbound = await table.unbound(connection, reader.scope, stands.run_uid) if told else []
        chain = chains(told, unbound).get(action)
        if chain is None:
            return None
        return ActionView(
            **action_fields(chain),  # type: ignore[arg-type] # by name, as they stand there
            **chain_fields(chain),  # type: ignore[arg-type] # by name, as they stand there
            run_id=run,
            observed_at=stands.opened_at,
            facts_full=stands.is_full,
        )

    async def surface(
        self, reader: Reader, run: str, asked: Asked, *, exchange: str | None
    ) -> Told[SurfaceItem]:
        """Return one page of the checks of tool surfaces, in the order told."""
        return await self._facts(
            reader, run, asked, surface_item, FactType.SURFACE, action=None, exchange=exchange
        )

    async def coverage(
        self, reader: Reader, run: str, asked: Asked, *, action: str | None
    ) -> Told[CoverageItem]:
        """Return one page of how much was read of files, in the order told."""
        return await self._facts(
            reader, run, asked, coverage_item, FactType.COVERAGE, action=action, exchange=None
        )

    async def delivery(
        self, reader: Reader, run: str, asked: Asked, *, action: str | None
    ) -> Told[DeliveryItem]:
        """Return one page of what was promised and is there, or not, in the order told."""
        return await self._facts(
            reader, run, asked, delivery_item, FactType.DELIVERY, action=action, exchange=None
        )

    async def counts(self, reader: Reader, run: str, *, action: str | None = None) -> FactCounts:
        """Return how much was told of a run's tools, or of one action alone."""
        async with self._run(reader, run) as (connection, stands):
            found = await table.counts(connection, reader.scope, stands.run_uid, action)
        return FactCounts(**found._asdict(), full=stands.is_full)

    async def met(
        self, reader: Reader, run: str, named: Collection[tuple[str, str | None]]
    ) -> set[tuple[str, str | None]]:
        """Return those of some attempts that have a page; without a name, any attempt of the exchange."""
        if not named:
            return set()
        async with self._run(reader, run) as (connection, stands):
            return await table.met(connection, reader.scope, stands.run_uid, named)

    async def _facts(
        self,
        reader: Reader,
        run: str,
        asked: Asked,
        shown_as: Shown[Item],
        of_type: FactType,
        *,
        action: str | None,
        exchange: str | None,
    ) -> Told[Item]:
        filters = {"run": run, "action": action, "exchange": exchange}
        said = {name: value for name, value in filters.items() if value is not None}
        turn = self._pager.turn(reader, f"lens-{of_type}", said, asked)
        async with self._run(reader, run) as (connection, stands):
            rows = await table.of_type(
                connection, reader.scope, stands.run_uid, of_type.value, turn.keyset.after_id,
                action=action, exchange=exchange, limit=turn.limit + 1,
            )  # fmt: skip
            shown, last = ends(rows, turn.limit)
            page = await self._page(connection, turn, stands, last)
        return Told(Page([shown_as(row, facts.decode(row.body)) for row in shown], page), stands.is_full)

    @asynccontextmanager
    async def _run(self, reader: Reader, run: str) -> AsyncIterator[tuple[Connection, Standing]]:
        """Read one run's facts in one snapshot; raise why they cannot be read by this reader now."""
        async with (
            self._database.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            stands = await table.standing(connection, reader.scope, run)
            if stands is None:
                raise NotFound
            decision = facts_readable(
                reader.role, retain_until=stands.retain_until, erased=stands.erased, held=stands.held,
                now=stands.opened_at,
            )  # fmt: skip
            if isinstance(decision, Refuse):
                raise (Gone if decision.reason in _GONE else Refused)(decision.reason)
            yield connection, stands

    async def _page(
        self, connection: Connection, turn: Turn, stands: Standing, last: ToldAction | ToldFact | None
    ) -> PageInfo:
        _, closed_at = await pages.instants(connection)
        place = None if last is None else (minted_at(last.fact_uid), last.fact_uid)
        return self._pager.info(turn, stands.opened_at, Window(stands.opened_at, closed_at), place)
