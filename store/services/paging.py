"""Pages: where one begins, what it says of itself, and the cursor of the next one.

A page is live: it has its own window of database time and is no part of a snapshot of the list.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar
from uuid import UUID

import msgspec

from policies.availability import Viewer
from policies.kinds import Role
from store import cursor
from store.clock import utc_now
from store.cursor import Cursor, Question
from store.errors import Malformed
from store.ids import ScopeId
from store.tables.pages import Keyset, Order

MOST: Final = 200
USUAL: Final = 50

ALWAYS: Final = datetime(1, 1, 1, tzinfo=UTC)
"""Before everything."""

_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
_LEAST_ID: Final = UUID(int=0)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, within which scope."""

    scope: ScopeId
    key_id: str
    role: Role
    clearances: frozenset[str] = frozenset()

    @property
    def viewer(self) -> Viewer:
        """Return who asks, as the policies want to know it."""
        return Viewer(self.role, self.clearances)


@dataclass(frozen=True, slots=True)
class Asked:
    """How a page was asked for: `since` is part of it, `until` is not."""

    order: Order = "newest"
    limit: int = USUAL
    cursor: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Window(msgspec.Struct, frozen=True):
    """Database time at the start and at the end of what the page asked."""

    opened_at: datetime = msgspec.field(name="from")
    closed_at: datetime = msgspec.field(name="to")


class PageInfo(msgspec.Struct, frozen=True):
    """What a page says of itself; `next` is the cursor of the next one, null at the end."""

    observed_at: datetime
    window: Window
    consistency: str
    next: str | None


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Some of a list."""

    items: list[Item]
    page: PageInfo


@dataclass(frozen=True, slots=True)
class Turn:
    """One page being turned: the question to which its cursors belong, and where it begins."""

    question: Question
    keyset: Keyset
    limit: int


class Pager:
    """Reads and signs cursors under one key."""

    def __init__(self, key: Callable[[], bytes], clock: Callable[[], datetime] = utc_now) -> None:
        self._key = key
        self._clock = clock

    def turn(self, reader: Reader, page: str, filters: dict[str, str], asked: Asked) -> Turn:
        """Begin a page; Malformed for a cursor that was not given for this question by this key."""
        if not 1 <= asked.limit <= MOST:
            raise Malformed(detail=f"limit is 1 to {MOST}")
        times = {"from": asked.since, "to": asked.until}
        said = filters | {name: at.isoformat() for name, at in times.items() if at is not None}
        question = Question(
            reader.scope, reader.key_id, reader.clearances, page, tuple(sorted(said.items())), asked.order
        )
        return Turn(question, self._keyset(question, asked), asked.limit)

    def info(
        self, turn: Turn, observed_at: datetime, window: Window, last: tuple[datetime, UUID] | None
    ) -> PageInfo:
        """Return what the page says of itself; `last` is the row after which the next one begins, None at the end."""
        following = None
        if last is not None:
            following = cursor.sign(self._key(), turn.question, Cursor(*last, issued_at=self._clock()))
        return PageInfo(observed_at, window, "per-page-live", following)

    def _keyset(self, question: Question, asked: Asked) -> Keyset:
        since, until = asked.since or ALWAYS, asked.until or _NEVER
        # No id is below the least one: before it lies what is earlier, after it what is not.
        after_at, bound_at = (until, since) if asked.order == "newest" else (since, until)
        after_id = _LEAST_ID
        if asked.cursor is not None:
            read = cursor.read(self._key(), question, asked.cursor, self._clock())
            after_at, after_id = read.last_at, read.last_id
        return Keyset(asked.order, after_at, after_id, bound_at)


def ends(rows: Sequence[Item], limit: int) -> tuple[Sequence[Item], Item | None]:
    """Cut rows that were asked for with one more than the limit; return the last one only if more follow."""
    return rows[:limit], rows[limit - 1] if len(rows) > limit else None
