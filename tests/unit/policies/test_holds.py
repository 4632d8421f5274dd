"""A hold keeps what it covers, and is told when it is too late."""

from itertools import product

import pytest

from policies.holds import Destruction, Hold, Placing, Reach, destroy, held, place
from policies.kinds import PartState

SCOPE = Hold(Reach.SCOPE)
RUN = Hold(Reach.RUN, "r-1")
PART = Hold(Reach.PART, "e-1")


@pytest.mark.parametrize(
    ("holds", "run", "part", "answer"),
    [
        ([], "r-1", "e-1", False),
        ([SCOPE], "r-1", "e-1", True),
        ([SCOPE], "r-2", "e-2", True),
        ([RUN], "r-1", "e-2", True),
        ([RUN], "r-2", "e-1", False),
        ([PART], "r-2", "e-1", True),
        ([PART], "r-1", "e-2", False),
        # A run and a part of the same text are two things.
        ([RUN], "e-1", "r-1", False),
        ([PART], "e-1", "r-1", False),
        ([RUN, PART], "r-2", "e-1", True),
    ],
)
def test_what_a_hold_covers(holds: list[Hold], run: str, part: str, answer: bool):
    assert held(holds, run, part) is answer
    assert destroy(holds, run, part) is (Destruction.DEFERRED if answer else Destruction.PROCEED)


@pytest.mark.parametrize(
    ("state", "bucket_expired", "in_hold_bucket"), list(product(PartState, (True, False), (True, False)))
)
def test_when_it_is_too_late(state: PartState, bucket_expired: bool, in_hold_bucket: bool):
    placed = state is PartState.STORED and not (bucket_expired and not in_hold_bucket)
    expected = Placing.PLACED if placed else Placing.TOO_LATE
    assert place(state, bucket_expired=bucket_expired, in_hold_bucket=in_hold_bucket) is expected


@pytest.mark.parametrize(("reach", "target"), [(Reach.SCOPE, "r-1"), (Reach.RUN, None), (Reach.PART, None)])
def test_a_hold_on_nothing_or_on_everything_by_mistake(reach: Reach, target: str | None):
    with pytest.raises(ValueError, match="names a run or a part"):
        Hold(reach, target)
