"""What became of an observation when several reports about it meet, and what a closing finds by counting.

Fails towards saying less: what nobody reported is `unaccounted`, and what was not counted is unknown, never complete.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from policies.kinds import Capture, SaidBy
from policies.reasons import CLIENT_REASONS, OUTCOMES, Reason
from policies.sequences import SequenceSet

NOTHING: Final = SequenceSet()


@dataclass(frozen=True, slots=True)
class Report:
    """What somebody says became of one observation."""

    capture: Capture
    said_by: SaidBy
    reason: Reason | None = None

    def __post_init__(self) -> None:
        """Refuse what its speaker cannot know, and a loss without a reason."""
        if (self.capture is Capture.NOT_CAPTURED) != (self.reason is not None):
            raise ValueError("exactly what was not captured has a reason")
        if self.reason is None and self.said_by is not SaidBy.STORE:
            raise ValueError("only the store knows that something was queued or stored")
        if self.reason is not None and self.reason not in _SAYABLE[self.said_by]:
            raise ValueError("not a reason that this speaker may give for an outcome")


_SAYABLE: Final[Mapping[SaidBy, frozenset[Reason]]] = {
    SaidBy.STORE: OUTCOMES - {Reason.UNACCOUNTED},
    SaidBy.CLIENT: CLIENT_REASONS,
    SaidBy.COUNT: frozenset({Reason.UNACCOUNTED}),
}

UNACCOUNTED: Final = Report(Capture.NOT_CAPTURED, SaidBy.COUNT, Reason.UNACCOUNTED)


def settle(reports: Iterable[Report]) -> Report | None:
    """Choose the report that stands: stored, a refusal by the store, a gap said by the client, `unaccounted`.

    Of equals the first stays. What waits is no outcome yet, but only `stored` may stand before it: a refused
    identity that was posted again waits. None where nobody has said anything, which is not yet a loss.
    """
    return min(reports, key=_rank, default=None)


def supersedes(later: Report, earlier: Report) -> bool:
    """Say whether a later report marks an earlier gap as superseded; the gap itself is kept."""
    return _rank(later) < _rank(earlier)


def _rank(report: Report) -> int:
    if report.capture is Capture.STORED:
        return 0
    if report.capture is Capture.QUEUED:
        return 1
    return {SaidBy.STORE: 2, SaidBy.CLIENT: 3, SaidBy.COUNT: 4}[report.said_by]


@dataclass(frozen=True, slots=True)
class Account:
    """One session's numbers, each in exactly one of four; `observed` None: it was never told how many there were."""

    observed: int | None
    stored: SequenceSet
    refused: SequenceSet
    said: SequenceSet
    unaccounted: SequenceSet
    # Recorded above what the session counted: its count is wrong, so that nothing can be concluded from it.
    beyond: SequenceSet = NOTHING

    @property
    def known(self) -> bool:
        """Say whether it is known how much there was."""
        return self.observed is not None and not self.beyond

    @property
    def whole(self) -> bool:
        """Say whether everything that the session observed is stored."""
        return self.known and self.stored.count == self.observed


def reconcile(
    sessions: Mapping[str, int],
    stored: Mapping[str, SequenceSet],
    refused: Mapping[str, SequenceSet],
    said: Mapping[str, SequenceSet],
) -> Mapping[str, Account]:
    """Account for every session that was named at closing (with its N of 1…N) or that left any record."""
    names = sorted({*sessions, *stored, *refused, *said})
    return {
        name: _account(
            sessions.get(name),
            stored.get(name, NOTHING),
            refused.get(name, NOTHING),
            said.get(name, NOTHING),
        )
        for name in names
    }


def complete(accounts: Mapping[str, Account], unnumbered: int) -> bool | None:
    """Say whether a run is stored whole; None (unknown) where a session was not named or a capture has no number."""
    if unnumbered or not accounts or not all(account.known for account in accounts.values()):
        return None
    return all(account.whole for account in accounts.values())


def _account(observed: int | None, stored: SequenceSet, refused: SequenceSet, said: SequenceSet) -> Account:
    recorded = stored.union(refused, said)
    counted = recorded if observed is None else SequenceSet.up_to(observed)
    return Account(
        observed=observed,
        stored=stored.within(counted),
        refused=refused.minus(stored).within(counted),
        said=said.minus(stored.union(refused)).within(counted),
        unaccounted=counted.minus(recorded),
        beyond=recorded.minus(counted),
    )
