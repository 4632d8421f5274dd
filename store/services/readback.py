"""What readers ask of parts: pages of them, and one of them. Metadata only; content has its own service.

Every page and every part is asked of Postgres anew and decided on in that instant. Nothing is remembered from one
question to the next, and no question costs a query for each row.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias
from uuid import UUID

from policies.decisions import Decision, Refuse
from policies.kinds import Kind
from policies.reasons import MEMBERS, Family, Reason
from store.db import Connection, Database
from store.errors import Malformed, NotFound
from store.keyring import Keyring
from store.services import lost
from store.services.paging import Asked, Page, Pager, Reader, Turn, Window
from store.services.part_views import PartItem, PartView, ProofState, TimesView, decide, part_item, part_view
from store.tables import pages
from store.tables.pages import OFFERED, WITH_EVERY_SET, Keyset, PartKey, PartRow

Readable = Literal["readable", "unavailable"]
# How a part of a scope stands in the proof log.
Prove: TypeAlias = Callable[[Connection, UUID, UUID], Awaitable[ProofState]]

# Of what a page may examine, the first look takes this many times its limit: most filters find enough there.
_FIRST_LOOK: Final = 4


@dataclass(frozen=True, slots=True)
class PartFilters:
    """How a page of parts may be narrowed; only the sets in `pages.OFFERED` are taken."""

    run: str | None = None
    exchange: str | None = None
    attempt: str | None = None
    kind: Kind | None = None
    label: str | None = None
    availability: Readable | None = None
    reason: Reason | None = None

    def said(self) -> dict[str, str]:
        """Return the filters that were given, by name."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return {name: str(value) for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """What a caller names a part by within its scope."""

    run: str
    exchange: str
    attempt: str
    kind: Kind


@dataclass(slots=True)
class _Found:
    """A page while it is being filled; `last` is the row after which the next one begins."""

    items: list[PartItem]
    opened_at: datetime
    observed_at: datetime
    closed_at: datetime
    last: tuple[datetime, UUID] | None = None


class Readback:
    """Answers reviewers, custodians, auditors and operators."""

    def __init__(
        self, database: Database, keyring: Keyring, pager: Pager, prove: Prove, *, examined: int
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._pager = pager
        self._prove = prove
        self._examined = examined

    async def parts(self, reader: Reader, filters: PartFilters, asked: Asked) -> Page[PartItem]:
        """Return one page of parts; it may be short or empty and still have a next one, where filters find little."""
        said = filters.said()
        _offered(said)
        turn = self._pager.turn(reader, "parts", said, asked)
        async with self._database.connection() as connection:
            by_label = None
            if filters.label is not None:
                by_label = await pages.runs_of_label(connection, reader.scope, filters.label)
            search = _Search(connection, reader, self._keyring.token_key("lookup"), filters, by_label)
            found = await self._fill(search, turn)
        window = Window(found.opened_at, found.closed_at)
        return Page(found.items, self._pager.info(turn, found.observed_at, window, found.last))

    async def part(self, reader: Reader, evidence: UUID) -> PartView:
        """Return one part's metadata; NotFound also for one of another scope, Gone for one that was lost."""
        async with self._database.connection() as connection:
            key = await pages.key_of_evidence(connection, reader.scope, evidence)
            try:
                return await self._view(connection, reader, key)
            except NotFound:
                refusal = await lost.refusal(connection, reader.scope, evidence, reader.role, content=False)
                if refusal is not None:
                    raise refusal from None
                raise

    async def part_by_identity(self, reader: Reader, identity: PartIdentity) -> PartView:
        """Return the part of an identity; NotFound if nothing was stored under it."""
        async with self._database.connection() as connection:
            return await self._view(connection, reader, await key_of(connection, reader.scope, identity))

    async def times(self, reader: Reader, evidence: UUID) -> TimesView:
        """Return when something became of a part, for whoever is told why it is not readable."""
        async with self._database.connection() as connection:
            found = await pages.times(connection, reader.scope, evidence)
        if found is None:
            raise NotFound
        return TimesView(**asdict(found))

    async def _view(self, connection: Connection, reader: Reader, key: PartKey | None) -> PartView:
        # Another scope's part, and one that never was, take the same path to the same answer.
        rows = await pages.facts(connection, reader.scope, [] if key is None else [key])
        if key is None or key.evidence not in rows:
            raise NotFound
        state = await self._prove(connection, reader.scope, key.evidence)
        return part_view(rows[key.evidence], reader, self._keyring.token_key("lookup"), state)

    async def _fill(self, search: "_Search", turn: Turn) -> _Found:
        """Look at rows until the page is full, the list ends, or as many were examined as one page may."""
        wanted, left, keyset = turn.limit, self._examined, turn.keyset
        found: _Found | None = None
        look = min(wanted * _FIRST_LOOK, left) if search.narrows else wanted
        while True:
            # One more than is looked at, which tells whether anything follows.
            keys = await search.keys(keyset, look + 1)
            rows, more = keys[:look], len(keys) > look
            found = await search.add(found, rows, wanted, more=more)
            left -= look
            if not more or len(found.items) >= wanted or left <= 0:
                return found
            keyset = Keyset(keyset.order, rows[-1].stored_at, rows[-1].evidence, keyset.bound_at)
            look = left


@dataclass(frozen=True, slots=True)
class _Search:
    """One question about parts. `by_label` None: the label, if any, is on too many runs and looked at row by row."""

    connection: Connection
    reader: Reader
    lookup: bytes
    filters: PartFilters
    by_label: list[UUID] | None

    @property
    def narrows(self) -> bool:
        """Say whether rows that the index gives may still fall through."""
        wanted = self.filters
        by_row = (wanted.exchange, wanted.attempt, wanted.kind, wanted.availability, wanted.reason)
        return any(each is not None for each in by_row) or (
            wanted.label is not None and self.by_label is None
        )

    async def keys(self, keyset: Keyset, limit: int) -> list[PartKey]:
        scope = self.reader.scope
        if self.filters.run is not None:
            return await pages.run_part_keys(self.connection, scope, keyset, limit, self.filters.run)
        if self.by_label is not None:
            return await pages.runs_part_keys(self.connection, scope, keyset, limit, self.by_label)
        return await pages.part_keys(self.connection, scope, keyset, limit)

    async def add(self, found: _Found | None, keys: Sequence[PartKey], wanted: int, *, more: bool) -> _Found:
        """Add what fits of these rows to the page, and say where the next page begins."""
        likely = [key for key in keys if self._likely(key)]
        rows = await pages.facts(self.connection, self.reader.scope, likely)
        found = found or await self._opened(keys, rows)
        found.last = None
        for place, key in enumerate(keys):
            row = rows.get(key.evidence)
            if row is None:
                continue
            found.observed_at, found.closed_at = row.ground.observed_at, max(found.closed_at, row.closed_at)
            if self._fits(row):
                found.items.append(part_item(row, self.reader, self.lookup))
            if len(found.items) == wanted:
                ended = place + 1 == len(keys) and not more
                found.last = None if ended else (key.stored_at, key.evidence)
                return found
        if more:
            found.last = (keys[-1].stored_at, keys[-1].evidence)
        return found

    async def _opened(self, keys: Sequence[PartKey], rows: dict[UUID, PartRow]) -> _Found:
        if not rows:
            opened_at, closed_at = await pages.instants(self.connection)
            return _Found([], keys[0].opened_at if keys else opened_at, opened_at, closed_at)
        first = next(iter(rows.values()))
        return _Found([], keys[0].opened_at, first.ground.observed_at, first.closed_at)

    def _likely(self, key: PartKey) -> bool:
        wanted = self.filters
        return (
            wanted.kind in (None, key.kind)
            and wanted.exchange in (None, key.exchange)
            and wanted.attempt in (None, key.attempt)
        )

    def _fits(self, row: PartRow) -> bool:
        wanted = self.filters
        if wanted.label is not None and wanted.label not in row.labels:
            return False
        if wanted.availability is None and wanted.reason is None:
            return True
        return _available(decide(row.ground, self.reader), wanted)


async def key_of(connection: Connection, scope: UUID, named: PartIdentity) -> PartKey | None:
    """Return where the part of an identity lies, within one scope."""
    return await pages.key_of_identity(
        connection, scope, named.run, named.exchange, named.attempt, named.kind
    )


def _available(decision: Decision, wanted: PartFilters) -> bool:
    reason = decision.reason if isinstance(decision, Refuse) else None
    state = "readable" if reason is None else "unavailable"
    return wanted.availability in (None, state) and wanted.reason in (None, reason)


def _offered(said: dict[str, str]) -> None:
    """Refuse a set of filters that no index serves, and name those that there are."""
    wanted = frozenset(said) - WITH_EVERY_SET
    if all(wanted != each.filters for each in OFFERED):
        sets = ", ".join("+".join(sorted(each.filters)) or "none" for each in OFFERED)
        others = ", ".join(sorted(WITH_EVERY_SET))
        raise Malformed(detail=f"filters are offered in these sets: {sets}; with each of them: {others}")


def read_reason(text: str) -> Reason:
    """Return a reason for which a part cannot be read."""
    if text not in MEMBERS[Family.READ]:
        raise Malformed(detail="reason is one for which a part cannot be read")
    return Reason(text)
