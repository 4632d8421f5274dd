"""Ticket first: what is looked at, when, and what becomes of what is not."""

import time

import pytest

from custody_client import Bounds, Custody, LocalPolicy, Source
from tests.support.scripted import (
    KEY,
    admitted,
    hanging,
    healthy,
    in_turn,
    outcome,
    problem,
    send,
    until,
)

REQUEST, OUTPUT = "logical-request", "observable-output"


class Untouchable:
    """Raises on any access: whoever looks at it fails the test."""

    def __getattribute__(self, name):
        raise AssertionError(f"looked at: {name}")

    def __call__(self):
        raise AssertionError("called")

    def __len__(self):
        raise AssertionError("measured")

    def __iter__(self):
        raise AssertionError("walked")


def attempts(run, many):
    return [run.exchange().attempt() for _ in range(many)]


def settled(custody, service, **expected):
    """Wait until the service was told of exactly these losses."""
    until(lambda: service.gaps() == {reason: set(numbers) for reason, numbers in expected.items()})


@pytest.mark.parametrize("reason", ["temporary_mode", "content_opt_out", "not_sampled", "retention_expired"])
def test_content_of_a_refused_run_is_not_touched_and_counted_with_the_reason(service, custody, reason):
    service.admission |= {"admitted": False, "reason": reason}
    run = custody.run("r-1", wait=2)
    for attempt in attempts(run, 3):
        attempt.capture_request(Untouchable())
        attempt.capture_output(Untouchable())
        attempt.settled("completed")
    assert not run.admits(REQUEST)
    run.close()
    assert custody.flush(5)
    settled(custody, service, **{reason: range(1, 7)})
    assert service.closings() == [{session_of(service): 6}]
    assert service.calls("frames") == []
    assert custody.counters().not_captured == {reason: 6}


def session_of(service):
    (session,) = {gap["session"] for each in service.calls("gaps") for gap in each.json["gaps"]}
    return session


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [({"mode": "temporary"}, "temporary_mode"), ({"content": "opt_out"}, "content_opt_out")],
)
def test_an_opt_out_needs_no_answer(service, custody, wishes, reason):
    service.answers["declare"] = in_turn(hanging, healthy)
    service.admission |= {"admitted": False, "reason": reason}
    run = custody.run("r-1", local=LocalPolicy(), **wishes)
    attempts(run, 1)[0].capture_request(Untouchable())
    assert service.calls("declare") or until(lambda: service.calls("declare"))
    assert service.calls("declare")[0].json == wishes
    service.released.set()
    run.close()
    settled(custody, service, **{reason: [1]})


def test_before_the_answer_nothing_is_touched_and_the_answer_gives_the_reason(service, custody):
    service.answers["declare"] = in_turn(hanging, healthy)
    run = custody.run("r-1")
    early = attempts(run, 2)
    for attempt in early:
        attempt.capture_request(Untouchable())
    assert custody.counters().undecided == 2
    service.released.set()
    until(lambda: run.admits(REQUEST))
    early[0].capture_request({"now": True})
    assert custody.flush(5)
    assert [part["sequence"] for part in service.parts()] == [3]
    # The first declaration was not answered before its connection broke.
    settled(custody, service, client_transport=[1, 2])


def test_what_came_before_a_prompt_answer_is_not_observed(service, custody):
    def slowly(script, asked, sock):
        time.sleep(0.2)
        healthy(script, asked, sock)

    service.answers["declare"] = slowly
    run = custody.run("r-1")
    attempts(run, 1)[0].capture_request(Untouchable())
    run.close()
    settled(custody, service, not_observed=[1])


def test_waiting_for_the_answer_is_bounded(service, custody):
    service.answers["declare"] = hanging
    begun = time.monotonic()
    run = custody.run("r-1", wait=0.1)
    assert time.monotonic() - begun < 1.5
    assert not run.admits(REQUEST)


# --- a local policy


def test_with_a_local_policy_bytes_are_held_and_leave_only_once_admitted(service, custody):
    def slowly(script, asked, sock):
        until(lambda: custody.counters().waiting == 2)
        healthy(script, asked, sock)

    service.answers["declare"] = slowly
    run = custody.run("r-1", local=LocalPolicy())
    mutable = {"messages": ["as it was"]}
    first, second = attempts(run, 2)
    first.capture_request(mutable)
    mutable["messages"][0] = "changed"
    second.capture_request(b"raw")
    assert service.calls("frames") == []
    assert custody.flush(5)
    assert [part["body"] for part in service.parts()] == [b'{"messages":["as it was"]}', b"raw"]
    assert service.gaps() == {}


def test_what_is_held_is_dropped_when_its_time_is_over_even_amid_the_request(service, custody):
    service.answers["declare"] = hanging
    run = custody.run("r-1", local=LocalPolicy(hold_s=0.3))
    attempts(run, 1)[0].capture_request({"a": 1})
    assert custody.counters().waiting == 1
    until(lambda: custody.counters().waiting == 0, 2)
    assert custody.counters().not_captured == {"client_transport": 1}
    assert service.calls("frames") == []


def test_what_is_held_is_dropped_when_the_answer_is_no(service, custody):
    def refusing(script, asked, sock):
        until(lambda: custody.counters().waiting == 2)
        send(sock, 200, admitted(admitted=False, reason="not_sampled"))

    service.answers["declare"] = refusing
    run = custody.run("r-1", local=LocalPolicy())
    for attempt in attempts(run, 2):
        attempt.capture_request({"a": 1})
    run.close()
    settled(custody, service, not_sampled=[1, 2])
    assert custody.counters().waiting == 0


def test_what_is_held_must_fit_the_answer(service, custody):
    def narrowly(script, asked, sock):
        until(lambda: custody.counters().waiting == 3)
        send(sock, 200, admitted(kinds=[OUTPUT], limits={"part_bytes": 10}))

    service.answers["declare"] = narrowly
    run = custody.run("r-1", local=LocalPolicy(part_bytes=100))
    first, second = attempts(run, 2)
    first.capture_request(b"small")
    first.capture_output(b"small")
    second.capture_output(b"x" * 50)
    second.capture_request(b"x" * 101)
    assert custody.flush(5)
    settled(custody, service, kind_not_admitted=[1], part_too_large=[3, 4])
    assert [part["sequence"] for part in service.parts()] == [2]


def test_a_local_policy_holds_only_the_kinds_that_it_names(service, custody):
    service.answers["declare"] = hanging
    run = custody.run("r-1", local=LocalPolicy(kinds=[OUTPUT]))
    (attempt,) = attempts(run, 1)
    attempt.capture_request(Untouchable())
    attempt.capture_output(b"held")
    assert (run.admits(REQUEST), run.admits(OUTPUT), custody.counters().waiting) == (False, True, 1)


# --- what an admission says


def test_a_kind_that_is_not_admitted_is_not_touched(service, custody):
    service.admission["kinds"] = [OUTPUT]
    run = custody.run("r-1", wait=2)
    (attempt,) = attempts(run, 1)
    attempt.capture_request(Untouchable())
    attempt.capture_output(b"out")
    assert custody.flush(5)
    settled(custody, service, kind_not_admitted=[1])
    assert [part["kind"] for part in service.parts()] == [OUTPUT]


def test_what_is_too_large_is_not_sent(service, custody):
    service.admission["limits"] = {"part_bytes": 1000}
    run = custody.run("r-1", wait=2)
    first, second = attempts(run, 2)
    first.capture_request(b"x" * 1001)
    first.capture_output(b"x" * 1000)
    second.capture_request({"image": "x" * 1000})
    assert custody.flush(5)
    settled(custody, service, part_too_large=[1, 3])
    assert [len(part["body"]) for part in service.parts()] == [1000]


def test_a_declaration_says_everything_that_was_asked(service, custody):
    custody.run(
        "r-1", content="allow", retention="30d", labels={"team": "blue"}, sources=["doc-7", Source("doc-8", 3)],
        subject="person-1", shared=True, wait=2,
    )  # fmt: skip
    assert service.calls("declare")[0].json == {
        "content": "allow", "retention": "30d", "labels": {"team": "blue"}, "subject": "person-1", "shared": True,
        "sources": [{"source": "doc-7"}, {"source": "doc-8", "version": 3}],
    }  # fmt: skip


def test_the_same_id_is_the_same_run_and_the_strictest_wish_holds_at_once(service, custody):
    run = custody.run("r-1", retention="7d", labels={"a": "1"}, wait=2)
    assert custody.run("r-1") is run
    (attempt,) = attempts(run, 1)
    service.admission |= {"admitted": False, "reason": "content_opt_out"}
    assert custody.run("r-1", content="opt_out", retention="30d", labels={"a": "2"}) is run
    attempt.capture_request(Untouchable())
    run.close()
    assert custody.flush(5)
    settled(custody, service, content_opt_out=[1])
    assert service.calls("declare")[-1].json == {
        "content": "opt_out",
        "retention": "7d",
        "labels": {"a": "1"},
    }


def test_a_ticket_is_renewed_before_it_ends(service, custody):
    service.admission["lifetime_s"] = 1
    run = custody.run("r-1", wait=2)
    until(lambda: len(service.calls("declare")) > 1, 8)
    assert run.admits(REQUEST)


def test_a_ticket_that_is_too_old_is_renewed_and_the_same_bytes_go_again(service, custody):
    service.answers["frames"] = in_turn(problem(403, "ticket_expired", recorded=True), healthy)
    run = custody.run("r-1", wait=2)
    service.admission["ticket"] = "ct1.newer"
    attempts(run, 1)[0].capture_request(b"content")
    assert custody.flush(5)
    first, second = service.calls("frames")
    assert (first.headers["Custody-Ticket"], second.headers["Custody-Ticket"]) == ("ct1.ticket", "ct1.newer")
    assert first.body == second.body
    assert custody.counters().delivered == 1


@pytest.mark.parametrize(("status", "reason"), [(401, "unauthenticated"), (403, "permission_denied")])
def test_a_key_that_is_not_taken_admits_nothing(service, custody, status, reason):
    service.answers["declare"] = problem(status, reason)
    run = custody.run("r-1", wait=2)
    attempts(run, 1)[0].capture_request(Untouchable())
    run.close()
    until(lambda: custody.counters().not_captured == {"run_not_admitted": 1})
    assert len(service.calls("declare")) == 1
    assert service.calls("gaps") == service.calls("close") == []


def test_a_run_that_is_refused_later_takes_nothing_more(service, custody):
    run = custody.run("r-1", wait=2)
    service.answers["frames"] = problem(403, "content_opt_out", recorded=True)
    first, second = attempts(run, 2)
    first.capture_request(b"content")
    assert custody.flush(5)
    assert not run.admits(REQUEST)
    second.capture_request(Untouchable())
    assert custody.flush(5)
    settled(custody, service, content_opt_out=[2])
    assert custody.counters().not_captured == {"content_opt_out": 2}


def test_parts_that_are_refused_one_by_one_are_told_only_where_the_service_will_not_remember(
    service, custody
):
    def answer(_, asked, sock):
        said = [
            outcome(frame, capture="not_captured", reason="capacity_exceeded", recorded=at == 0)
            if at < 2
            else outcome(frame)
            for at, frame in enumerate(asked.frames)
        ]
        send(sock, 202, {"receipts": said})

    service.answers["frames"] = answer
    run = custody.run("r-1", wait=2)
    for attempt in attempts(run, 3):
        attempt.capture_request(b"content")
    assert custody.flush(5)
    settled(custody, service, capacity_exceeded=[2])
    counters = custody.counters()
    assert (counters.delivered, counters.not_captured) == (1, {"capacity_exceeded": 2})


# --- what is asked for wrongly


@pytest.mark.parametrize(
    ("run_id", "wishes"),
    [
        ("", {}), ("../x", {}), ("x" * 129, {}), (None, {}), ("r", {"mode": "odd"}), ("r", {"content": "yes"}),
        ("r", {"retention": "3"}), ("r", {"labels": {"a b": "c"}}), ("r", {"labels": {"a": "\x00"}}),
        ("r", {"sources": ["-"]}), ("r", {"sources": 7}), ("r", {"subject": ""}),
    ],
)  # fmt: skip
def test_a_run_that_cannot_be_is_dead_and_harmless(service, custody, run_id, wishes):
    with custody.run(run_id, **wishes, wait=0.05) as run, run.exchange().attempt() as attempt:
        attempt.capture_request(Untouchable())
        attempt.settled("completed")
    assert custody.flush(1)
    assert service.asked == []
    assert custody.counters().troubles == {"runs": 1}


@pytest.mark.parametrize(("url", "key"), [
    ("", KEY), ("http://", KEY), ("ftp://h", KEY), ("http://user:pw@h", KEY), ("http://h/?key=sk-CANARY", KEY),
    ("http://h:99999", KEY), ("http://h", ""), ("http://h", "with space"), ("http://h", None), (None, KEY),
])  # fmt: skip
def test_a_client_that_cannot_be_is_dead_and_says_why_without_the_key(url, key, caplog):
    custody = Custody(url, key)
    with custody.run("r") as run:
        run.exchange().attempt().capture_request(Untouchable())
    assert custody.fault
    assert (custody.flush(0.1), custody.counters().requests) == (True, 0)
    assert "CANARY" not in caplog.text
    assert KEY not in caplog.text
    custody.close()


def test_wrong_ids_and_words_of_an_attempt_harm_nothing(service, custody):
    run = custody.run("r-1", wait=2)
    run.exchange("not/an/id").attempt().capture_request(Untouchable())
    run.exchange("x").attempt("").capture_request(Untouchable())
    attempt = run.exchange("x").attempt()
    attempt.capture_request(b"a", vantage="odd", content_type="application/json\r\nX: y", completeness="odd")
    attempt.settled("odd")
    attempt.refer(trace="", response="x" * 201, request=7)
    attempt.capture_output(b"b", sources=["not/an/id"])
    assert custody.flush(5)
    (part,) = service.parts()
    assert (part["vantage"], part["content-type"], part["completeness"]) == (
        "sdk", "application/octet-stream", "unknown",
    )  # fmt: skip
    settled(custody, service, source_unknown=[2])


def test_too_many_open_runs_are_dead(service):
    custody = Custody(service.url, KEY, bounds=Bounds(runs=2))
    runs = [custody.run(f"r-{each}") for each in range(3)]
    assert [bool(run.run_id) for run in runs] == [True, True, False]
    runs[0].close()
    until(lambda: custody.run("r-9").run_id)
    custody.close()


def test_an_attempt_is_captured_once_a_kind(service, custody):
    run = custody.run("r-1", wait=2)
    (attempt,) = attempts(run, 1)
    attempt.capture_request(b"first")
    attempt.capture_request(Untouchable())
    assert custody.flush(5)
    attempt.capture_request(Untouchable())
    assert custody.flush(5)
    settled(custody, service, identity_conflict=[2, 3])
    assert [part["body"] for part in service.parts()] == [b"first"]
