"""Sources: unknown fails closed, reasons do not depend on order, an unversioned binding means the whole source."""

from itertools import permutations, product
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.decisions import ALLOW, Decision, Refuse
from policies.reasons import Reason
from policies.revocation import (
    NOT_KNOWN,
    Binding,
    SourceFacts,
    UnknownSources,
    admit_sources,
    cleared,
    newer,
    readable_sources,
)

FACTS = {
    "plain": SourceFacts(latest=3),
    "revoked": SourceFacts(revoked=True, latest=3),
    "thinned": SourceFacts(latest=3, withdrawn=frozenset({1, 2})),
    "emptied": SourceFacts(latest=2, withdrawn=frozenset({1, 2})),
    "gone": NOT_KNOWN,
    "legal": SourceFacts(audience=frozenset({"legal", "emea"})),
}
NOBODY: frozenset[str] = frozenset()
REVOKED, UNKNOWN, CHANGED = (
    Refuse(Reason.SOURCE_REVOKED),
    Refuse(Reason.SOURCE_UNKNOWN),
    Refuse(Reason.DEPENDENCY_CHANGED),
)

CASES: list[tuple[Binding, Decision, Decision]] = [
    (Binding("plain"), ALLOW, ALLOW),
    (Binding("plain", 1), ALLOW, ALLOW),
    (Binding("plain", 3), ALLOW, ALLOW),
    (Binding("plain", 4), UNKNOWN, ALLOW),
    (Binding("plain", 0), UNKNOWN, ALLOW),
    (Binding("plain", -1), UNKNOWN, ALLOW),
    (Binding("revoked"), REVOKED, REVOKED),
    (Binding("revoked", 3), REVOKED, REVOKED),
    (Binding("revoked", 9), REVOKED, REVOKED),
    (Binding("thinned"), ALLOW, ALLOW),
    (Binding("thinned", 1), CHANGED, CHANGED),
    (Binding("thinned", 2), CHANGED, CHANGED),
    (Binding("thinned", 3), ALLOW, ALLOW),
    (Binding("emptied"), CHANGED, CHANGED),
    (Binding("gone"), UNKNOWN, ALLOW),
    (Binding("gone", 1), UNKNOWN, ALLOW),
    (Binding("absent"), UNKNOWN, ALLOW),
    (Binding("absent", 1), UNKNOWN, ALLOW),
]


@pytest.mark.parametrize(("binding", "demanding", "lenient"), CASES)
def test_one_source_at_capture(binding: Binding, demanding: Decision, lenient: Decision):
    assert admit_sources([binding], FACTS, "refuse") == demanding
    assert admit_sources([binding], FACTS, "allow") == lenient


@pytest.mark.parametrize(("binding", "demanding", "lenient"), CASES)
def test_one_source_at_read(binding: Binding, demanding: Decision, lenient: Decision):
    unavailable: dict[Decision, Decision] = {
        REVOKED: Refuse(Reason.SOURCE_UNAVAILABLE),
        UNKNOWN: Refuse(Reason.SOURCE_UNAVAILABLE),
    }
    for unknown, decision in (("refuse", demanding), ("allow", lenient)):
        policy: Literal["refuse", "allow"] = "refuse" if unknown == "refuse" else "allow"
        assert readable_sources([binding], FACTS, NOBODY, policy) == unavailable.get(decision, decision)


def test_any_word_but_allow_demands_known_sources():
    assert admit_sources([Binding("absent")], FACTS, "ALLOW") == UNKNOWN  # type: ignore[arg-type]
    assert readable_sources([Binding("absent")], FACTS, NOBODY, "") == Refuse(  # type: ignore[arg-type]
        Reason.SOURCE_UNAVAILABLE
    )


@pytest.mark.parametrize("unknown", get_args(UnknownSources))
def test_no_sources_refuse_nothing(unknown: UnknownSources):
    assert admit_sources([], FACTS, unknown) == ALLOW
    assert readable_sources([], FACTS, NOBODY, unknown) == ALLOW
    assert cleared([], FACTS, NOBODY)


def test_the_reason_does_not_depend_on_the_order():
    bindings = (Binding("thinned", 1), Binding("absent"), Binding("revoked"), Binding("plain"))
    for order in permutations(bindings):
        assert admit_sources(order, FACTS, "refuse") == REVOKED
        assert readable_sources(order, FACTS, NOBODY, "refuse") == Refuse(Reason.SOURCE_UNAVAILABLE)
        without = [binding for binding in order if binding.source != "revoked"]
        assert admit_sources(without, FACTS, "refuse") == UNKNOWN
        assert admit_sources(without, FACTS, "allow") == CHANGED


@pytest.mark.parametrize(
    ("clearances", "answer"),
    [
        ((), False),
        (("legal",), False),
        (("emea",), False),
        (("legal", "emea"), True),
        (("legal", "emea", "hr"), True),
    ],
)
def test_every_audience_tag_is_needed(clearances: tuple[str, ...], answer: bool):
    bindings = (Binding("plain"), Binding("legal"))
    assert cleared(bindings, FACTS, frozenset(clearances)) is answer
    expected = ALLOW if answer else Refuse(Reason.PERMISSION_DENIED)
    assert readable_sources(bindings, FACTS, frozenset(clearances), "refuse") == expected


def test_a_viewer_without_clearance_does_not_learn_of_a_revocation():
    facts = {"secret": SourceFacts(revoked=True, audience=frozenset({"legal"}))}
    denied = readable_sources([Binding("secret")], facts, NOBODY, "refuse")
    assert denied == Refuse(Reason.PERMISSION_DENIED)


def test_newer_names_what_is_newer_and_only_that():
    bindings = (
        Binding("plain", 1),
        Binding("thinned", 3),
        Binding("emptied"),
        Binding("absent", 1),
        Binding("legal", 1),
        Binding("revoked", 2),
    )
    assert newer(bindings, FACTS) == {"plain": 3, "revoked": 3}


BINDINGS = st.lists(
    st.builds(Binding, st.sampled_from([*FACTS, "absent"]), st.none() | st.integers(-1, 5)), max_size=4
)


@given(BINDINGS, BINDINGS, st.sampled_from(get_args(UnknownSources)))
def test_more_sources_never_allow_more(some: list[Binding], more: list[Binding], unknown: UnknownSources):
    if admit_sources([*some, *more], FACTS, unknown) == ALLOW:
        assert admit_sources(some, FACTS, unknown) == ALLOW


@given(BINDINGS, st.sampled_from(get_args(UnknownSources)))
def test_capture_and_read_refuse_the_same(bindings: list[Binding], unknown: UnknownSources):
    everything = frozenset({"legal", "emea"})
    at_read = readable_sources(bindings, FACTS, everything, unknown)
    assert (admit_sources(bindings, FACTS, unknown) == ALLOW) == (at_read == ALLOW)


@given(BINDINGS)
def test_demanding_refuses_whatever_lenient_refuses(bindings: list[Binding]):
    if admit_sources(bindings, FACTS, "refuse") == ALLOW:
        assert admit_sources(bindings, FACTS, "allow") == ALLOW


def test_a_source_is_revoked_even_where_it_is_not_known():
    # Facts of a source can be torn; the stricter of two truths counts.
    for known, unknown in product((True, False), get_args(UnknownSources)):
        torn = {"s": SourceFacts(known=known, revoked=True)}
        assert admit_sources([Binding("s")], torn, unknown) == REVOKED
