"""Runs as a page lists them: narrowed, in both directions, with what became of their observations; one by a word.

A page examines a bounded number of runs. Where filters find little it may be short, or empty, and still have a next.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from policies.kinds import Mode, RunState
from policies.reasons import OUTCOMES
from store.db import Database
from store.errors import Malformed
from store.services.paging import Asked, Pager, Reader, Turn, Window
from store.services.questions import label_named
from store.tables import pages, run_lists
from store.tables.run_lists import ListedRow

OUTCOME_WORDS: Final = ("stored", "not_captured", "erased", "expired", "nothing")
_SUGGESTED: Final = 8


@dataclass(frozen=True, slots=True)
class RunFilters:
    """How a list of runs may be narrowed; `since` and `until` belong to how it is asked for."""

    mode: str | None = None
    state: str | None = None
    label: str | None = None
    outcome: str | None = None
    reason: str | None = None

    def said(self) -> dict[str, str]:
        """Return the filters that were given, by name; Malformed for a word that none of them knows."""
        known = {"mode": tuple(Mode), "state": tuple(RunState), "outcome": OUTCOME_WORDS, "reason": OUTCOMES}
        label_named(self.label)
        named = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
        for name, word in named.items():
            if name in known and word not in known[name]:
                raise Malformed(detail=f"{name} is not one of those that there are")
        return named


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the list; `missing` counts no number twice, which the counts by reason may."""

    run_id: str
    mode: str
    content: str
    sampled: bool
    state: str
    never_closed: bool
    erased: bool
    expired: bool
    labels: list[str]
    declared_at: datetime
    closed_at: datetime | None
    stored: int
    missing: int
    by_reason: dict[str, int]


class TwoWays(msgspec.Struct, frozen=True):
    """Cursors of the pages before and after this one; None where there is nothing more that way."""

    previous: str | None
    next: str | None


class RunList(msgspec.Struct, frozen=True):
    """One page of runs, newest first; `examined` runs were looked at for it."""

    items: list[ListedRun]
    ways: TwoWays
    examined: int
    observed_at: datetime


class RunLists:
    """Answers everybody who reads metadata."""

    def __init__(self, database: Database, pager: Pager, *, examined: int) -> None:
        self._database = database
        self._pager = pager
        self._examined = examined

    async def page(self, reader: Reader, filters: RunFilters, asked: Asked, *, back: bool = False) -> RunList:
        """Return one page, newest first; `back` says that the cursor leads to what is newer."""
        said = filters.said()
        forth = Asked("newest", asked.limit, None if back else asked.cursor, asked.since, asked.until)
        towards = Asked("oldest", asked.limit, asked.cursor if back else None, asked.since, asked.until)
        turns = {False: self._turn(reader, said, forth), True: self._turn(reader, said, towards)}
        look = self._examined if said else asked.limit
        async with self._database.connection() as connection:
            inside = filters.outcome is not None or filters.reason is not None
            rows = await run_lists.listed(
                connection, reader.scope, turns[back].keyset, look + 1, look_inside=inside
            )
            fitting = [row for row in rows[:look] if _fits(row, filters)]
            shown = fitting[: asked.limit]
            more = _last(rows, fitting, asked.limit, look)
            counts = await run_lists.counted(connection, reader.scope, [row.run_uid for row in shown])
            opened_at, closed_at = await pages.instants(connection)
        window = Window(rows[0].opened_at if rows else opened_at, closed_at)
        # Where this page was come from, there is a page that way; ahead, only where more follows.
        came_from = (shown[0] if shown else rows[0] if rows else None) if asked.cursor else None
        ends = {back: more, not back: came_from}
        cursors = {
            way: self._pager.info(
                turns[way], opened_at, window, None if row is None else (row.declared_at, row.run_uid)
            ).next
            for way, row in ends.items()
        }
        listed = [_listed(row, counts.get(row.run_uid, {})) for row in (reversed(shown) if back else shown)]
        ways = TwoWays(previous=cursors[True], next=cursors[False])
        return RunList(listed, ways, min(len(rows), look), opened_at)

    async def beginning_with(self, reader: Reader, text: str) -> list[str]:
        """Return a few runs whose ids begin with a text."""
        async with self._database.connection() as connection:
            return await run_lists.beginning_with(connection, reader.scope, text, _SUGGESTED)

    def _turn(self, reader: Reader, said: dict[str, str], asked: Asked) -> Turn:
        return self._pager.turn(reader, "run-list", said, asked)


def _last(rows: list[ListedRow], fitting: list[ListedRow], limit: int, look: int) -> ListedRow | None:
    """Return the row after which the next page begins: the last shown, or the last examined; None at the end."""
    if len(fitting) > limit:
        return fitting[limit - 1]
    return rows[look - 1] if len(rows) > look else None


def _fits(row: ListedRow, wanted: RunFilters) -> bool:
    reasons = row.reasons or []
    outcomes = {
        "stored": row.stored,
        "not_captured": reasons,
        "erased": row.erased,
        "expired": row.expired,
        "nothing": not row.stored and not reasons,
    }
    return (
        wanted.mode in (None, row.mode)
        and wanted.state in (None, row.state)
        and (wanted.label is None or _labelled(row, wanted.label))
        and (wanted.reason is None or wanted.reason in reasons)
        and (wanted.outcome is None or bool(outcomes[wanted.outcome]))
    )


def _labelled(row: ListedRow, wanted: str) -> bool:
    """`name=value` is one label, `name` any of that name."""
    if "=" in wanted:
        return wanted in row.labels
    return any(label.partition("=")[0] == wanted for label in row.labels)


def _listed(row: ListedRow, counts: dict[str, int]) -> ListedRun:
    return ListedRun(
        run_id=row.run,
        mode=row.mode,
        content=row.content,
        sampled=row.sampled,
        state=row.state,
        never_closed=row.never_closed,
        erased=row.erased,
        expired=row.expired,
        labels=row.labels,
        declared_at=row.declared_at,
        closed_at=row.closed_at,
        stored=counts.get("stored", 0),
        missing=counts.get("", 0),
        by_reason={word: count for word, count in sorted(counts.items()) if word not in {"", "stored"}},
    )
