"""The order of a content read, walked over every combination of facts."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from policies.availability import (
    PURGE_REASONS,
    PartFacts,
    Viewer,
    availability,
    content_role,
    destroyed,
    ended,
    facts_readable,
    metadata_visible,
)
from policies.decisions import ALLOW, Refuse
from policies.kinds import PartState, Role
from policies.reasons import READ_STATUS, Reason
from policies.revocation import Binding, SourceFacts, UnknownSources

NOW = datetime(2025, 3, 9, 12, 0, tzinfo=UTC)
LIVE = PartFacts(
    state=PartState.STORED,
    purge_reason=None,
    retain_until=NOW + timedelta(days=1),
    bucket_expired=False,
    body_present=True,
    held=False,
    run_erased=False,
)
BINDINGS = (Binding("s", 1),)
TAGS = frozenset({"legal"})
SOURCES = {
    "fine": {"s": SourceFacts(latest=2, audience=TAGS)},
    "revoked": {"s": SourceFacts(revoked=True, audience=TAGS)},
    "unknown": {"s": SourceFacts(known=False, audience=TAGS)},
    "withdrawn": {"s": SourceFacts(latest=2, withdrawn=frozenset({1}), audience=TAGS)},
    "absent": {},
}
BOTH = (False, True)


def every_part() -> Iterator[PartFacts]:
    reasons = sorted(PURGE_REASONS)
    for state, past, bucket_expired, body_present, held, run_erased in product(
        PartState, BOTH, BOTH, BOTH, BOTH, BOTH
    ):
        for reason in _purge_reasons(state, reasons):
            yield PartFacts(
                state=state,
                purge_reason=reason,
                retain_until=NOW if past else NOW + timedelta(microseconds=1),
                bucket_expired=bucket_expired,
                body_present=body_present,
                held=held,
                run_erased=run_erased,
            )


def _purge_reasons(state: PartState, reasons: Sequence[Reason]) -> Sequence[Reason | None]:
    if state in (PartState.PURGING, PartState.PURGED):
        return reasons
    # What is stored has one where a hold defers its erasure.
    return [None, Reason.ERASED] if state is PartState.STORED else [None]


def in_order(
    part: PartFacts, viewer: Viewer, source: str, unknown: UnknownSources
) -> Iterator[tuple[bool, Reason]]:
    """The order of docs/reasons.md, each condition as if the ones before did not exist."""
    past = part.retain_until <= NOW or part.bucket_expired
    kept = part.held and part.body_present
    lacking = source != "absent" and not viewer.clearances >= TAGS
    unavailable = source == "revoked" or (source in ("unknown", "absent") and unknown == "refuse")
    yield viewer.role not in (Role.REVIEWER, Role.CUSTODIAN), Reason.PERMISSION_DENIED
    yield lacking, Reason.PERMISSION_DENIED
    for reason in PURGE_REASONS:
        yield part.purge_reason is reason, reason
    yield past and not kept, Reason.RETENTION_EXPIRED
    yield past and viewer.role is not Role.CUSTODIAN, Reason.EXPIRED_HELD
    yield part.run_erased, Reason.ERASED
    yield part.state is PartState.LOST_IN_RESTORE, Reason.LOST_IN_RESTORE
    yield not part.body_present, Reason.LOST_IN_RESTORE
    yield unavailable, Reason.SOURCE_UNAVAILABLE
    yield source == "withdrawn", Reason.DEPENDENCY_CHANGED


@pytest.mark.parametrize("unknown", ["refuse", "allow"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("role", Role)
def test_the_order_of_a_content_read(role: Role, source: str, unknown: UnknownSources):
    seen = 0
    for part, clearances in product(every_part(), (frozenset[str](), TAGS, TAGS | {"hr"})):
        viewer = Viewer(role, clearances)
        first = next((reason for stands, reason in in_order(part, viewer, source, unknown) if stands), None)
        expected = ALLOW if first is None else Refuse(first)
        assert availability(part, viewer, BINDINGS, SOURCES[source], unknown, NOW) == expected, (part, viewer)
        seen += 1
    assert seen == 3 * 2**5 * (2 + 1 + 2 * 4)


def test_each_condition_alone():
    reviewer = Viewer(Role.REVIEWER, TAGS)

    def read(part: PartFacts = LIVE, viewer: Viewer = reviewer, source: str = "fine") -> object:
        return availability(part, viewer, BINDINGS, SOURCES[source], "refuse", NOW)

    assert read() == ALLOW
    assert read(viewer=Viewer(Role.REVIEWER)) == Refuse(Reason.PERMISSION_DENIED)
    assert read(source="revoked") == Refuse(Reason.SOURCE_UNAVAILABLE)
    assert read(source="unknown") == Refuse(Reason.SOURCE_UNAVAILABLE)
    assert read(source="withdrawn") == Refuse(Reason.DEPENDENCY_CHANGED)


def test_a_custodian_reads_what_is_expired_and_held_and_a_reviewer_does_not():
    part = PartFacts(
        state=PartState.STORED,
        purge_reason=None,
        retain_until=NOW,
        bucket_expired=True,
        body_present=True,
        held=True,
        run_erased=False,
    )
    facts = SOURCES["fine"]
    assert availability(part, Viewer(Role.CUSTODIAN, TAGS), BINDINGS, facts, "refuse", NOW) == ALLOW
    refused = availability(part, Viewer(Role.REVIEWER, TAGS), BINDINGS, facts, "refuse", NOW)
    assert refused == Refuse(Reason.EXPIRED_HELD)


def test_a_part_without_sources_needs_no_clearance():
    assert availability(LIVE, Viewer(Role.REVIEWER), [], {}, "refuse", NOW) == ALLOW


@pytest.mark.parametrize(
    ("role", "metadata", "content"),
    [
        (Role.RUNTIME, False, False),
        (Role.REVIEWER, True, True),
        (Role.CUSTODIAN, True, True),
        (Role.AUDITOR, True, False),
        (Role.OPERATOR, True, False),
    ],
)
def test_what_roles_see(role: Role, metadata: bool, content: bool):
    assert metadata_visible(role) is metadata
    assert content_role(role) is content


def test_what_no_role_is_sees_nothing():
    assert not metadata_visible("Reviewer")  # type: ignore[arg-type]
    assert not content_role("")  # type: ignore[arg-type]


def test_destroyed_and_ended():
    for part in every_part():
        assert destroyed(part) is (part.state in (PartState.PURGING, PartState.PURGED))
        assert ended(part, NOW) is (part.bucket_expired or part.retain_until <= NOW)


@pytest.mark.parametrize("state", [PartState.PURGING, PartState.PURGED])
@pytest.mark.parametrize("reason", [None, *(reason for reason in Reason if reason not in PURGE_REASONS)])
def test_a_destruction_without_its_reason_is_a_fault_of_the_caller(state: PartState, reason: Reason | None):
    with pytest.raises(ValueError, match="reason of a purge leaf"):
        PartFacts(
            state=state,
            purge_reason=reason,
            retain_until=NOW,
            bucket_expired=False,
            body_present=False,
            held=False,
            run_erased=False,
        )


def test_every_refusal_has_a_status_of_a_read():
    viewers = [Viewer(role, TAGS) for role in Role]
    decisions = {
        availability(part, viewer, BINDINGS, facts, "refuse", NOW)
        for part, viewer, facts in product(every_part(), viewers, SOURCES.values())
    }
    assert {decision.reason for decision in decisions if isinstance(decision, Refuse)} == {
        Reason.PERMISSION_DENIED,
        Reason.RETENTION_EXPIRED,
        Reason.EXPIRED_HELD,
        Reason.ERASED,
        Reason.LOST_IN_RESTORE,
        Reason.SOURCE_UNAVAILABLE,
        Reason.DEPENDENCY_CHANGED,
    }
    assert all(decision.reason in READ_STATUS for decision in decisions if isinstance(decision, Refuse))


def test_instants_need_zones():
    with pytest.raises(ValueError, match="needs a zone"):
        availability(LIVE, Viewer(Role.REVIEWER), [], {}, "refuse", NOW.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("left", "erased", "held", "role", "reason"),
    [
        (1, False, False, Role.AUDITOR, None),
        (1, True, False, Role.AUDITOR, Reason.ERASED),
        (1, True, True, Role.CUSTODIAN, Reason.ERASED),
        (0, False, False, Role.CUSTODIAN, Reason.RETENTION_EXPIRED),
        (-1, True, False, Role.REVIEWER, Reason.RETENTION_EXPIRED),
        (-1, False, True, Role.REVIEWER, Reason.EXPIRED_HELD),
        (-1, False, True, Role.OPERATOR, Reason.EXPIRED_HELD),
        (-1, False, True, Role.CUSTODIAN, None),
        (-1, True, True, Role.CUSTODIAN, Reason.ERASED),
    ],
)
def test_facts_are_readable_as_long_as_their_run_s_content_would_be(
    left: int, erased: bool, held: bool, role: Role, reason: Reason | None
) -> None:
    decision = facts_readable(
        role, retain_until=NOW + timedelta(seconds=left), erased=erased, held=held, now=NOW
    )
    assert decision == (ALLOW if reason is None else Refuse(reason))
