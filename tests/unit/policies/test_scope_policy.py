"""The policy document: what it means, what it refuses, and that it says all that is wrong at once."""

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.documents import MAX_COUNT, PolicyFault
from policies.kinds import Content, Kind
from policies.limits import RunLimits, ScopeLimits
from policies.quantities import MAX_DURATION_S
from policies.scope_policy import MAX_PART_BYTES, MAX_RUN_PARTS, ScopePolicy

DAY_S = 86_400
WHOLE = {
    "kinds": ["logical-request"],
    "content": "opt_out",
    "sampling": 0.25,
    "retention": {"default": "2d", "max": "7d"},
    "metadata_retention": "90d",
    "destroy_after": "never",
    "unknown_sources": "allow",
    "purpose_required": True,
    "limits": {"part_bytes": "64KiB", "run_parts": 12, "run_bytes": "1MiB"},
    "waiting": {"run_parts": 3, "run_bytes": "128KiB", "run_notes": 5, "parts": 40, "bytes": "2MiB"},
    "share": 0.1,
}


def faults(document: object) -> list[str]:
    with pytest.raises(PolicyFault) as raised:
        ScopePolicy.from_document(document)
    assert str(raised.value) == "; ".join(raised.value.faults)
    return raised.value.faults


def test_nothing_said_is_the_default():
    assert ScopePolicy.from_document({}) == ScopePolicy()


def test_the_defaults():
    policy = ScopePolicy()
    assert (policy.kinds, policy.content, policy.sampling) == (frozenset(Kind), Content.ALLOW, 1.0)
    assert (policy.retention_default_s, policy.retention_max_s) == (30 * DAY_S, 90 * DAY_S)
    assert (policy.metadata_retention_s, policy.destroy_after_s) == (400 * DAY_S, 30 * DAY_S)
    assert (policy.unknown_sources, policy.purpose_required) == ("refuse", False)


def test_a_whole_document():
    policy = ScopePolicy.from_document(WHOLE)
    assert policy == ScopePolicy(
        kinds=frozenset({Kind.LOGICAL_REQUEST}),
        content=Content.OPT_OUT,
        sampling=0.25,
        retention_default_s=2 * DAY_S,
        retention_max_s=7 * DAY_S,
        metadata_retention_s=90 * DAY_S,
        destroy_after_s=None,
        unknown_sources="allow",
        purpose_required=True,
        run_limits=RunLimits(65_536, 12, 1 << 20, 3, 131_072, 5),
        scope_limits=ScopeLimits(40, 2 << 20, 0.1),
    )
    assert policy.to_document() == WHOLE


def test_the_default_document_is_json():
    document = json.loads(json.dumps(ScopePolicy().to_document()))
    assert ScopePolicy.from_document(document) == ScopePolicy()


@pytest.mark.parametrize("most", ["1d", "30d", "60d"])
def test_lowering_only_the_most_lowers_the_default(most: str):
    policy = ScopePolicy.from_document({"retention": {"max": most}})
    assert policy.retention_default_s == min(30 * DAY_S, policy.retention_max_s)


WRONG: list[tuple[object, str]] = [
    ([], "policy: needs an object"),
    (None, "policy: needs an object"),
    ({"retention": "30d"}, "retention: needs an object"),
    ({"limits": None}, "limits: needs an object"),
    ({"retentions": {}}, "retentions: is not a field of a policy"),
    ({"retention": {"usual": "1d"}}, "retention.usual: is not a field of a policy"),
    ({"CANARY 7f3a": 1}, "(a name that is no field's): is not a field of a policy"),
    ({7: 1}, "(a name that is no field's): is not a field of a policy"),
    ({"waiting": {"x" * 41: 1}}, "waiting.(a name that is no field's): is not a field of a policy"),
    ({"retention": {"default": 3}}, "retention.default: needs a whole number above zero with a unit"),
    ({"retention": {"default": "3"}}, "retention.default: needs a whole number above zero with a unit"),
    ({"retention": {"default": "0d"}}, "retention.default: needs a whole number above zero with a unit"),
    ({"retention": {"default": "-1d"}}, "retention.default: needs a whole number above zero with a unit"),
    ({"retention": {"default": "never"}}, "retention.default: needs a whole number above zero with a unit"),
    ({"retention": {"max": ""}}, "retention.max: needs a whole number above zero with a unit"),
    ({"retention": {"max": 1e9}}, "retention.max: needs a whole number above zero with a unit"),
    ({"retention": {"max": None}}, "retention.max: needs a whole number above zero with a unit"),
    ({"retention": {"max": "36526d"}}, "retention.max: is longer than a century"),
    ({"retention": {"default": "8d", "max": "7d"}}, "retention.default: is longer than retention.max"),
    ({"metadata_retention": "1d"}, "metadata_retention: ends before the content"),
    ({"metadata_retention": "never"}, "metadata_retention: needs a whole number"),
    ({"destroy_after": None}, "destroy_after: needs a whole number"),
    ({"destroy_after": "Never"}, "destroy_after: needs a whole number"),
    ({"destroy_after": 30}, "destroy_after: needs a whole number"),
    ({"sampling": 1.01}, "sampling: needs a number from 0 to 1"),
    ({"sampling": -0.01}, "sampling: needs a number from 0 to 1"),
    ({"sampling": float("nan")}, "sampling: needs a number from 0 to 1"),
    ({"sampling": float("inf")}, "sampling: needs a number from 0 to 1"),
    ({"sampling": "1"}, "sampling: needs a number from 0 to 1"),
    ({"sampling": True}, "sampling: needs a number from 0 to 1"),
    ({"share": 0}, "share: needs a number from 0.001 to 1"),
    ({"share": 0.0004}, "share: needs a number from 0.001 to 1"),
    ({"share": 0.3333}, "share: needs a number from 0.001 to 1"),
    ({"share": 2}, "share: needs a number from 0 to 1"),
    ({"kinds": "logical-request"}, "kinds: needs a list of kinds"),
    ({"kinds": ["logical_request"]}, "kinds: needs one of logical-request, observable-output"),
    ({"kinds": [1]}, "kinds: needs one of logical-request, observable-output"),
    ({"content": "ALLOW"}, "content: needs one of allow, opt_out"),
    ({"content": True}, "content: needs one of allow, opt_out"),
    ({"unknown_sources": "maybe"}, "unknown_sources: needs one of refuse, allow"),
    ({"unknown_sources": ["allow"]}, "unknown_sources: needs one of refuse, allow"),
    ({"purpose_required": "false"}, "purpose_required: needs true or false"),
    ({"purpose_required": 0}, "purpose_required: needs true or false"),
    ({"limits": {"part_bytes": 262_144}}, "limits.part_bytes: needs a whole number above zero with a unit"),
    ({"limits": {"run_parts": "12"}}, "limits.run_parts: needs a whole number from 1 to 1000000"),
    ({"limits": {"run_parts": 0}}, "limits.run_parts: needs a whole number from 1 to 1000000"),
    ({"limits": {"run_parts": -1}}, "limits.run_parts: needs a whole number from 1 to 1000000"),
    ({"limits": {"run_parts": 1.0}}, "limits.run_parts: needs a whole number from 1 to 1000000"),
    ({"limits": {"run_parts": True}}, "limits.run_parts: needs a whole number from 1 to 1000000"),
    ({"limits": {"run_parts": MAX_COUNT + 1}}, "limits.run_parts: needs a whole number from 1 to 1000000"),
    (
        {
            "limits": {"part_bytes": "65MiB", "run_bytes": "1GiB"},
            "waiting": {"run_bytes": "1GiB", "bytes": "1GiB"},
        },
        "limits.part_bytes: is over 32MiB",
    ),
    ({"limits": {"run_bytes": "1KiB"}}, "limits.run_bytes: is less than one part"),
    ({"waiting": {"run_bytes": "256KiB"}}, "waiting.run_bytes: is less than one sealed part"),
    ({"waiting": {"bytes": "256KiB"}}, "waiting.bytes: is less than one sealed part"),
    ({"limits": {"run_parts": MAX_RUN_PARTS + 1}}, "limits.run_parts: is over 100000"),
]


@pytest.mark.parametrize(("document", "fault"), WRONG)
def test_one_fault(document: object, fault: str):
    found = faults(document)
    assert len(found) == 1
    assert found[0].startswith(fault)
    assert "CANARY" not in found[0]


def test_all_faults_are_said_at_once():
    found = faults(
        {
            "retention": {"default": 3, "max": "-7d", "min": "1d"},
            "sampling": 2,
            "kinds": None,
            "limits": [],
            "waiting": {"parts": 0},
            "extra": 1,
        }
    )
    assert {fault.split(":")[0] for fault in found} == {
        "extra",
        "retention.min",
        "retention.default",
        "retention.max",
        "sampling",
        "kinds",
        "limits",
        "waiting.parts",
    }
    assert len(found) == 8


def test_contradictions_are_said_at_once():
    found = faults(
        {
            "retention": {"default": "20d", "max": "10d"},
            "metadata_retention": "5d",
            "limits": {"run_bytes": "1B"},
        }
    )
    assert [fault.split(":")[0] for fault in found] == [
        "retention.default",
        "metadata_retention",
        "limits.run_bytes",
    ]


def test_a_fault_is_a_value_error_with_its_own_list():
    names = ["one", "two"]
    fault = PolicyFault(names)
    names.append("three")
    assert isinstance(fault, ValueError)
    assert fault.faults == ["one", "two"]


KINDS = st.sampled_from([frozenset(some) for size in range(3) for some in combinations(Kind, size)])
COUNTS = st.integers(1, MAX_COUNT)


@st.composite
def policies(draw: st.DrawFn) -> ScopePolicy:
    most_s = draw(st.integers(1, MAX_DURATION_S))
    part_bytes = draw(st.integers(1, MAX_PART_BYTES))
    sealed = st.integers(part_bytes + 1_024, 1 << 40)
    return ScopePolicy(
        kinds=draw(KINDS),
        content=draw(st.sampled_from(Content)),
        sampling=draw(st.floats(0, 1)),
        retention_default_s=draw(st.integers(1, most_s)),
        retention_max_s=most_s,
        metadata_retention_s=draw(st.integers(most_s, MAX_DURATION_S)),
        destroy_after_s=draw(st.none() | st.integers(1, MAX_DURATION_S)),
        unknown_sources=draw(st.sampled_from(["refuse", "allow"])),
        purpose_required=draw(st.booleans()),
        run_limits=RunLimits(
            part_bytes=part_bytes,
            run_parts=draw(st.integers(1, MAX_RUN_PARTS)),
            run_bytes=draw(st.integers(part_bytes, 1 << 40)),
            run_waiting_parts=draw(COUNTS),
            run_waiting_bytes=draw(sealed),
            run_waiting_notes=draw(COUNTS),
        ),
        scope_limits=ScopeLimits(draw(COUNTS), draw(sealed), draw(st.integers(1, 1000)) / 1000),
    )


@given(policies())
def test_a_document_reads_back(policy: ScopePolicy):
    document = json.loads(json.dumps(policy.to_document()))
    assert ScopePolicy.from_document(document) == policy


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(list(WHOLE)), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(JSON | st.dictionaries(st.sampled_from(list(WHOLE)), JSON))
def test_any_document_is_a_policy_or_a_fault(document: object):
    try:
        policy = ScopePolicy.from_document(document)
    except PolicyFault as fault:
        assert fault.faults  # noqa: PT017 - either end is right, and each has its own promise
    else:
        assert ScopePolicy.from_document(policy.to_document()) == policy
