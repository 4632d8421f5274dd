"""What a hold keeps, and what it is too late for. Only a hold keeps longer than the shortest retention.

Fails towards keeping: what a hold may cover is not destroyed. Reading is not decided here, and stays closed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from policies.kinds import PartState


class Reach(StrEnum):
    """What one hold is placed on."""

    PART = "part"
    RUN = "run"
    SCOPE = "scope"


class Placing(StrEnum):
    """What becomes of placing a hold on a part."""

    PLACED = "placed"
    TOO_LATE = "too_late"


class Destruction(StrEnum):
    """What becomes of asking for a part's destruction."""

    PROCEED = "proceed"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class Hold:
    """A live hold of a scope; `target` is the run's or the part's id, and nothing for the scope."""

    reach: Reach
    target: str | None = None

    def __post_init__(self) -> None:
        """Refuse a hold that would cover nothing, or everything by mistake."""
        if (self.reach is Reach.SCOPE) != (self.target is None):
            raise ValueError("a hold names a run or a part, or nothing for the scope")


def held(holds: Collection[Hold], run: str, part: str) -> bool:
    """Say whether any live hold of the scope covers this part."""
    targets = {Reach.SCOPE: None, Reach.RUN: run, Reach.PART: part}
    return any(hold.target == targets[hold.reach] for hold in holds)


def place(state: PartState, *, bucket_expired: bool, in_hold_bucket: bool) -> Placing:
    """Decide whether a hold still finds something to keep; nothing comes back for it."""
    # An expired bucket's bodies may not be dropped yet, but what was not moved out will be.
    kept = state is PartState.STORED and (in_hold_bucket or not bucket_expired)
    return Placing.PLACED if kept else Placing.TOO_LATE


def destroy(holds: Collection[Hold], run: str, part: str) -> Destruction:
    """Decide whether a part may be destroyed now, or only once its last hold is released."""
    return Destruction.DEFERRED if held(holds, run, part) else Destruction.PROCEED
