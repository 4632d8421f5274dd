"""Every reason that can be an answer is produced over HTTP by a test that is named here, or comes later."""

import ast
from dataclasses import dataclass
from typing import Final

import pytest

from policies.reasons import Mark, Reason
from tests.support.sources import ROOT


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing of this version makes it true; the subject of the work that will."""

    subject: str


GUARDS = "integration/test_guards.py"
CAPTURES = "integration/test_captures.py"
REASONS = "integration/test_reasons.py"
CONTENT = "integration/test_content.py"
GONE = "edge_cases/test_gone.py"
A_CHANGE = f"{CONTENT}::test_a_read_is_refused_from_the_moment_of_the_change_and_recorded"
A_LOSS = f"{REASONS}::test_what_a_runtime_says_of_its_own_losses_is_shown_as_said"
A_SOURCE = f"{REASONS}::test_what_depends_on_a_closed_source_is_not_captured"

PRODUCED: Final[dict[Reason | Mark, str | Later]] = {
    Reason.TEMPORARY_MODE: f"{GUARDS}::test_a_temporary_run_is_refused_unread",
    Reason.CONTENT_OPT_OUT: f"{GUARDS}::test_an_opt_out_midway_is_refused_unread",
    Reason.NOT_SAMPLED: f"{REASONS}::test_a_run_that_is_not_drawn_takes_no_part",
    Reason.KIND_NOT_ADMITTED: f"{GUARDS}::test_a_kind_that_is_not_admitted_is_refused_unread",
    Reason.RUN_NOT_ADMITTED: f"{GUARDS}::test_a_run_that_nobody_declared_is_refused_unread",
    Reason.RUN_CLOSED: f"{REASONS}::test_what_was_announced_and_never_came_is_unaccounted",
    Reason.TICKET_INVALID: f"{GUARDS}::test_a_forged_ticket_is_refused_unread",
    Reason.TICKET_EXPIRED: f"{GUARDS}::test_an_expired_ticket_is_refused_unread",
    Reason.RETENTION_EXPIRED: f"{GONE}::test_nothing_more_is_taken_for_a_run_that_is_over",
    Reason.SOURCE_REVOKED: A_SOURCE,
    Reason.SOURCE_UNKNOWN: A_SOURCE,
    Reason.DEPENDENCY_CHANGED: A_SOURCE,
    Reason.IDENTITY_CONFLICT: f"{CAPTURES}::test_the_same_bytes_again_get_the_same_receipt_and_others_a_conflict",
    Reason.ERASED: f"{GONE}::test_what_is_erased_is_refused_at_once_by_every_way_and_says_how_far_it_is",
    Reason.PART_TOO_LARGE: f"{CAPTURES}::test_the_limit_is_bytes_on_the_wire",
    Reason.CAPACITY_EXCEEDED: f"{CAPTURES}::test_forty_parts_at_once_wait_thirty_two_and_refuse_eight_by_name",
    Reason.RUN_PART_LIMIT: f"{REASONS}::test_a_run_holds_so_many_parts_and_so_many_bytes",
    Reason.RUN_BYTE_LIMIT: f"{REASONS}::test_a_run_holds_so_many_parts_and_so_many_bytes",
    Reason.ENCODING_FAILED: f"{CAPTURES}::test_a_flush_answers_every_frame_in_order_and_a_bad_one_fails_alone",
    Reason.DIGEST_MISMATCH: f"{CAPTURES}::test_a_digest_is_checked_and_damage_is_said",
    Reason.INTERRUPTED: f"{GUARDS}::test_a_slow_body_is_given_up_and_its_room_given_back",
    Reason.MALFORMED_REQUEST: f"{CAPTURES}::test_a_state_that_is_not_one_is_malformed_and_echoes_nothing",
    Reason.CURSOR_INVALID: f"{CAPTURES}::test_a_cursor_is_good_for_its_own_key_only",
    Reason.UNAUTHENTICATED: "edge_cases/test_credentials.py::test_what_is_no_key_is_unauthenticated_and_not_told",
    Reason.LENGTH_REQUIRED: f"{GUARDS}::test_a_body_with_neither_length_nor_chunks_has_no_content",
    Reason.UNSUPPORTED_MEDIA: f"{REASONS}::test_a_frame_that_is_none_and_a_coded_body_are_said_as_such",
    Reason.INTERNAL: f"{REASONS}::test_a_bug_of_ours_is_internal_and_tells_nothing",
    Reason.WRITE_FAILED: f"{CAPTURES}::test_what_the_writer_gave_up_is_told_to_who_waits_by_its_receipt",
    Reason.QUEUE_ENTRY_LOST: (
        "faults/test_valkey_restarts.py::"
        "test_without_its_data_receipts_say_so_and_the_closing_counts_what_is_missing"
    ),
    Reason.QUEUE_UNAVAILABLE: f"{CAPTURES}::test_without_an_intake_key_every_part_has_its_receipt",
    Reason.STORE_UNAVAILABLE: f"{CONTENT}::test_no_byte_leaves_without_its_record",
    Reason.READS_CLOSED: (
        "integration/test_log_api.py::test_while_reads_are_closed_nothing_of_evidence_is_shown"
    ),
    Reason.CLIENT_QUEUE_FULL: A_LOSS,
    Reason.CLIENT_SHUTDOWN: A_LOSS,
    Reason.CLIENT_UNSERIALISABLE: A_LOSS,
    Reason.CLIENT_MASK_FAILED: A_LOSS,
    Reason.CLIENT_TRANSPORT: A_LOSS,
    Reason.NOT_OBSERVED: A_LOSS,
    Reason.UNACCOUNTED: f"{REASONS}::test_what_was_announced_and_never_came_is_unaccounted",
    Reason.PERMISSION_DENIED: f"{CONTENT}::test_only_reviewers_and_custodians_read_content",
    Reason.EXPIRED_HELD: "edge_cases/test_held.py::test_what_is_expired_and_held_is_for_custodians_who_say_what_for",
    Reason.NOT_FOUND: f"{GONE}::test_what_was_never_there_cannot_be_erased",
    Reason.NOT_STORED: f"{GONE}::test_what_waits_and_is_erased_is_never_written",
    # Made true in the database by hand: only a restore does it, which comes later.
    Reason.LOST_IN_RESTORE: A_CHANGE,
    Reason.SOURCE_UNAVAILABLE: A_CHANGE,
    Reason.KEY_LOST: f"{CONTENT}::test_a_bucket_s_lost_key_is_said_as_such_and_counted",
    Reason.INTEGRITY_MISMATCH: f"{CONTENT}::test_swapped_rows_do_not_open",
    Mark.WRITE_TIMEOUT: f"{CAPTURES}::test_a_queued_part_says_overdue_once_it_waits_too_long",
}


@pytest.mark.parametrize("reason", [*Reason, *Mark])
def test_every_reason_is_produced_by_a_test_that_says_it(reason: Reason | Mark):
    produced = PRODUCED[reason]
    if isinstance(produced, Later):
        assert produced.subject
        return
    file, _, test = produced.partition("::")
    assert f'"{reason.value}"' in told_by(file, test), produced


def told_by(file: str, test: str) -> str:
    """The text of a test, with the tables of its module that it is run over."""
    source = (ROOT / "tests" / file).read_text()
    tree = ast.parse(source)
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test
    ]
    assert len(tests) == 1, f"{file} has no {test}"
    (found,) = tests
    used = {node.id for node in ast.walk(found) if isinstance(node, ast.Name)}
    tables = [
        node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and named(node) & used
    ]
    pieces = [*found.decorator_list, found, *tables]
    return "\n".join(ast.get_source_segment(source, piece) or "" for piece in pieces)


def named(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {each.id for each in targets if isinstance(each, ast.Name)}
