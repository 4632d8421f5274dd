"""Every observation ends in exactly one outcome, and what nobody told is found by counting."""

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kinds import Capture, SaidBy
from policies.outcomes import UNACCOUNTED, Account, Report, complete, reconcile, settle, supersedes
from policies.reasons import CLIENT_REASONS, OUTCOMES, Reason
from policies.sequences import SequenceSet

STORED = Report(Capture.STORED, SaidBy.STORE)
QUEUED = Report(Capture.QUEUED, SaidBy.STORE)
REFUSED = Report(Capture.NOT_CAPTURED, SaidBy.STORE, Reason.CAPACITY_EXCEEDED)
REFUSED_TOO = Report(Capture.NOT_CAPTURED, SaidBy.STORE, Reason.SOURCE_REVOKED)
SAID = Report(Capture.NOT_CAPTURED, SaidBy.CLIENT, Reason.CLIENT_TRANSPORT)
SAID_TOO = Report(Capture.NOT_CAPTURED, SaidBy.CLIENT, Reason.CLIENT_SHUTDOWN)
STRONGEST_FIRST = (STORED, QUEUED, REFUSED, SAID, UNACCOUNTED)


@pytest.mark.parametrize("size", range(1, 6))
def test_the_strongest_report_stands_however_they_come(size: int):
    for reports in permutations(STRONGEST_FIRST, size):
        assert settle(reports) == min(reports, key=STRONGEST_FIRST.index)


def test_nobody_said_anything():
    assert settle([]) is None


def test_of_equals_the_first_stays():
    assert settle([REFUSED, REFUSED_TOO]) == REFUSED
    assert settle([SAID_TOO, UNACCOUNTED, SAID]) == SAID_TOO
    assert settle([STORED, STORED]) == STORED


@pytest.mark.parametrize(("later", "earlier"), list(product(STRONGEST_FIRST, repeat=2)))
def test_only_a_stronger_report_supersedes(later: Report, earlier: Report):
    stronger = STRONGEST_FIRST.index(later) < STRONGEST_FIRST.index(earlier)
    assert supersedes(later, earlier) is stronger


@pytest.mark.parametrize(("capture", "said_by"), list(product(Capture, SaidBy)))
def test_who_may_say_what(capture: Capture, said_by: SaidBy):
    sayable: frozenset[Reason | None]
    if capture is Capture.NOT_CAPTURED:
        sayable = {
            SaidBy.STORE: frozenset(OUTCOMES - {Reason.UNACCOUNTED}),
            SaidBy.CLIENT: frozenset(CLIENT_REASONS),
            SaidBy.COUNT: frozenset({Reason.UNACCOUNTED}),
        }[said_by]
    else:
        sayable = frozenset({None} if said_by is SaidBy.STORE else ())
    for reason in (None, *Reason):
        if reason in sayable:
            assert Report(capture, said_by, reason).reason is reason
        else:
            with pytest.raises(ValueError, match=r"reason|only the store"):
                Report(capture, said_by, reason)


def numbers(text: str) -> SequenceSet:
    return SequenceSet.from_text(text) if text else SequenceSet()


@pytest.mark.parametrize(
    ("observed", "stored", "refused", "said", "expected"),
    [
        # Each row: what was recorded, then stored, refused, said, unaccounted, beyond.
        (0, "", "", "", ("", "", "", "", "")),
        (5, "1-5", "", "", ("1-5", "", "", "", "")),
        (5, "1-3", "", "", ("1-3", "", "", "4-5", "")),
        (5, "", "", "", ("", "", "", "1-5", "")),
        (9, "1-3", "4", "6-7", ("1-3", "4", "6-7", "5,8-9", "")),
        # Refused and posted again; said to be lost and stored all the same.
        (5, "1-5", "2", "3-4", ("1-5", "", "", "", "")),
        (5, "1-2", "3", "3-4", ("1-2", "3", "4", "5", "")),
        # More was recorded than the session counted.
        (3, "1-2,5", "7", "9", ("1-2", "", "", "3", "5,7,9")),
        # The session was not named: nothing is missing for sure.
        (None, "1-2,5", "3", "7", ("1-2,5", "3", "7", "", "")),
    ],
)
def test_one_session(
    observed: int | None, stored: str, refused: str, said: str, expected: tuple[str, str, str, str, str]
):
    sessions = {} if observed is None else {"s": observed}
    account = reconcile(sessions, {"s": numbers(stored)}, {"s": numbers(refused)}, {"s": numbers(said)})["s"]
    found = (account.stored, account.refused, account.said, account.unaccounted, account.beyond)
    assert tuple(sequences.to_text() for sequences in found) == expected
    assert account.observed == observed


def test_every_session_that_left_a_record_is_accounted_for():
    one = SequenceSet.up_to(1)
    accounts = reconcile({"named": 2}, {"stored": one}, {"refused": one}, {"said": one})
    assert list(accounts) == ["named", "refused", "said", "stored"]
    assert accounts["named"].unaccounted.count == 2
    assert [account.known for account in accounts.values()] == [True, False, False, False]


WHOLE = Account(2, numbers("1-2"), numbers(""), numbers(""), numbers(""))
LACKING = Account(2, numbers("1"), numbers("2"), numbers(""), numbers(""))
UNNAMED = Account(None, numbers("1-2"), numbers(""), numbers(""), numbers(""))
MISCOUNTED = Account(2, numbers("1-2"), numbers(""), numbers(""), numbers(""), numbers("3"))


@pytest.mark.parametrize(
    ("accounts", "unnumbered", "answer"),
    [
        ([WHOLE], 0, True),
        ([WHOLE, WHOLE], 0, True),
        ([WHOLE, LACKING], 0, False),
        ([WHOLE], 1, None),
        ([LACKING], 1, None),
        ([UNNAMED], 0, None),
        ([WHOLE, UNNAMED], 0, None),
        ([MISCOUNTED], 0, None),
        ([], 0, None),
    ],
)
def test_what_was_not_counted_is_unknown(accounts: list[Account], unnumbered: int, answer: bool | None):
    assert complete({str(at): account for at, account in enumerate(accounts)}, unnumbered) is answer


@pytest.mark.parametrize(
    ("account", "known", "whole"),
    [(WHOLE, True, True), (LACKING, True, False), (UNNAMED, False, False), (MISCOUNTED, False, False)],
)
def test_known_and_whole(account: Account, known: bool, whole: bool):
    assert account.known is known
    assert account.whole is whole


SETS = st.sets(st.integers(1, 20)).map(lambda some: SequenceSet.of((number, number + 1) for number in some))


@given(st.integers(0, 15), SETS, SETS, SETS)
def test_every_number_is_in_exactly_one_account(
    observed: int, stored: SequenceSet, refused: SequenceSet, said: SequenceSet
):
    account = reconcile({"s": observed}, {"s": stored}, {"s": refused}, {"s": said})["s"]
    four = (account.stored, account.refused, account.said, account.unaccounted)
    assert sum(sequences.count for sequences in four) == observed
    assert four[0].union(*four[1:]) == SequenceSet.up_to(observed)
    for number in range(1, observed + 1):
        reports = [
            report
            for report, sequences in ((STORED, stored), (REFUSED, refused), (SAID, said))
            if number in sequences
        ]
        outcome = settle([*reports, UNACCOUNTED])
        assert [number in sequences for sequences in four].index(True) == [
            STORED,
            REFUSED,
            SAID,
            UNACCOUNTED,
        ].index(outcome or UNACCOUNTED)
