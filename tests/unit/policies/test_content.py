"""A word counts only when it was said once and exactly."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.content import admit_kind, clear_content, clear_word
from policies.decisions import ALLOW, Refuse
from policies.kinds import Completeness, Content, Kind
from policies.reasons import Reason

SUBSETS = [frozenset(some) for size in range(3) for some in combinations(Kind, size)]


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("kinds", SUBSETS)
def test_only_named_kinds_are_admitted(kinds: frozenset[Kind], kind: Kind):
    assert admit_kind(kinds, kind) == (ALLOW if kind in kinds else Refuse(Reason.KIND_NOT_ADMITTED))


UNCLEAR = ("", " ", "ALLOW", "Allow", " allow", "allow ", "allow,allow", "allow\x00", "allowed", "\uff41llow")
GUESSES = ("true", "TRUE", "1", "yes", "on", "false", "FALSE", "0", "no", "null", "opt-out", "optout")


@pytest.mark.parametrize(
    ("values", "content"),
    [
        (["allow"], Content.ALLOW),
        (["opt_out"], Content.OPT_OUT),
        ([], Content.OPT_OUT),
        (["allow", "allow"], Content.OPT_OUT),
        (["allow", "opt_out"], Content.OPT_OUT),
        (["opt_out", "allow"], Content.OPT_OUT),
        *(([text], Content.OPT_OUT) for text in (*UNCLEAR, *GUESSES)),
    ],
)
def test_what_was_said_about_content(values: list[str], content: Content):
    assert clear_content(values) is content


@given(st.lists(st.text() | st.sampled_from(["allow", "opt_out"]), max_size=3))
def test_only_one_way_leads_to_content(values: list[str]):
    assert (clear_content(values) is Content.ALLOW) == (values == ["allow"])


@pytest.mark.parametrize("word", Completeness)
def test_any_closed_word_reads_itself(word: Completeness):
    assert clear_word([word.value], Completeness, Completeness.UNKNOWN) is word
    assert clear_word([word.value] * 2, Completeness, Completeness.UNKNOWN) is Completeness.UNKNOWN
    assert clear_word([word.name], Completeness, Completeness.UNKNOWN) is Completeness.UNKNOWN
