"""Whatever the service does: nothing raises, nothing waits, no storm, and every observation is accounted for."""

import socket
import time

import pytest

from custody_client import Bounds, Custody
from custody_client.pauses import Pause
from tests.support.scripted import (
    KEY,
    closing,
    hanging,
    healthy,
    in_turn,
    outcome,
    problem,
    raw,
    send,
    trickling,
    until,
)

SLOW = 0.25
"""Far more than a capture takes, and far less than anything that would wait for the service."""


@pytest.fixture
def quick(monkeypatch):
    """Pauses that take no time, where a test is not about them."""
    monkeypatch.setattr("custody_client.pauses._FIRST_S", 0.02)


@pytest.fixture
def short(monkeypatch):
    """Requests that are given up after half a second."""
    monkeypatch.setattr("custody_client.sender._REQUEST_S", 0.5)


def capture(run, many=1):
    """Capture, and return how long the longest took."""
    longest = 0.0
    for _ in range(many):
        attempt = run.exchange().attempt()
        begun = time.perf_counter()
        attempt.capture_request({"messages": []})
        longest = max(longest, time.perf_counter() - begun)
    return longest


RUBBISH = {
    "html": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"),
    "no http": raw(b"220 mail.example ESMTP\r\n"),
    "half a head": raw(b"HTTP/1.1 200 OK\r\nContent-"),
    "cut off": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"),
    "wrong length": raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "endless head": raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n"),
    "redirect": raw(
        b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
    ),
    "nothing": raw(b""),
    "other json": lambda _, __, sock: send(sock, 202, {"ok": True}),
    "a list": lambda _, __, sock: send(sock, 202, [1, 2]),
    "too few": lambda _, __, sock: send(sock, 202, {"receipts": [], "gaps": []}),
    "proxy's 503": raw(b"HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\nContent-Length: 4\r\n\r\nBusy"),
    "problem of nobody": lambda _, __, sock: send(sock, 400, {"reason": "odd"}),
}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_is_no_answer_the_same_bytes_go_once_more_and_then_they_are_lost(service, custody, name):
    run = custody.run("r-1", wait=2)
    service.answers["frames"] = RUBBISH[name]
    assert capture(run) < SLOW
    until(lambda: custody.counters().not_captured == {"client_transport": 1})
    first, second = service.calls("frames")
    assert first.body == second.body
    assert first.headers["Custody-Sequences"] == "1"
    service.answers.clear()
    until(lambda: service.gaps() == {"client_transport": {1}})


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_for_an_admission_admits_nothing(service, custody, name):
    service.answers["declare"] = in_turn(RUBBISH[name], healthy)
    run = custody.run("r-1")
    assert capture(run) < SLOW
    until(lambda: run.admits("logical-request"))
    run.close()
    until(lambda: service.gaps() == {"client_transport": {1}})


@pytest.mark.parametrize("reply", [hanging, trickling, closing])
@pytest.mark.usefixtures("short", "quick")
def test_a_service_that_hangs_trickles_or_breaks_off_is_given_up(service, custody, reply):
    run = custody.run("r-1", wait=2)
    service.answers["frames"] = reply
    assert capture(run, 3) < SLOW
    until(lambda: custody.counters().not_captured == {"client_transport": 3})
    assert len(service.calls("frames")) == 2
    service.answers.clear()
    service.released.set()
    run.close()
    assert list(until(service.closings)[0].values()) == [3]
    assert service.gaps() == {"client_transport": {1, 2, 3}}


def test_a_resend_that_is_answered_is_no_loss(service, custody):
    service.answers["frames"] = in_turn(closing, healthy)
    run = custody.run("r-1", wait=2)
    capture(run, 2)
    run.close()
    assert custody.flush(5)
    assert (custody.counters().delivered, service.gaps()) == (2, {})


def test_what_could_not_even_be_sent_waits_for_the_service(service, custody):
    run = custody.run("r-1", wait=2)
    service.vanish()
    capture(run, 5)
    until(lambda: custody.counters().unanswered >= 2)
    service.come_back()
    run.close()
    until(service.closings)
    assert [part["sequence"] for part in service.parts()] == [1, 2, 3, 4, 5]
    assert service.gaps() == {}


def test_but_not_for_ever(service, custody, monkeypatch):
    monkeypatch.setattr("custody_client.deliveries._PATIENCE_S", 0.5)
    run = custody.run("r-1", wait=2)
    service.vanish()
    capture(run, 5)
    until(lambda: custody.counters().not_captured == {"client_transport": 5})
    assert custody.counters().waiting == 0
    service.come_back()
    run.close()
    until(service.closings)
    assert service.gaps() == {"client_transport": {1, 2, 3, 4, 5}}


def test_a_service_that_is_not_there_at_first_is_asked_until_it_is(service, custody):
    service.vanish()
    run = custody.run("r-1")
    capture(run, 3)
    until(lambda: custody.counters().unanswered >= 2)
    service.come_back()
    until(lambda: run.admits("logical-request"))
    capture(run)
    run.close()
    until(service.closings)
    assert service.gaps() == {"client_transport": {1, 2, 3}}
    assert [part["sequence"] for part in service.parts()] == [4]


@pytest.mark.parametrize("reason", ["queue_unavailable", "store_unavailable", "capacity_exceeded"])
def test_an_outage_is_told_as_what_it_is_and_not_resent(service, custody, reason):
    run = custody.run("r-1", wait=2)
    service.answers["frames"] = problem(503 if "un" in reason else 429, reason, recorded=False)
    capture(run)
    until(lambda: custody.counters().not_captured == {reason: 1})
    assert len(service.calls("frames")) == 1
    service.answers.clear()
    run.close()
    custody.flush(0.1)
    # It asked for an hour; half a minute is what it gets, unless somebody presses.
    custody.flush(0.5)
    until(lambda: service.gaps() == {reason: {1}})


def test_an_outage_at_the_declaration_is_no_refusal(service, custody):
    service.answers["declare"] = in_turn(problem(503, "store_unavailable"), healthy)
    run = custody.run("r-1")
    capture(run)
    until(lambda: service.calls("declare"))
    custody.flush(1)
    until(lambda: run.admits("logical-request"))
    until(lambda: service.gaps() == {"client_transport": {1}})


def test_a_gap_that_is_not_recorded_is_told_again(service, custody):
    def not_now(_, asked, sock):
        said = [outcome(["gap"], recorded=False, reason="capacity_exceeded") for _ in asked.json["gaps"]]
        send(sock, 202, {"gaps": said})

    service.admission |= {"admitted": False, "reason": "not_sampled"}
    service.answers["gaps"] = in_turn(not_now, closing, healthy)
    run = custody.run("r-1", wait=2)
    capture(run)
    run.close()
    until(service.closings)
    assert len(service.calls("gaps")) == 3
    assert len({each.body for each in service.calls("gaps")}) == 1


def test_states_are_said_again_only_where_the_service_could_not_remember(service, custody):
    def not_now(_, asked, sock):
        said = [outcome(frame, recorded=False, reason="capacity_exceeded") for frame in asked.frames]
        send(sock, 202, {"receipts": said})

    service.answers["frames"] = in_turn(not_now, healthy)
    run = custody.run("r-1", wait=2)
    run.exchange("x").attempt("a").settled("completed")
    until(lambda: len(service.states()) == 2)
    assert (
        service.states()[0]
        == service.states()[1]
        == {"exchange": "x", "attempt": "a", "settlement": "completed"}
    )


def test_there_is_no_storm(service, custody):
    """A service that breaks everything off, a runtime that never stops: a few requests a second, then fewer."""
    run = custody.run("r-1", wait=2)
    for call in ("frames", "gaps", "declare"):
        service.answers[call] = closing
    service.asked.clear()
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        assert capture(run, 20) < SLOW
        time.sleep(0.01)
    assert 2 <= len(service.asked) <= 7


def test_pressing_is_no_storm_either(service, custody):
    custody.run("r-1", wait=2)
    service.answers["frames"] = closing
    service.asked.clear()
    end = time.monotonic() + 1.0
    run = custody.run("r-1")
    while time.monotonic() < end:
        capture(run)
        custody.flush(0.01)
    assert len(service.asked) <= 6


def test_pauses_grow_and_end_with_an_answer():
    pause = Pause()
    waits = []
    for _ in range(12):
        pause.failed(100.0)
        waits.append(pause.until - 100.0)
    assert 0.25 <= waits[0] <= 0.5
    assert 15 <= waits[-1] <= 30
    pause.failed(100.0, 3600)
    assert pause.until == 130.0
    pause.once_more()
    assert 100.2 < pause.until < 100.3
    pause.answered()
    assert pause.over(0.0)


def test_a_name_that_is_looked_up_for_ever_holds_up_nothing(monkeypatch):
    def never(*_, flags=0, **__):
        if flags:
            raise socket.gaierror
        time.sleep(3)
        return []

    monkeypatch.setattr("custody_client.resolving.socket.getaddrinfo", never)
    monkeypatch.setattr("custody_client.sender._REQUEST_S", 0.3)
    custody = Custody("http://custody.example", KEY)
    run = custody.run("r-1")
    assert capture(run, 10) < SLOW
    until(lambda: custody.counters().unanswered >= 2)
    begun = time.monotonic()
    custody.close(timeout=0.5)
    assert time.monotonic() - begun < 2


def test_a_name_that_was_found_serves_while_it_cannot_be_looked_up(service, monkeypatch):
    url = service.url.replace("127.0.0.1", "localhost")
    monkeypatch.setattr("custody_client.resolving._FRESH_S", 0.0)
    for _ in range(2):
        custody = Custody(url, KEY)
        assert custody.run("r-1", wait=2).admits("logical-request")
        custody.close(timeout=0.5)
        # As where the interpreter ends, and in its end forked from this one.
        monkeypatch.setattr("custody_client.resolving.Thread", _no_thread)


def _no_thread(**_):
    raise RuntimeError("can't start new thread at interpreter shutdown")


def test_a_name_that_nobody_knows_is_no_answer():
    custody = Custody("http://nobody.invalid:1", KEY)
    capture(custody.run("r-1"))
    until(lambda: custody.counters().unanswered)
    custody.close(timeout=0.2)


def test_trouble_is_said_once_in_a_while_and_without_content(service, custody, caplog):
    run = custody.run("r-1", wait=2)
    service.answers["frames"] = closing
    for _ in range(3):
        run.exchange().attempt().capture_request({"CANARY-7f3a": object()})
    run.exchange().attempt().capture_request("CANARY-7f3a")
    until(lambda: custody.counters().not_captured.get("client_transport"))
    until(lambda: len(caplog.records) >= 2)
    assert sorted(record.message.partition(":")[0] for record in caplog.records) == [
        "client_unserialisable",
        "transport",
    ]
    assert "CANARY" not in caplog.text
    assert KEY not in caplog.text
    assert "ct1." not in caplog.text
    assert "object at $.{0}" in caplog.text


# --- bounds


def test_a_full_run_refuses_the_newcomer_without_a_look_and_evicts_nobody(service):
    custody = Custody(service.url, KEY, bounds=Bounds(run_parts=3, run_bytes=100, parts=5, bytes=150))
    service.answers["frames"] = in_turn(hanging, healthy)
    one, two = custody.run("r-1", wait=2), custody.run("r-2", wait=2)

    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError(name)

    def put(run, content):
        run.exchange().attempt().capture_request(content)

    for _ in range(3):
        put(one, b"x" * 30)
    put(one, Untouchable())  # as many as it may have
    put(two, b"x" * 101)  # more bytes than it may have
    put(two, b"x" * 60)
    put(two, b"y")  # more bytes than all may have
    assert (custody.counters().waiting, custody.counters().waiting_bytes) == (4, 150)
    service.released.set()
    for run in (one, two):
        run.close()
    until(lambda: len(service.closings()) == 2)
    assert sorted(len(part["body"]) for part in service.parts()[-4:]) == [30, 30, 30, 60]
    assert custody.counters().not_captured == {"client_queue_full": 3}
    assert (custody.counters().waiting, custody.counters().waiting_bytes) == (0, 0)
    custody.close()


def test_a_burst_goes_in_flushes_that_the_store_takes(service, custody):
    service.admission["limits"] = {"run_waiting_parts": 10}
    run = custody.run("r-1", wait=2)
    for _ in range(40):
        run.exchange().attempt().capture_request(b"x")
    assert custody.flush(5)
    flushes = service.calls("frames")
    assert [len(each.frames) for each in flushes] == [10, 10, 10, 10]
    assert [part["sequence"] for part in service.parts()] == list(range(1, 41))


def test_large_parts_go_alone(service, custody):
    service.admission["limits"] = {"run_waiting_bytes": 300_000}
    run = custody.run("r-1", wait=2)
    for _ in range(3):
        run.exchange().attempt().capture_request(b"x" * 200_000)
    assert custody.flush(5)
    assert [len(each.frames) for each in service.calls("frames")] == [1, 1, 1]


def test_many_threads_number_everything_once(service, custody):
    from threading import Thread  # noqa: PLC0415 - only here

    run = custody.run("r-1", wait=2)
    threads = [Thread(target=capture, args=(run, 200)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.close()
    until(service.closings)
    assert list(service.closings()[0].values()) == [1200]
    stored = [part["sequence"] for part in service.parts()]
    lost = service.gaps().get("client_queue_full", set())
    assert len(stored) == len(set(stored))
    assert not lost & set(stored)
    assert lost | set(stored) == set(range(1, 1201))


def test_a_run_closes_with_the_numbers_of_what_came_too_late(service, custody):
    run = custody.run("r-1", wait=2)
    capture(run, 2)
    run.close()
    capture(run, 1)
    until(service.closings)
    assert list(service.closings()[0].values()) == [3]
    assert service.gaps() == {"run_closed": {3}}
    capture(run, 1)
    # The service knows of the closing before its answer is here.
    until(lambda: not custody.office.accounts)
    assert custody.run("r-1") is not run


def test_runs_that_nobody_closes_are_forgotten_and_come_back(service, monkeypatch):
    monkeypatch.setattr("custody_client.sender._QUIET_S", 0.05)
    custody = Custody(service.url, KEY, bounds=Bounds(runs=4))
    first = custody.run("r-0", wait=2)
    capture(first)
    for number in range(1, 30):
        until(lambda: len(custody.office.accounts) < 4)
        capture(custody.run(f"r-{number}", wait=2))
    assert custody.flush(5)
    until(lambda: len(custody.office.accounts) < 4)
    again = custody.run("r-0", wait=2)
    assert again is not first
    capture(first, 2)
    capture(again)
    until(lambda: first.admits("logical-request"))
    capture(first)
    assert custody.flush(5)
    sessions = {
        asked.headers["Custody-Session"] for asked in service.calls("frames") if "/r-0/" in asked.path
    }
    assert len(sessions) == 2
    counters = custody.counters()
    assert counters.observed == counters.delivered + sum(counters.not_captured.values())
    assert set(counters.not_captured) == {"not_observed"}
    custody.close()


@pytest.mark.long
def test_two_hundred_thousand_captures_into_a_dead_service_are_all_told_when_it_is_back(service):
    import resource  # noqa: PLC0415 - only here
    import tracemalloc  # noqa: PLC0415 - only here

    custody = Custody(service.url, KEY)
    refused, run = custody.run("r-0", wait=2), custody.run("r-1", wait=2)
    service.vanish()
    never = custody.run("r-2")
    until(lambda: custody.counters().unanswered)
    capture(run, 1000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        for each in (refused, run, never):
            capture(each, 1000)
    assert tracemalloc.get_traced_memory()[0] - before < 4 << 20
    tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20
    service.come_back()
    for each in (refused, run, never):
        each.close()
    custody.flush(20)
    until(lambda: len(service.closings()) == 3, 30)
    counters = custody.counters()
    assert counters.observed == 601_000
    assert sum(counters.not_captured.values()) + counters.delivered == 601_000
    assert (counters.untold, counters.undecided) == (0, 0)
    custody.close()
