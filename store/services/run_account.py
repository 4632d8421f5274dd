"""How one run stands: its numbers accounted for, its observations counted by outcome, and its attempts in time.

Nothing here sums what was counted elsewhere: all is read anew, in the one snapshot of the caller's transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from policies.kinds import Dispatch, SaidBy, Settlement
from policies.outcomes import Account, complete, reconcile
from policies.reasons import Reason
from policies.sequences import SequenceSet
from store.db import Connection
from store.services.run_views import CountsView, TimelineAttempt, TimelineGap, TimelinePart
from store.tables import run_pages, sessions
from store.tables.run_pages import AttemptRow, NamedGap, PartOfRun, RunRow

# A timeline shows this many attempts of a run; its pages of parts and gaps show everything.
MOST_ATTEMPTS: Final = 256
_MOST_PARTS: Final = 1024

NOTHING: Final = SequenceSet()

Named = TypeVar("Named", PartOfRun, NamedGap)


@dataclass(frozen=True, slots=True)
class RunAccount:
    """What became of every session's numbers, whether all of the run is stored (None: unknown), and counts of it."""

    sessions: Mapping[str, Account]
    complete: bool | None
    counts: CountsView


async def account_of(connection: Connection, scope: UUID, row: RunRow) -> RunAccount:
    """Account for every session's numbers, and count what was observed by what became of it."""
    run_uid = row.run_uid
    named = await sessions.of_run(connection, scope, run_uid)
    missing = await sessions.gap_numbers(connection, scope, run_uid)
    stored = await run_pages.numbered_parts(connection, scope, run_uid)
    accounts = reconcile(
        {session: last for session, last in named.items() if last is not None},
        stored.sessions,
        missing.get(SaidBy.STORE, {}),
        missing.get(SaidBy.CLIENT, {}),
    )
    whole = complete(accounts, stored.unnumbered)
    return RunAccount(
        accounts,
        # Before the end, only "everything is there" is known for good.
        whole if whole or row.state == "closed" else None,
        await _counts(connection, scope, row, accounts, stored.parts),
    )


async def _counts(
    connection: Connection, scope: UUID, row: RunRow, accounts: Mapping[str, Account], stored: int
) -> CountsView:
    """Count each number once, for the strongest that was said of it, and add what has no number of its own."""
    counts = dict(await run_pages.counted_gaps(connection, scope, row.run_uid))
    taken: dict[str, SequenceSet] = {}
    for gap in await run_pages.range_gaps(connection, scope, row.run_uid):
        account = accounts[gap.session]
        known = taken.get(gap.session, account.stored)
        counts[gap.reason] = counts.get(gap.reason, 0) + gap.sequences.minus(known).count
        taken[gap.session] = known.union(gap.sequences)
    unaccounted = counts.pop(Reason.UNACCOUNTED, 0)
    # What a closing has found missing is a gap once its duty ran; until then it is only counted.
    counted = sum(
        account.unaccounted.minus(taken.get(session, NOTHING)).count for session, account in accounts.items()
    )
    not_captured = {reason.value: number for reason, number in sorted(counts.items()) if number}
    return CountsView(stored, not_captured, unaccounted + counted)


async def timeline_of(connection: Connection, scope: UUID, row: RunRow) -> tuple[list[TimelineAttempt], bool]:
    """Return the run's first attempts in time, with their parts and gaps, and whether there are more."""
    told = await run_pages.attempts_of_run(connection, scope, row.run_uid, MOST_ATTEMPTS + 1)
    parts = await run_pages.parts_of_run(connection, scope, row.run_uid, _MOST_PARTS + 1)
    gaps = await run_pages.named_gaps(connection, scope, row.run_uid, _MOST_PARTS + 1)
    words = {(each.exchange, each.attempt): each for each in told}
    there, missing = _by_attempt(parts), _by_attempt(gaps)
    found = [
        _entry(*key, words.get(key), there.get(key, []), missing.get(key, []))
        for key in {**words, **there, **missing}
    ]
    found.sort(key=lambda each: (each.first_at, each.exchange_id, each.attempt_id))
    looked_at = max(len(parts), len(gaps))
    more = len(told) > MOST_ATTEMPTS or looked_at > _MOST_PARTS or len(found) > MOST_ATTEMPTS
    return found[:MOST_ATTEMPTS], more


def _by_attempt(named: Sequence[Named]) -> Mapping[tuple[str, str], list[Named]]:
    found: dict[tuple[str, str], list[Named]] = {}
    for each in named:
        found.setdefault((each.exchange, each.attempt), []).append(each)
    return found


def _entry(
    exchange: str,
    attempt: str,
    told: AttemptRow | None,
    parts: Sequence[PartOfRun],
    gaps: Sequence[NamedGap],
) -> TimelineAttempt:
    instants = [each.received_at for each in parts] + [each.first_at for each in gaps]
    return TimelineAttempt(
        exchange_id=exchange,
        attempt_id=attempt,
        first_at=min(instants + ([told.first_at] if told else [])),
        dispatch=told.dispatch if told else Dispatch.UNKNOWN,
        settlement=told.settlement if told else Settlement.UNKNOWN,
        dispatch_conflict=told.dispatch_conflict if told else None,
        settlement_conflict=told.settlement_conflict if told else None,
        parts=[TimelinePart(each.kind, each.evidence, each.received_at, each.stored_at) for each in parts],
        gaps=[TimelineGap(each.kind, each.said_by, each.reason, each.first_at) for each in gaps],
    )
