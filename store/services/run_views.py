"""Runs, attempts and gaps as readers see them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from policies.kinds import Dispatch, Kind, SaidBy, Settlement
from policies.outcomes import Account
from policies.reasons import Mark, Reason
from store.tables.run_pages import AttemptRow, GapRow, RunRow


class RunItem(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a list."""

    run_id: str
    mode: str
    content: str
    sampled: bool
    state: str
    erased: bool
    kinds: list[str]
    retain_until: datetime
    shared: bool
    labels: dict[str, str]
    declared_at: datetime
    closing_at: datetime | None
    closed_at: datetime | None
    never_closed: bool


class SessionView(msgspec.Struct, frozen=True):
    """How one session's numbers are accounted for; `observed` null: it never told how many there were."""

    session: str
    observed: int | None
    stored: int
    refused: int
    said: int
    unaccounted: int
    beyond: int


class CountsView(msgspec.Struct, frozen=True):
    """How many observations ended how; a reason counts only what nothing stronger was said of."""

    stored: int
    not_captured: dict[str, int]
    unaccounted: int


class TimelinePart(msgspec.Struct, frozen=True):
    """One part of an attempt."""

    kind: Kind
    evidence: UUID
    received_at: datetime
    stored_at: datetime


class TimelineGap(msgspec.Struct, frozen=True):
    """One observation of an attempt that did not become a part, and why."""

    kind: Kind
    said_by: SaidBy
    reason: Reason
    first_at: datetime


class TimelineAttempt(msgspec.Struct, frozen=True):
    """One attempt as far as anything of it was told, stored or missed; `unknown` means that nobody told us."""

    exchange_id: str
    attempt_id: str
    first_at: datetime
    dispatch: Dispatch
    settlement: Settlement
    dispatch_conflict: str | None
    settlement_conflict: str | None
    parts: list[TimelinePart]
    gaps: list[TimelineGap]


class RunView(RunItem, frozen=True, kw_only=True):
    """One run alone; `complete` null is unknown, and `timeline_more` says that the timeline was cut."""

    observed_at: datetime
    counts: CountsView
    complete: bool | None
    sessions: list[SessionView]
    timeline: list[TimelineAttempt]
    timeline_more: bool


class AttemptItem(msgspec.Struct, frozen=True):
    """One attempt found by a reference of it."""

    run_id: str
    exchange_id: str
    attempt_id: str
    first_at: datetime
    dispatch: Dispatch
    settlement: Settlement
    dispatch_conflict: str | None
    settlement_conflict: str | None


@dataclass(frozen=True, slots=True)
class AmongAttempts:
    """The `place`th of so many attempts of an exchange, and the names of those before and after it."""

    item: AttemptItem
    place: int
    count: int
    previous: str | None
    next: str | None


class GapItem(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing: an identity, or numbers of a session ([first, last] each), and how many had no room there.

    A provisional one is no gap yet: it waits longer than it should, and goes once it settles.
    """

    said_by: SaidBy | None
    # A Reason or a Mark; the encoder knows no union of two closed lists of words.
    reason: str
    session: str | None = None
    ranges: list[tuple[int, int]] | None = None
    merged: int = 0
    exchange_id: str | None = None
    attempt_id: str | None = None
    kind: Kind | None = None
    sequence: int | None = None
    times: int = 1
    first_at: datetime
    last_at: datetime
    superseded_by: UUID | None = None
    provisional: bool = False


@dataclass(frozen=True, slots=True)
class Overdue:
    """A write that waits longer than it should, as the queue tells."""

    exchange: str
    attempt: str
    kind: Kind
    accepted_at: datetime


def gap_item(row: GapRow) -> GapItem:
    """Return a gap as readers see it."""
    ranges = row.sequences.ranges if row.sequences is not None else None
    return GapItem(
        said_by=row.said_by,
        reason=row.reason,
        session=row.session,
        ranges=None if ranges is None else [(start, stop - 1) for start, stop in ranges],
        merged=row.merged,
        exchange_id=row.exchange,
        attempt_id=row.attempt,
        kind=row.kind,
        sequence=row.sequence,
        times=row.times,
        first_at=row.first_at,
        last_at=row.last_at,
        superseded_by=row.superseded_by,
    )


def overdue_item(each: Overdue) -> GapItem:
    """Return a write that waits too long as something provisional."""
    return GapItem(
        said_by=None,
        reason=Mark.WRITE_TIMEOUT,
        exchange_id=each.exchange,
        attempt_id=each.attempt,
        kind=each.kind,
        first_at=each.accepted_at,
        last_at=each.accepted_at,
        provisional=True,
    )


def session_view(name: str, account: Account) -> SessionView:
    """Return how one session's numbers are accounted for."""
    return SessionView(
        session=name,
        observed=account.observed,
        stored=account.stored.count,
        refused=account.refused.count,
        said=account.said.count,
        unaccounted=account.unaccounted.count,
        beyond=account.beyond.count,
    )


def run_item(row: RunRow) -> RunItem:
    """Return a run as a list shows it."""
    return RunItem(**run_fields(row))


def run_fields(row: RunRow) -> dict[str, Any]:
    """Return what a run shows in a list and alone."""
    labels = dict(label.split("=", 1) for label in row.labels)
    kept = set(RunItem.__struct_fields__) - {"run_id", "labels"}
    return {"run_id": row.run, "labels": labels} | {name: getattr(row, name) for name in sorted(kept)}


def attempt_item(run: str, row: AttemptRow) -> AttemptItem:
    """Return an attempt as it is found by a reference."""
    return AttemptItem(
        run_id=run,
        exchange_id=row.exchange,
        attempt_id=row.attempt,
        first_at=row.first_at,
        dispatch=row.dispatch,
        settlement=row.settlement,
        dispatch_conflict=row.dispatch_conflict,
        settlement_conflict=row.settlement_conflict,
    )
