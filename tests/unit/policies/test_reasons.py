"""The closed list: nothing goes, nothing is undocumented, every answer has its status."""

import re
from pathlib import Path

import pytest

from policies.reasons import (
    CLIENT_REASONS,
    FAMILY,
    OUTCOMES,
    READ_STATUS,
    RETRYABLE,
    STATUS,
    Family,
    Mark,
    Reason,
    read_status,
    retryable,
)

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def golden_line(reason: Reason) -> str:
    families = ",".join(sorted(FAMILY[reason]))
    return f"{reason.value} {STATUS.get(reason, '-')} {READ_STATUS.get(reason, '-')} {families}"


def test_the_list_is_the_golden_one():
    # A line of this file may be added; one that goes or changes breaks what callers and auditors have stored.
    assert (HERE / "reasons.golden").read_text().splitlines() == [golden_line(reason) for reason in Reason]


def test_every_reason_has_one_paragraph_and_no_other_is_described():
    headings = re.findall(r"^### `(\w+)`$", (ROOT / "docs" / "reasons.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(reason.value for reason in Reason)


def test_every_paragraph_says_something():
    text = (ROOT / "docs" / "reasons.md").read_text()
    paragraphs = re.findall(r"^### `\w+`\n((?:[^#\n].*\n)+)", text, re.MULTILINE)
    assert len(paragraphs) == len(Reason)
    assert min(len(paragraph.split()) for paragraph in paragraphs) > 15


def test_every_member_has_a_comment_of_its_own():
    lines = (ROOT / "policies" / "reasons.py").read_text().splitlines()
    for reason in Reason:
        at = lines.index(f'    {reason.name} = "{reason.value}"')
        assert re.match(r"    # [A-Z].*\.$", lines[at - 1]), reason


def test_a_name_is_its_text():
    assert all(reason.name.lower() == reason.value for reason in Reason)


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        (
            403,
            (
                "temporary_mode content_opt_out not_sampled kind_not_admitted run_not_admitted run_closed"
                " ticket_invalid ticket_expired retention_expired source_revoked source_unknown"
                " dependency_changed permission_denied"
            ),
        ),
        (409, "identity_conflict erased"),
        (413, "part_too_large"),
        (429, "capacity_exceeded run_part_limit run_byte_limit"),
        (400, "encoding_failed digest_mismatch malformed_request cursor_invalid"),
        (408, "interrupted"),
        (401, "unauthenticated"),
        (411, "length_required"),
        (415, "unsupported_media"),
        (500, "internal"),
        (503, "queue_unavailable store_unavailable"),
    ],
)
def test_the_status_of_a_capture(status: int, texts: str):
    assert {reason.value for reason, its in STATUS.items() if its == status} == set(texts.split())


@pytest.mark.parametrize(
    ("status", "texts"),
    [
        (400, "malformed_request cursor_invalid"),
        (401, "unauthenticated"),
        (403, "permission_denied expired_held source_unavailable dependency_changed"),
        (404, "not_found not_stored"),
        (410, "retention_expired erased lost_in_restore"),
        (411, "length_required"),
        (415, "unsupported_media"),
        (500, "key_lost integrity_mismatch internal"),
        (503, "queue_unavailable store_unavailable reads_closed"),
    ],
)
def test_the_status_of_a_read(status: int, texts: str):
    assert {reason.value for reason, its in READ_STATUS.items() if its == status} == set(texts.split())


@pytest.mark.parametrize("reason", READ_STATUS)
def test_what_is_destroyed_for_its_source_is_gone(reason: Reason):
    turned = {Reason.SOURCE_UNAVAILABLE, Reason.DEPENDENCY_CHANGED}
    assert read_status(reason, destroyed=False) == READ_STATUS[reason]
    assert read_status(reason, destroyed=True) == (410 if reason in turned else READ_STATUS[reason])


def test_only_what_is_found_later_or_told_by_others_has_no_status():
    without = {reason for reason in Reason if reason not in STATUS and reason not in READ_STATUS}
    elsewhere = {Family.CLIENT, Family.COUNTED, Family.FOUND_AFTER_QUEUED}
    assert without == {
        Reason.WRITE_FAILED,
        Reason.QUEUE_ENTRY_LOST,
        Reason.UNACCOUNTED,
        Reason.CLIENT_QUEUE_FULL,
        Reason.CLIENT_SHUTDOWN,
        Reason.CLIENT_UNSERIALISABLE,
        Reason.CLIENT_MASK_FAILED,
        Reason.CLIENT_TRANSPORT,
        Reason.NOT_OBSERVED,
    }
    assert all(FAMILY[reason] <= elsewhere for reason in without)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_family_and_an_outage_has_no_other(reason: Reason):
    assert FAMILY[reason]
    if Family.OUTAGE in FAMILY[reason] or Family.REQUEST_FAULT in FAMILY[reason]:
        assert len(FAMILY[reason]) == 1


def test_reasons_of_two_families():
    assert FAMILY[Reason.INTERRUPTED] == {Family.CUT_OFF, Family.CLIENT}
    assert FAMILY[Reason.ERASED] == {Family.IDENTITY, Family.FOUND_AFTER_QUEUED, Family.READ}
    assert FAMILY[Reason.RETENTION_EXPIRED] == {Family.POLICY, Family.FOUND_AFTER_QUEUED, Family.READ}


def test_outcomes_are_what_may_stand_in_a_gap():
    never = {reason for reason in Reason if FAMILY[reason] <= {Family.REQUEST_FAULT, Family.READ}}
    assert set(Reason) - OUTCOMES == never | {Reason.READS_CLOSED}


def test_a_client_says_nothing_that_only_the_store_can_find():
    assert {Reason.WRITE_FAILED, Reason.QUEUE_ENTRY_LOST, Reason.UNACCOUNTED} == OUTCOMES - CLIENT_REASONS
    assert OUTCOMES > CLIENT_REASONS


@pytest.mark.parametrize("reason", Reason)
def test_only_an_outage_is_worth_another_try_and_only_to_who_waits(reason: Reason):
    assert retryable(reason, waits=True) is (Family.OUTAGE in FAMILY[reason])
    assert retryable(reason, waits=False) is False
    assert (reason in RETRYABLE) is (Family.OUTAGE in FAMILY[reason])


def test_the_mark_on_queued_is_no_reason():
    assert Mark.WRITE_TIMEOUT.value not in set(Reason)
