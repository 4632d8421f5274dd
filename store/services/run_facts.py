"""What is known of a run by its row and by the queue, and what holds where they differ: always the narrower."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from policies.kinds import RunState
from policies.reasons import Reason
from policies.revocation import Binding
from store.ids import RunUid
from store.queue import RunView
from store.services.declaring import queue_state
from store.tables.runs import RunRow

_MS: Final = timedelta(milliseconds=1)
# The queue's scripts order states in the same way: every refusal of content is narrower than the end of the run.
_NARROWNESS: Final[Mapping[str, int]] = MappingProxyType(
    {RunState.OPEN: 0, RunState.CLOSING: 1, Reason.RUN_CLOSED: 2, Reason.ERASED: 4}
)
_REFUSED: Final = 3


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as a guard sees it; `state` is `open`, `closing`, or the reason why it takes no more parts."""

    run_uid: RunUid
    state: str
    retain_until: datetime
    sources: frozenset[Binding]
    # None while Postgres is away and this process never saw the row.
    owner_key: str | None
    shared: bool

    def speaks(self, key_id: str) -> bool | None:
        """Say whether this key may speak for the run; None where that cannot be told now."""
        return None if self.owner_key is None else self.shared or self.owner_key == key_id


def facts_of(row: RunRow) -> RunFacts:
    """Return what a row says."""
    return RunFacts(
        run_uid=row.run_uid,
        state=queue_state(row),
        retain_until=row.standing.retain_until,
        sources=row.sources,
        owner_key=row.owner_key,
        shared=row.shared,
    )


def facts_told(view: RunView) -> RunFacts:
    """Return what the queue says; it may not say whose the run is."""
    belongs = view.belonging
    return RunFacts(
        run_uid=RunUid(view.run_uid),
        state=view.state,
        retain_until=view.retain_until,
        sources=frozenset() if belongs is None else belongs.sources,
        owner_key=None if belongs is None else belongs.owner_key,
        shared=belongs is not None and belongs.shared,
    )


def narrower(row: RunFacts, told: RunFacts) -> RunFacts:
    """Return what both leave: the queue can have missed a word, and while Postgres is away the row is an old one."""
    # The queue counts in milliseconds.
    shortened = told.retain_until + _MS <= row.retain_until
    return RunFacts(
        run_uid=told.run_uid,
        state=max(told.state, row.state, key=_narrowness),
        retain_until=told.retain_until if shortened else row.retain_until,
        sources=row.sources if told.sources <= row.sources else row.sources | told.sources,
        owner_key=row.owner_key,
        shared=row.shared and (told.shared or told.owner_key is None),
    )


def _narrowness(state: str) -> int:
    return _NARROWNESS.get(state, _REFUSED)
