"""One run's facts as its pages show them: states with their shapes, rows of attempts, reasons in words, pictures."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from markupsafe import Markup

from console import words
from console.pictures import numbers, timeline
from console.pictures.marks import legend_mark
from console.pictures.numbers import Numbers
from console.pictures.states import QUEUED, STATES, State, of_gap, of_part
from console.pictures.timeline import Mark, Row
from console.words import Words
from policies.kinds import Kind, Settlement
from policies.outcomes import Account
from policies.reasons import Reason
from store.services.run_maps import ExchangeMap, MapAttempt, MapGap, MapPart, RunMap
from store.services.run_views import Overdue

KIND_WORDS: Final[Mapping[Kind, str]] = {Kind.LOGICAL_REQUEST: "request", Kind.OBSERVABLE_OUTPUT: "output"}
_SHAPES: Final = {state.name: legend_mark(state) for state in STATES}
MOST_STRIPS: Final = 8
MOST_SESSIONS: Final = 24
NOTHING: Final = Markup("")
Waiting = Mapping[tuple[str, str, Kind], datetime]


@dataclass(frozen=True, slots=True)
class Cell:
    """One observation in a row: how it stands, why, and where more of it is; `state` None: nobody told of it."""

    kind: str
    state: State | None = None
    shape: Markup = NOTHING
    part: MapPart | None = None
    gap: MapGap | None = None
    said: Words | None = None
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt in the table."""

    attempt: MapAttempt
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Why:
    """A reason in words, how often it stands, and the name that cells lead to it by."""

    anchor: str
    said: Words
    count: int | None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """How one session's numbers are accounted for, in a sentence and a picture."""

    name: str
    account: Account
    level: str
    verdict: str
    picture: Markup


def waiting_by_identity(waiting: Iterable[Overdue]) -> dict[tuple[str, str, Kind], datetime]:
    """Return when what waits in the queue was accepted, by its identity."""
    return {(each.exchange, each.attempt, each.kind): each.accepted_at for each in waiting}


def legend_of_rows(rows: Sequence[AttemptRow]) -> list[tuple[State, Markup]]:
    """Return the states that stand in some rows, each with its shape."""
    return _legend({cell.state for row in rows for cell in row.cells if cell.state is not None})


def legend_of(found: RunMap, rows: Sequence[AttemptRow]) -> list[tuple[State, Markup]]:
    """Return the states that the picture of a run shows."""
    if not found.whole:
        return legend_of_rows(rows)
    return _legend({state for stretch in _stretches(found) for state in stretch})


def _legend(shown: Collection[State]) -> list[tuple[State, Markup]]:
    return [(state, _SHAPES[state.name]) for state in STATES if state in shown]


def rows_of(attempts: Sequence[MapAttempt], waiting: Waiting) -> list[AttemptRow]:
    """Return the rows of the table, each with a cell for the request and one for the output."""
    return [AttemptRow(each, [_cell(each, kind, waiting) for kind in Kind]) for each in attempts]


def _cell(attempt: MapAttempt, kind: Kind, waiting: Waiting) -> Cell:
    name = KIND_WORDS[kind]
    part = next((each for each in attempt.parts if each.item.kind is kind), None)
    if part is not None:
        state = of_part(part.reason)
        said = None if part.reason is None else words.at_read(part.reason)
        anchor = "" if part.reason is None else f"read-{part.reason}"
        return Cell(name, state, _SHAPES[state.name], part=part, said=said, anchor=anchor)
    if (attempt.exchange, attempt.attempt, kind) in waiting:
        return Cell(name, QUEUED, _SHAPES[QUEUED.name])
    gap = next((each for each in attempt.gaps if each.kind is kind), None)
    if gap is None:
        return Cell(name)
    state = of_gap(gap.reason)
    return Cell(
        name, state, _SHAPES[state.name], gap=gap, said=words.of(gap.reason), anchor=f"gap-{gap.reason}"
    )


def picture_of(found: RunMap, waiting: Waiting) -> Markup:
    """Draw the run: every attempt where the page holds them all, stretches of time otherwise."""
    if not found.whole:
        return timeline.detailed(_drawn(found.attempts, waiting))
    first, last = found.extent.first_at, found.extent.last_at
    if first is None or last is None:
        return Markup("")
    stretches = _stretches(found)
    return timeline.condensed(stretches, first, last, found.extent.attempts, found.extent.exchanges)


def _stretches(found: RunMap) -> list[dict[State, int]]:
    """Return of each stretch of time how many of its observations stand how."""
    stretches = []
    for stretch in found.whole:
        states: dict[State, int] = {}
        for reason, count in stretch.parts.items():
            states[of_part(reason)] = states.get(of_part(reason), 0) + count
        for missing, count in stretch.missed.items():
            states[of_gap(missing)] = states.get(of_gap(missing), 0) + count
        stretches.append(states)
    return stretches


def picture_of_exchange(found: ExchangeMap, waiting: Waiting) -> Markup:
    """Draw a page of one exchange's attempts, with the numbers that they have among all of them."""
    return timeline.detailed(_drawn(found.attempts, waiting, found.before))


def _drawn(attempts: Sequence[MapAttempt], waiting: Waiting, before: int = 0) -> list[Row]:
    numbered: dict[str, int] = {}
    drawn = []
    for row in rows_of(attempts, waiting):
        attempt = row.attempt
        numbered[attempt.exchange] = numbered.get(attempt.exchange, before) + 1
        marks = [
            Mark(cell.state, cell.kind, _at(attempt, cell, kind, waiting), *_why(cell))
            for cell, kind in zip(row.cells, Kind, strict=True)
            if cell.state is not None
        ]
        ended = "" if attempt.settlement is Settlement.UNKNOWN else attempt.settlement.value
        drawn.append(
            Row(attempt.exchange, numbered[attempt.exchange], attempt.attempt, attempt.first_at, ended, marks)
        )
    return drawn


def _why(cell: Cell) -> tuple[str, str]:
    return ("", "") if cell.said is None else (cell.said.name, cell.anchor)


def _at(attempt: MapAttempt, cell: Cell, kind: Kind, waiting: Waiting) -> datetime:
    if cell.part is not None:
        return cell.part.item.received_at
    if cell.gap is not None:
        return cell.gap.first_at
    return waiting.get((attempt.exchange, attempt.attempt, kind), attempt.first_at)


def reasons_of(found: RunMap) -> list[Why]:
    """Return every reason that stands in the run, as an outcome with its count, and as the answer of a read."""
    counted = {Reason(reason): count for reason, count in found.counts.not_captured.items()}
    if found.counts.unaccounted:
        counted[Reason.UNACCOUNTED] = found.counts.unaccounted
    for attempt in found.attempts:
        for gap in attempt.gaps:
            counted.setdefault(gap.reason, 0)
    read = {part.reason for attempt in found.attempts for part in attempt.parts if part.reason}
    read |= {reason for stretch in found.whole for reason in stretch.parts if reason}
    outcomes = [Why(f"gap-{reason}", words.of(reason), count or None) for reason, count in counted.items()]
    return outcomes + [Why(f"read-{reason}", words.at_read(reason), None) for reason in sorted(read)]


def reasons_of_rows(rows: Sequence[AttemptRow]) -> list[Why]:
    """Return the reasons that stand in some rows."""
    named = {cell.anchor: cell.said for row in rows for cell in row.cells if cell.said is not None}
    return [Why(anchor, said, None) for anchor, said in sorted(named.items())]


def sessions_of(accounts: Mapping[str, Account], *, closed: bool) -> list[SessionRow]:
    """Return how the numbers of sessions are accounted for; the first few have a picture.

    Where there are many, those that are not stored whole come first, and the rest is left out.
    """
    shown = list(accounts.items())
    if len(shown) > MOST_SESSIONS:
        shown = sorted(shown, key=lambda each: each[1].whole)[:MOST_SESSIONS]
    return [
        SessionRow(
            name, account, *_verdict(account, closed=closed), _strip(name, account, drawn=at < MOST_STRIPS)
        )
        for at, (name, account) in enumerate(shown)
    ]


def _verdict(account: Account, *, closed: bool) -> tuple[str, str]:
    missing = account.refused.count + account.said.count
    if account.beyond:
        over = numbers.said(account.beyond.ranges)
        return (
            "warn",
            f"It counted {account.observed}, and yet left records of {over}: its count cannot be believed.",
        )
    if account.observed is None:
        return "", "It has not said how many it observed, so nothing can be concluded." if closed else (
            "It has not said yet how many it observed."
        )
    if account.whole:
        every = "The one" if account.observed == 1 else f"All {account.observed}"
        return "good", f"{every} that it observed {'is' if account.observed == 1 else 'are'} stored."
    left = [f"{missing} missing for known reasons"] if missing else []
    left += [f"{account.unaccounted.count} unaccounted, of which nobody told"] if account.unaccounted else []
    return (
        "warn",
        f"Of {account.observed} that it observed, {_are(account.stored.count)} stored: {' and '.join(left)}.",
    )


def _are(count: int) -> str:
    return f"{count} is" if count == 1 else f"{count} are"


def _strip(name: str, account: Account, *, drawn: bool) -> Markup:
    missing, untold = account.refused.union(account.said), account.unaccounted
    every = (account.stored, missing, untold)
    last = account.observed or max((each.ranges[-1][1] - 1 for each in every if each), default=0)
    if not drawn or last == 0:
        return Markup("")
    return numbers.strip(Numbers(name, last, account.stored.ranges, missing.ranges, untold.ranges))


def completeness(found: RunMap) -> tuple[str, str]:
    """Say in words whether all of the run is there, and how good that is."""
    if found.complete:
        return "good", "Complete: everything that its sessions observed is stored."
    if found.complete is False:
        return "warn", "Not complete: some of what its sessions observed is missing. The reasons are below."
    if found.run.state != "closed":
        return "", "Not known yet: the run is not closed, so more may still arrive."
    return "", "Not known: not every observation was numbered, or a session did not say how many it made."
