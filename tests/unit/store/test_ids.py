"""Ids are minted in time order; ids of callers are what a path can carry unchanged."""

import pytest

from policies.reasons import Reason
from store import clock, errors, ids


@pytest.mark.parametrize("text", ["a", "7", "demo-run", "A.b_c:d-e", "x" * 128, "None", "0..1"])
def test_a_good_id_of_a_caller(text):
    assert ids.caller_id(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "-a",
        "_a",
        ":a",
        "a/b",
        "a b",
        "a%2e",
        "a\n",
        "a\0",
        "é",
        "x" * 129,
        "a?b",
        "a#",
        "\u0661",
    ],
)
def test_a_bad_id_of_a_caller_is_refused_without_an_echo(text):
    with pytest.raises(errors.Malformed) as raised:
        ids.caller_id(text)
    assert raised.value.reason is Reason.MALFORMED_REQUEST
    if len(text) > 2:
        assert text not in str(raised.value)


def test_minted_ids_are_version_7_and_ordered_by_time():
    before = int(clock.utc_now().timestamp() * 1000)
    minted = [ids.new_evidence_id() for _ in range(100)]
    after = int(clock.utc_now().timestamp() * 1000)
    assert len(set(minted)) == 100
    assert {minted_id.version for minted_id in minted} == {7}
    assert all(before <= minted_id.int >> 80 <= after for minted_id in minted)


def test_the_clock_is_aware_and_the_monotonic_one_goes_forward():
    assert clock.utc_now().utcoffset() is not None
    assert clock.monotonic() <= clock.monotonic()


def test_secrets_have_their_size_and_differ():
    assert len(ids.secret(32)) == 32
    assert ids.secret(32) != ids.secret(32)


def test_an_error_says_its_reason_and_our_words_only():
    assert str(errors.Refused(Reason.RUN_CLOSED)) == "run_closed"
    assert (
        str(errors.Unavailable(Reason.STORE_UNAVAILABLE, "TimeoutError")) == "store_unavailable: TimeoutError"
    )
    assert errors.NotFound().reason is Reason.NOT_FOUND
    assert errors.Unauthenticated().reason is Reason.UNAUTHENTICATED
    assert errors.RowRefused("parts_identity").cause == "parts_identity"
    assert errors.ConfigFaults(["one", "two"]).faults == ["one", "two"]


def test_secrets_drawn_at_once_are_as_many_as_asked_for_and_no_two_the_same():
    drawn = list(ids.secrets(44, 300))
    assert {len(each) for each in drawn} == {44}
    assert len({part for each in drawn for part in (each[:32], each[32:])}) == 600
