"""Facts beside captures: once admitted, in few requests, once each; never in the way, and what is lost is counted."""

import json
import threading
import time

import pytest

from custody_client import Custody
from custody_client.accounts import MOST_FACTS
from tests.support.scripted import KEY, closing, hanging, healthy, in_turn, problem, raw, send, until

SLOW = 0.25
"""Far more than a report takes, and far less than anything that would wait for the service."""


@pytest.fixture
def quick(monkeypatch):
    """Pauses that take no time, where a test is not about them."""
    monkeypatch.setattr("custody_client.pauses._FIRST_S", 0.02)


def fact(n=0, **more):
    return json.dumps({"type": "delivery", "fact": f"f-{n}", **more}).encode()


def names(service):
    return [each["fact"] for each in service.facts()]


def test_facts_go_together_once_the_run_is_admitted_and_under_its_ticket(service, custody):
    def late(*asked):
        service.released.wait(5)
        healthy(*asked)

    service.answers["declare"] = late
    run = custody.run("r-1")
    run.report(fact(n) for n in range(3))
    time.sleep(0.2)
    assert service.facts() == []
    assert custody.counters().facts_waiting == 3
    service.released.set()
    assert custody.flush(5)
    (asked,) = service.calls("facts")
    assert (asked.path, asked.headers["Content-Type"]) == ("/v1/runs/r-1/facts", "application/json")
    assert asked.headers["Custody-Ticket"]
    assert names(service) == ["f-0", "f-1", "f-2"]
    counters = custody.counters()
    assert (counters.facts_told, counters.facts_waiting, counters.facts_lost) == (3, 0, {})
    # They are no observations.
    assert (counters.observed, service.gaps()) == (0, {})


def test_more_than_one_request_holds_goes_in_several_in_order(service, custody):
    run = custody.run("r-1", wait=2)
    run.report([fact(n) for n in range(150)])
    assert custody.flush(5)
    assert names(service) == [f"f-{n}" for n in range(150)]
    assert [len(each.json["facts"]) for each in service.calls("facts")] == [32, 32, 32, 32, 22]


def test_a_run_is_closed_after_its_facts_are_told(service, custody):
    run = custody.run("r-1", wait=2)
    run.report([fact()])
    run.close()
    until(service.closings)
    calls = [each.call for each in service.asked]
    assert calls.index("facts") < calls.index("close")
    run.report([fact(1)])
    assert custody.counters().facts_lost == {"run_closed": 1}


def test_full_means_that_the_newcomer_is_counted_and_nobody_waits(service, custody):
    service.answers["declare"] = hanging
    run = custody.run("r-1")
    began = time.perf_counter()
    run.report(fact(n) for n in range(MOST_FACTS + 10))
    assert time.perf_counter() - began < SLOW
    counters = custody.counters()
    assert (counters.facts_waiting, counters.facts_lost) == (MOST_FACTS, {"client_queue_full": 10})


@pytest.mark.parametrize(
    "odd",
    [
        [b"x" * 1025],
        [b""],
        ["text"],
        [None],
        [bytearray(b"{}")],
        [b"not json"],
        [b"[1]"],
        [b'{"a":1},{"b":2}'],
        [b'{"a":1'],
        [b"\xff"],
        [b'{"a":"\xff"}'],
        [b"[" * 1000],
    ],
    ids=lambda odd: repr(odd)[:16],
)
def test_what_is_no_fact_never_leaves_and_takes_no_other_with_it(service, custody, odd):
    run = custody.run("r-1", wait=2)
    run.report([fact(1), *odd, fact(2)])
    assert custody.flush(5)
    assert names(service) == ["f-1", "f-2"]
    assert custody.counters().facts_lost == {"client_unserialisable": 1}


@pytest.mark.parametrize("wrong", [None, 7, [7], 3.5], ids=str)
def test_nothing_that_is_handed_in_raises(custody, wrong):
    run = custody.run("r-1", wait=2)
    run.report(wrong)

    def breaks():
        yield fact()
        raise ZeroDivisionError

    run.report(breaks())
    assert custody.flush(5)
    assert custody.counters().facts_told == 1
    assert custody.counters().troubles["facts"] >= 1


def test_a_run_that_is_not_admitted_tells_none(service, custody):
    service.admission = {"admitted": False, "reason": "content_opt_out", "ticket": None}
    run = custody.run("r-1")
    run.report([fact()])
    until(lambda: custody.counters().facts_lost == {"content_opt_out": 1})
    run.report([fact(1), fact(2)])
    assert custody.flush(5)
    assert custody.counters().facts_lost == {"content_opt_out": 3}
    assert service.facts() == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "reply",
    [
        closing,
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"),
        lambda _, __, sock: send(sock, 202, {"facts": []}),
        lambda _, __, sock: send(sock, 202, {"ok": True}),
    ],
    ids=["closing", "html", "too few", "other"],
)
def test_an_unanswered_request_goes_once_more_with_the_same_bytes_and_is_then_lost(service, custody, reply):
    run = custody.run("r-1", wait=2)
    service.answers["facts"] = reply
    run.report([fact(1), fact(2)])
    until(lambda: custody.counters().facts_lost == {"client_transport": 2})
    first, second = service.calls("facts")
    assert first.body == second.body
    service.answers.clear()
    run.report([fact(3)])
    assert custody.flush(5)
    assert custody.counters().facts_told == 1


def test_a_resend_that_is_answered_is_no_loss(service, custody):
    run = custody.run("r-1", wait=2)
    service.answers["facts"] = in_turn(closing, healthy)
    run.report([fact(1)])
    assert custody.flush(5)
    assert (custody.counters().facts_told, custody.counters().facts_lost) == (1, {})


def test_what_the_service_does_not_remember_is_counted_by_its_reason_and_not_told_again(service, custody):
    def some(_, asked, sock):
        reasons = ["capacity_exceeded", None, "encoding_failed", "something_new"]
        send(sock, 202, {"facts": [{"type": "fact", "recorded": not r, "reason": r} for r in reasons]})

    service.answers["facts"] = some
    run = custody.run("r-1", wait=2)
    run.report([fact(n) for n in range(4)])
    assert custody.flush(5)
    counters = custody.counters()
    assert counters.facts_told == 1
    assert counters.facts_lost == {"capacity_exceeded": 1, "encoding_failed": 1, "client_transport": 1}
    assert len(service.calls("facts")) == 1


def test_an_expired_ticket_is_renewed_once_and_the_same_facts_go_again(service, custody):
    service.answers["facts"] = in_turn(problem(403, "ticket_expired"), healthy)
    run = custody.run("r-1", wait=2)
    run.report([fact(1)])
    assert custody.flush(5)
    assert custody.counters().facts_told == 1
    first, second = service.calls("facts")
    assert first.body == second.body


def test_a_refusal_of_the_run_is_one_for_its_captures_too(service, custody):
    service.answers["facts"] = problem(403, "content_opt_out")
    run = custody.run("r-1", wait=2)
    run.report([fact(1)])
    until(lambda: custody.counters().facts_lost == {"content_opt_out": 1})
    until(lambda: not run.admits("logical-request"))


def test_a_service_that_hangs_holds_up_no_caller_and_no_end_of_the_process(service):
    service.answers["facts"] = hanging
    client = Custody(service.url, KEY)
    run = client.run("r-1", wait=2)
    began = time.perf_counter()
    run.report([fact(1)])
    until(lambda: service.calls("facts"))
    run.report([fact(2)])
    assert time.perf_counter() - began < 5
    began = time.perf_counter()
    client.close(timeout=1.0)
    assert time.perf_counter() - began < 2
    service.released.set()
    until(lambda: sum(client.counters().facts_lost.values()) == 2)


def test_many_threads_report_at_once_and_every_fact_is_told_or_counted(service, custody):
    run = custody.run("r-1", wait=2)
    threads = [
        threading.Thread(target=lambda at=at: [run.report([fact(at * 1000 + n), b""]) for n in range(200)])
        for at in range(5)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert custody.flush(20)
    counters = custody.counters()
    assert counters.facts_lost.pop("client_unserialisable") == 1000
    assert counters.facts_told + sum(counters.facts_lost.values()) == 1000
    assert len(set(names(service))) == counters.facts_told


def test_captures_and_facts_take_turns(service, custody):
    run = custody.run("r-1", wait=2)
    for n in range(3):
        run.report([fact(n)])
        run.exchange().attempt().capture_request({"messages": []})
    assert custody.flush(5)
    assert (custody.counters().delivered, custody.counters().facts_told) == (3, 3)
