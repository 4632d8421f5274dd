"""Sources: what content depends on. Their owners add versions, withdraw them, revoke and restore.

Every change is an operator action and a leaf of the proof log, in the transaction that makes it. What a revocation
closes is closed by the next read, since reads ask Postgres; only the guard of a capture may look at an answer that is
up to a second old.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from policies.reasons import Reason
from policies.revocation import NOT_KNOWN, SourceFacts
from store.clock import monotonic
from store.commitments import leaf
from store.db import Connection, Database
from store.errors import Conflict, Malformed, NotFound, Unavailable
from store.ids import CALLER_ID, ScopeId
from store.tables import log_queue, operator_actions, sources
from store.tables.sources import SourceRow, VersionRow

MOST_TAGS: Final = 16
_MOST_VERSION: Final = 2**31 - 1

# How old an answer may be, and how many are kept.
_AGE_S: Final = 1.0
_MOST_KEPT: Final = 8192
# How long a database is waited for before it counts as away, and how often it is then asked again.
_PATIENCE_S: Final = 0.5
_RETRY_S: Final = 1.0

Word = Literal["revoke", "restore", "withdraw"]


@dataclass(frozen=True, slots=True)
class Added:
    """A new version, and which earlier ones it withdrew."""

    source: str
    version: int
    withdrawn: list[int]


@dataclass(frozen=True, slots=True)
class SourcePage:
    """Some sources by id; `last` is where the next page begins after, None at the end."""

    rows: list[SourceRow]
    last: str | None


class SourceBook:
    """What the scopes know of their sources."""

    def __init__(self, database: Database, clock: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._clock = clock
        # In the order in which they were read, so that the oldest make room.
        self._kept: OrderedDict[tuple[UUID, str], tuple[SourceFacts, float]] = OrderedDict()
        self._away_until = float("-inf")

    async def facts(self, scope: UUID, names: Sequence[str]) -> Mapping[str, SourceFacts]:
        """Return what is known of each, at most a second old; the last good answer while Postgres is away.

        Unavailable where there is no answer at all: an outage, which the caller must not take for a refusal.
        """
        oldest = self._clock() - _AGE_S
        kept = {name: self._kept[scope, name] for name in names if (scope, name) in self._kept}
        stale = [name for name in names if name not in kept or kept[name][1] <= oldest]
        answer = {name: facts for name, (facts, _) in kept.items()}
        if stale:
            try:
                answer |= await self._read(scope, stale)
            except Unavailable:
                if len(answer) < len(set(names)):
                    raise
        return answer

    async def _read(self, scope: UUID, names: Sequence[str]) -> Mapping[str, SourceFacts]:
        asked_at = self._clock()
        if asked_at < self._away_until:
            raise Unavailable(Reason.STORE_UNAVAILABLE)
        try:
            # A capture waits here: an outage must not become its wait.
            async with asyncio.timeout(_PATIENCE_S), self._database.connection() as connection:
                known = await sources.facts(connection, scope, names)
        except (Unavailable, TimeoutError) as fault:
            self._away_until = self._clock() + _RETRY_S
            raise Unavailable(Reason.STORE_UNAVAILABLE) from fault
        answer = {name: known.get(name, NOT_KNOWN) for name in names}
        self._keep(scope, answer, asked_at)
        return answer

    def _keep(self, scope: UUID, answer: Mapping[str, SourceFacts], asked_at: float) -> None:
        for name, facts in answer.items():
            self._kept[scope, name] = (facts, asked_at)
            self._kept.move_to_end((scope, name))
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    async def page(self, scope: ScopeId, after: str, limit: int) -> SourcePage:
        """Return some of the scope's sources, by id."""
        async with self._database.connection() as connection:
            rows = await sources.page(connection, scope, after, limit + 1)
        return SourcePage(rows[:limit], rows[limit - 1].source if len(rows) > limit else None)

    async def one(self, scope: ScopeId, source: str, limit: int) -> tuple[SourceRow, list[VersionRow]]:
        """Return a source and its newest versions."""
        async with self._database.connection() as connection:
            row = await sources.one(connection, scope, source)
            if row is None:
                raise NotFound
            return row, await sources.versions_newest(connection, scope, source, _MOST_VERSION, limit)

    async def put_version(
        self,
        scope: ScopeId,
        source: str,
        key_id: str,
        *,
        withdraw_earlier: bool,
        audience: Sequence[str] | None,
    ) -> Added:
        """Add the next version; a newer one alone changes nothing for what is bound to an earlier one."""
        tags = None if audience is None else _checked(audience)
        async with self._database.transaction() as connection:
            minted = await sources.add_version(connection, scope, source, tags)
            withdrawn: list[int] = []
            if withdraw_earlier:
                withdrawn = await sources.withdraw_earlier(connection, scope, source, minted.version)
            leaves = [_leaf("withdraw", minted.source_uid, version, minted.at) for version in withdrawn]
            await log_queue.copy(connection, [(scope, each) for each in leaves])
            await _note(connection, scope, key_id, "source_version_added", source, minted.version)
        return Added(source, minted.version, withdrawn)

    async def revoke(self, scope: ScopeId, source: str, version: int | None, key_id: str) -> None:
        """Close the whole source, or one version, now; once it is closed, again changes nothing."""
        async with self._database.transaction() as connection:
            found = await sources.lock(connection, scope, source, version)
            if found is None:
                raise NotFound
            await _note(connection, scope, key_id, "source_revoked", source, version)
            if not found.closed:
                await sources.set_closed(connection, scope, source, version, closed=True)
                told = _leaf("revoke", found.source_uid, version, found.at)
                await log_queue.copy(connection, [(scope, told)])

    async def restore(self, scope: ScopeId, source: str, version: int | None, key_id: str) -> None:
        """Open again what was closed; Conflict once what it closed has been destroyed."""
        async with self._database.transaction() as connection:
            found = await sources.lock(connection, scope, source, version)
            if found is None:
                raise NotFound
            if found.destroyed:
                raise Conflict(
                    Reason.ERASED, "what this revocation closed has been destroyed: it cannot be restored"
                )
            await _note(connection, scope, key_id, "source_restored", source, version)
            if found.closed:
                await sources.set_closed(connection, scope, source, version, closed=False)
                told = _leaf("restore", found.source_uid, version, found.at)
                await log_queue.copy(connection, [(scope, told)])


def _checked(audience: Sequence[str]) -> list[str]:
    if len(audience) > MOST_TAGS or any(CALLER_ID.fullmatch(tag) is None for tag in audience):
        raise Malformed(detail=f"audience is at most {MOST_TAGS} tags, each written like an id")
    return sorted(set(audience))


def _leaf(word: Word, source_uid: UUID, version: int | None, at: datetime) -> bytes:
    return leaf("revoke", op=word, si=source_uid, sv=version, t=at)


async def _note(
    connection: Connection, scope: ScopeId, key_id: str, action: str, source: str, version: int | None
) -> None:
    target = source if version is None else f"{source} v{version}"
    await operator_actions.insert(connection, scope, key_id, action, target)
