"""Every observation ends in exactly one outcome, and what nobody told is found by counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.outcomes import Account, complete, reconcile
from policies.sequences import SequenceSet


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
        strongest = [number in stored, number in refused, number in said, True].index(True)
        assert [number in sequences for sequences in four].index(True) == strongest
