"""What became of each observation, by counting: stored, else refused, else said to be lost, else unaccounted.

Fails towards saying less: what nobody reported is `unaccounted`, and what was not counted is unknown, never complete.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from policies.sequences import SequenceSet

NOTHING: Final = SequenceSet()


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
