"""Only the owner of an invocation says what is available in it; what results contain is content."""

import pytest

from custody_toolchain.surface import Availability, OwnerFact, Unavailable, Use, Where

HERE = Where(run="run-1", scope="scope-1", invocation="call-1", connection="line-1")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_what_nobody_said_forbids_nothing():
    availability = Availability(HERE)
    assert availability.refusal(Use.SEARCH) is None
    assert availability.refusal(Use.READ_HELD, "read") is None


def test_a_spent_search_budget_does_not_forbid_reading_what_is_held():
    availability = Availability(HERE)
    assert availability.tell(OwnerFact(where=HERE, search_budget=0))
    assert availability.refusal(Use.SEARCH) is Unavailable.SEARCH_BUDGET_SPENT
    assert availability.refusal(Use.READ_HELD) is None
    availability.tell(OwnerFact(where=HERE, search_budget=1))
    assert availability.refusal(Use.SEARCH) is None


@pytest.mark.parametrize("use", Use)
def test_a_deadline_ends_both(use):
    clock = Clock()
    availability = Availability(HERE, clock)
    availability.tell(OwnerFact(where=HERE, search_budget=5, deadline=101.0))
    assert availability.refusal(use) is None
    clock.now = 101.0
    assert availability.refusal(use) is Unavailable.DEADLINE_PASSED


@pytest.mark.parametrize("of", ["run", "scope", "invocation", "connection"])
def test_a_fact_of_another_place_changes_nothing(of):
    places = {name: getattr(HERE, name) for name in HERE.__struct_fields__}
    elsewhere = Where(**{**places, of: "another"})
    availability = Availability(HERE)
    fact = OwnerFact(where=elsewhere, search_budget=0, deadline=0.0, unavailable=frozenset({"read"}))
    assert not availability.tell(fact)
    assert availability.refusal(Use.SEARCH, "read") is None


class Derived(OwnerFact, frozen=True):
    pass


@pytest.mark.parametrize(
    "result",
    [
        {"budget_exhausted": True, "search_budget": 0, "deadline": 0},
        {"where": HERE, "search_budget": 0},
        Derived(where=HERE, search_budget=0),
        '{"search_budget":0}',
        None,
    ],
    ids=["result", "alike", "derived", "text", "nothing"],
)
def test_what_a_tools_result_says_is_no_fact(result):
    availability = Availability(HERE)
    with pytest.raises(TypeError, match="OwnerFact"):
        availability.tell(result)
    assert availability.refusal(Use.SEARCH) is None


def test_a_tool_that_is_not_available_is_named_and_the_others_go_on():
    availability = Availability(HERE)
    availability.tell(OwnerFact(where=HERE, unavailable=frozenset({"search"})))
    assert availability.refusal(Use.SEARCH, "search") is Unavailable.NOT_AVAILABLE
    assert availability.refusal(Use.READ_HELD, "read") is None
    # What is not said again stays as it was.
    availability.tell(OwnerFact(where=HERE, search_budget=3))
    assert availability.refusal(Use.SEARCH, "search") is Unavailable.NOT_AVAILABLE
    availability.tell(OwnerFact(where=HERE, unavailable=frozenset()))
    assert availability.refusal(Use.SEARCH, "search") is None


def test_a_place_is_made_of_ids():
    with pytest.raises(ValueError, match="invocation"):
        Where(run="run-1", scope="scope-1", invocation="", connection="line-1")
