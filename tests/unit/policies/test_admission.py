"""Declarations only ever narrow; whoever was refused once stays refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import ScopePolicy, Standing, Wish, admitted, declare, narrow
from policies.decisions import ALLOW, Decision, Refuse
from policies.kinds import Content, Kind, Mode
from policies.reasons import Reason

NOW = datetime(2025, 3, 9, 12, 0, tzinfo=UTC)
DAY_S = 86_400
DAY = timedelta(days=1)
OPEN = Standing(Mode.NORMAL, Content.ALLOW, sampled=True, retain_until=NOW + DAY, kinds=frozenset(Kind))
POLICY = ScopePolicy(retention_default_s=2 * DAY_S, retention_max_s=5 * DAY_S)


def test_a_run_that_says_nothing_has_what_the_scope_says():
    policy = replace(POLICY, content=Content.OPT_OUT, kinds=frozenset({Kind.LOGICAL_REQUEST}))
    standing = declare(policy, Wish(), 0.5, NOW)
    assert standing == Standing(
        Mode.NORMAL,
        Content.OPT_OUT,
        sampled=True,
        retain_until=NOW + 2 * DAY,
        kinds=frozenset({Kind.LOGICAL_REQUEST}),
    )


def test_a_run_that_says_has_what_it_says_within_the_most():
    policy = replace(POLICY, content=Content.OPT_OUT)
    standing = declare(policy, Wish(Mode.TEMPORARY, Content.ALLOW, 9 * DAY_S), 0.0, NOW)
    assert standing == Standing(
        Mode.TEMPORARY, Content.ALLOW, sampled=True, retain_until=NOW + 5 * DAY, kinds=frozenset(Kind)
    )


@pytest.mark.parametrize(
    ("sampling", "drawn", "sampled"),
    [
        (0.0, 0.0, False),
        (0.25, 0.0, True),
        (0.25, 0.249, True),
        (0.25, 0.25, False),
        (1.0, 0.0, True),
        (1.0, 1 - 2**-53, True),
    ],
)
def test_sampling(sampling: float, drawn: float, sampled: bool):
    assert declare(replace(POLICY, sampling=sampling), Wish(), drawn, NOW).sampled is sampled


@pytest.mark.parametrize("drawn", [-0.1, 1.0, float("nan")])
def test_a_draw_outside_is_a_fault_of_the_caller(drawn: float):
    with pytest.raises(ValueError, match="a draw"):
        declare(POLICY, Wish(), drawn, NOW)


def test_instants_need_zones():
    naive = NOW.replace(tzinfo=None)
    calls = (
        lambda: declare(POLICY, Wish(), 0.5, naive),
        lambda: narrow(OPEN, POLICY, Wish(), naive, NOW),
        lambda: narrow(OPEN, POLICY, Wish(), NOW, naive),
        lambda: admitted(OPEN, naive),
    )
    for call in calls:
        with pytest.raises(ValueError, match="needs a zone"):
            call()


@pytest.mark.parametrize(
    ("mode", "content", "sampled", "is_expired"), list(product(Mode, Content, (True, False), (True, False)))
)
def test_the_order_of_refusals(mode: Mode, content: Content, sampled: bool, is_expired: bool):
    standing = replace(OPEN, mode=mode, content=content, sampled=sampled)
    now = standing.retain_until if is_expired else NOW
    expected: Decision = ALLOW
    for stands, reason in (
        (is_expired, Reason.RETENTION_EXPIRED),
        (not sampled, Reason.NOT_SAMPLED),
        (content is Content.OPT_OUT, Reason.CONTENT_OPT_OUT),
        (mode is Mode.TEMPORARY, Reason.TEMPORARY_MODE),
    ):
        expected = Refuse(reason) if stands else expected
    assert admitted(standing, now) == expected


@pytest.mark.parametrize("field", ["mode", "content", "sampled"])
@pytest.mark.parametrize("torn", [None, "", "Normal", "ALLOW", 1])
def test_a_torn_fact_admits_nothing(field: str, torn: object):
    # What was read from somewhere else and is not the one value that allows, refuses.
    standing = Standing(
        **{
            "mode": Mode.NORMAL,
            "content": Content.ALLOW,
            "sampled": True,
            "retain_until": NOW + DAY,
            "kinds": frozenset(Kind),
            field: torn,
        }  # type: ignore[arg-type]
    )
    assert admitted(standing, NOW) != ALLOW


@pytest.mark.parametrize(
    ("wish", "changed"),
    [
        (Wish(Mode.TEMPORARY, Content.ALLOW, 9 * DAY_S), {"mode": Mode.TEMPORARY}),
        (Wish(content=Content.OPT_OUT, retention_s=9 * DAY_S), {"content": Content.OPT_OUT}),
        (Wish(retention_s=DAY_S), {"retain_until": NOW + DAY}),
        # Not said is what the scope says for those who do not say.
        (Wish(), {"retain_until": NOW + 2 * DAY}),
        (Wish(Mode.NORMAL, Content.ALLOW, 9 * DAY_S), {}),
    ],
)
def test_each_narrowing(wish: Wish, changed: dict[str, object]):
    standing = replace(OPEN, retain_until=NOW + 4 * DAY)
    later = NOW + timedelta(hours=1)
    assert narrow(standing, POLICY, wish, later, NOW) == replace(standing, **changed)  # type: ignore[arg-type]


def test_nothing_is_widened():
    closed = Standing(
        Mode.TEMPORARY, Content.OPT_OUT, sampled=False, retain_until=NOW + DAY, kinds=frozenset()
    )
    asks = Wish(Mode.NORMAL, Content.ALLOW, 5 * DAY_S)
    assert narrow(closed, POLICY, asks, NOW, NOW) == closed


def test_a_policy_that_was_narrowed_narrows_the_run():
    policy = replace(
        POLICY, kinds=frozenset({Kind.OBSERVABLE_OUTPUT}), content=Content.OPT_OUT, retention_max_s=DAY_S // 2
    )
    said = narrow(OPEN, policy, Wish(content=Content.ALLOW), NOW, NOW)
    assert said.kinds == {Kind.OBSERVABLE_OUTPUT}
    assert said.content is Content.ALLOW
    assert said.retain_until == NOW + DAY / 2
    assert narrow(OPEN, policy, Wish(), NOW, NOW).content is Content.OPT_OUT


def test_what_was_drawn_stays():
    for sampled, sampling in product((True, False), (0.0, 1.0)):
        standing = replace(OPEN, sampled=sampled)
        assert narrow(standing, replace(POLICY, sampling=sampling), Wish(), NOW, NOW).sampled is sampled


def test_a_retention_that_would_have_ended_ends_now():
    standing = replace(OPEN, retain_until=NOW + 5 * DAY)
    later = NOW + 3 * DAY
    narrowed = narrow(standing, POLICY, Wish(retention_s=DAY_S), later, NOW)
    assert narrowed.retain_until == later
    assert admitted(narrowed, later) == Refuse(Reason.RETENTION_EXPIRED)


def test_what_has_ended_does_not_end_later():
    later = NOW + 3 * DAY
    assert narrow(OPEN, POLICY, Wish(retention_s=5 * DAY_S), later, NOW).retain_until == OPEN.retain_until


KINDS = st.sampled_from([frozenset(some) for size in range(3) for some in combinations(Kind, size)])
SPANS = st.integers(1, 10 * DAY_S)
WISHES = st.builds(Wish, st.sampled_from(Mode), st.none() | st.sampled_from(Content), st.none() | SPANS)
POLICIES = st.builds(
    ScopePolicy,
    kinds=KINDS,
    content=st.sampled_from(Content),
    sampling=st.floats(0, 1),
    retention_default_s=SPANS,
    retention_max_s=SPANS,
)
DRAWS = st.floats(0, 1, exclude_max=True)
LATER = st.timedeltas(timedelta(0), 12 * DAY).map(lambda after: NOW + after)


def forbids_at_least(narrowed: Standing, standing: Standing) -> bool:
    return (
        (narrowed.mode is Mode.TEMPORARY or standing.mode is Mode.NORMAL)
        and (narrowed.content is Content.OPT_OUT or standing.content is Content.ALLOW)
        and narrowed.sampled is standing.sampled
        and narrowed.retain_until <= standing.retain_until
        and narrowed.kinds <= standing.kinds
    )


@given(POLICIES, WISHES, DRAWS, LATER)
def test_the_same_wish_again_changes_nothing(policy: ScopePolicy, wish: Wish, drawn: float, now: datetime):
    standing = declare(policy, wish, drawn, NOW)
    assert narrow(standing, policy, wish, now, NOW) == standing


@given(POLICIES, POLICIES, WISHES, WISHES, DRAWS, LATER)
def test_narrowing_is_monotone_and_idempotent(
    policy: ScopePolicy, newer: ScopePolicy, wish: Wish, other: Wish, drawn: float, now: datetime
):
    standing = declare(policy, wish, drawn, NOW)
    narrowed = narrow(standing, newer, other, now, NOW)
    assert forbids_at_least(narrowed, standing)
    assert narrow(narrowed, newer, other, now, NOW) == narrowed
    if admitted(standing, now) != ALLOW:
        assert admitted(narrowed, now) != ALLOW


@given(POLICIES, POLICIES, st.permutations(range(3)), st.tuples(WISHES, WISHES, WISHES), DRAWS, LATER)
def test_the_order_of_narrowings_does_not_matter(
    policy: ScopePolicy,
    newer: ScopePolicy,
    order: list[int],
    wishes: tuple[Wish, Wish, Wish],
    drawn: float,
    now: datetime,
):
    standing = shuffled = declare(policy, Wish(), drawn, NOW)
    for wish in wishes:
        standing = narrow(standing, newer, wish, now, NOW)
    for at in order:
        shuffled = narrow(shuffled, newer, wishes[at], now, NOW)
    assert shuffled == standing


@given(POLICIES, WISHES, DRAWS, LATER)
def test_a_policy_that_forbids_forbids_every_wish(
    policy: ScopePolicy, wish: Wish, drawn: float, now: datetime
):
    standing = declare(policy, wish, drawn, NOW)
    assert standing.kinds == policy.kinds
    assert standing.retain_until <= NOW + timedelta(seconds=policy.retention_max_s)
    if admitted(standing, now) == ALLOW:
        assert wish.mode is Mode.NORMAL
        assert wish.content is not Content.OPT_OUT
        assert now < standing.retain_until
